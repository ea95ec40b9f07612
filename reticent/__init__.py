"""The public API: the DP engine, policies, accounting, miss rates, and what runs and trainings leave behind."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.2.0"
"""The version, by semantic versioning; what counts as public is in docs/api.md."""
