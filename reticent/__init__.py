"""The public API: the DP engine, policies, accounting, miss rates, and the results of runs and trainings.

An import of the package loads nothing else. Each part loads its dependencies at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reticent._lazy import lazy

if TYPE_CHECKING:
    from reticent import accounting, dp, errors, miss_rate, models, plugins, policies, runs
    from reticent.dp import PrivacyEngine
    from reticent.errors import ReticentError
    from reticent.models import TrainedModel, open_trained
    from reticent.policies import Redactor, redact
    from reticent.runs import Run, Store, open, open_run, open_store

__version__: Final = "0.3.0"
"""The version, by semantic versioning. docs/api/ lists the public names."""

__all__ = [
    "PrivacyEngine",
    "Redactor",
    "ReticentError",
    "Run",
    "Store",
    "TrainedModel",
    "__version__",
    "accounting",
    "dp",
    "errors",
    "miss_rate",
    "models",
    "open",
    "open_run",
    "open_store",
    "open_trained",
    "plugins",
    "policies",
    "redact",
    "runs",
]

_PARTS: Final = ("accounting", "dp", "errors", "miss_rate", "models", "plugins", "policies", "runs")

__getattr__, __dir__ = lazy(
    __name__,
    {
        **{part: f"reticent.{part}" for part in _PARTS},
        "PrivacyEngine": "reticent.dp",
        "Redactor": "reticent.policies",
        "ReticentError": "reticent.errors",
        "Run": "reticent.runs",
        "Store": "reticent.runs",
        "TrainedModel": "reticent.models",
        "open": "reticent.runs",
        "open_run": "reticent.runs",
        "open_store": "reticent.runs",
        "open_trained": "reticent.models",
        "redact": "reticent.policies",
    },
)
