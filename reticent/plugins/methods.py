"""Names for specs of training methods. Packages offer methods under entry points of the group ``reticent.methods``."""

from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import NonprivateSteps, PrivateSteps
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View

__all__ = ["MethodRule", "MethodSpec", "NonprivateSteps", "PrivateSteps", "View"]
