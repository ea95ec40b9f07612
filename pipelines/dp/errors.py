"""Errors of the engine. They say what to do next. No message holds a loss, a norm or an example."""

from __future__ import annotations

from pipelines.errors import ConfigError, PrivacyGateError, StageError


class UnsupportedLayerError(ConfigError):
    """A trainable parameter whose gradients for single examples the engine cannot take."""


class NoRuleError(UnsupportedLayerError):
    """A call that a layer's rule cannot run. The engine then takes one backward pass for each example."""


class IsolationError(PrivacyGateError):
    """A record's effect on the gradients depends on more than that record.

    The loss of an example depends on another example or on its place in the batch, the data set's ``__getitems__``
    looks at records together, the model keeps what it saw or changes without a step, or the examples' axis is not the
    first.
    """


class LossError(StageError):
    """Losses that cannot be used: not one for each example, or not finite."""


class NotFiniteError(LossError):
    """A loss or a gradient that is not a finite number."""
