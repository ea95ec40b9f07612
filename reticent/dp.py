"""The DP engine: private training of an ordinary torch loop, in one backward pass.

The engine does DP-SGD (Abadi et al. 2016) without gradients of single examples of large layers (Li et al. 2022; Bu et
al. 2023). `docs/engine.md` has a whole loop, and lists what is checked and what is not.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from reticent.dp import PrivacyEngine
    >>> data = TensorDataset(torch.randn(40, 3), torch.randn(40))
    >>> model = torch.nn.Linear(3, 1)
    >>> engine = PrivacyEngine(accountant="pld")
    >>> model, optimizer, loader = engine.make_private(
    ...     module=model,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     data_loader=DataLoader(data, batch_size=10),  # records in an average step
    ...     noise_multiplier=1.0,
    ...     max_grad_norm=1.0,
    ... )
    >>> for x, y in loader:
    ...     _ = optimizer.backward((model(x)[:, 0] - y).square())  # one loss for each record
    ...     optimizer.step()
    >>> engine.num_steps
    4
    >>> 0 < engine.get_epsilon(delta=1e-3) < 20
    True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.dp.attach import Problem
from pipelines.dp.by_step import StepLoader
from pipelines.dp.clipping import AdaptiveClipping, ClippingName
from pipelines.dp.errors import IsolationError, LossError, NotFiniteError, UnsupportedLayerError
from pipelines.dp.gradients import ModeName
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.optimizer import PrivateOptimizer
from pipelines.dp.parameters import ExampleParameter
from pipelines.dp.privacy import ASSUMPTIONS, PrivacyEngine
from pipelines.dp.sampling import PoissonLoader
from pipelines.dp.schedules import StepSchedule
from pipelines.dp.uses import MemoryBudget
from pipelines.dp.validation import find_problems
from reticent._lazy import lazy

if TYPE_CHECKING:
    from pipelines.dp.callback import PrivacyCallback
    from pipelines.dp.trainer import PrivateTrainer

__all__ = [
    "ASSUMPTIONS",
    "AdaptiveClipping",
    "ClippingName",
    "ExampleParameter",
    "IsolationError",
    "LossError",
    "MemoryBudget",
    "ModeName",
    "NotFiniteError",
    "PoissonLoader",
    "PrivacyCallback",
    "PrivacyEngine",
    "PrivateOptimizer",
    "PrivateTrainer",
    "Problem",
    "StepLoader",
    "StepSchedule",
    "UnsupportedLayerError",
    "causal_lm_losses",
    "find_problems",
]

__getattr__, __dir__ = lazy(  # transformers is slow to import
    __name__, {"PrivacyCallback": "pipelines.dp.callback", "PrivateTrainer": "pipelines.dp.trainer"}
)
