"""What a reader of files is written with. Packages offer readers under entry points of ``reticent.readers``."""

from pipelines.corpus.formats import FormatSpec
from pipelines.corpus.items import BadRow, Reason

__all__ = ["BadRow", "FormatSpec", "Reason"]
