"""Reticent: train language models on text that holds secrets, without the models learning them."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.2.0"
"""The version, by semantic versioning; what counts as public is in docs/api.md."""
