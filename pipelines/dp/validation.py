"""A check that lists all problems of a model for private training, with the lines of code to change."""

from __future__ import annotations

import torch

from pipelines.dp.advice import change
from pipelines.dp.attach import Problem, layers_of
from pipelines.dp.state import mode_problem


def find_problems(model: torch.nn.Module) -> list[Problem]:
    """Finds what `PrivacyEngine.make_private` would refuse in a model in its current mode.

    Each problem, printed, names the module, says why, and gives the line to write. The first batches find the problems
    that only a batch shows (examples that are mixed in code, a weight that is read outside its layer).
    """
    found = layers_of(model)[1]
    named = {problem.name for problem in found}
    for name, module in model.named_modules():
        why = mode_problem(module)
        if why is not None and name not in named:
            found.append(Problem(name, type(module).__name__, why, change(name, module)))
    return found
