"""Names for readers of files. Packages offer readers under entry points of the group ``reticent.readers``."""

from pipelines.corpus.format_spec import FormatSpec
from pipelines.corpus.items import BadRow, Reason

__all__ = ["BadRow", "FormatSpec", "Reason"]
