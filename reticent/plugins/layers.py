"""Names for rules of layers. Packages offer rules under entry points of the group ``reticent.layer_rules``."""

from pipelines.dp.layers import Site
from pipelines.dp.rules import LayerRule
from pipelines.dp.uses import DenseUse, OuterUse, RowsUse

__all__ = ["DenseUse", "LayerRule", "OuterUse", "RowsUse", "Site"]
