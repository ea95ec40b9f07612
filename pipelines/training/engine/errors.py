"""What the engine refuses, and what to do about it. No message holds a loss, a norm or an example."""

from __future__ import annotations

from pipelines.errors import ConfigError, PrivacyGateError, StageError


class UnsupportedLayerError(ConfigError):
    """A trainable parameter whose gradients for single examples the engine cannot take."""


class IsolationError(PrivacyGateError):
    """The loss of one example depends on another example, or the example axis is not the first one."""


class LossError(StageError):
    """The losses cannot be used: not one for each example, or not finite."""
