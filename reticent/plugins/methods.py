"""What a training method says of itself. Packages offer methods under entry points of ``reticent.methods``."""

from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import NoisedSteps, PlainSteps
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View

__all__ = ["MethodRule", "MethodSpec", "NoisedSteps", "PlainSteps", "View"]
