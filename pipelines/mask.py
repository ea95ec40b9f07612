"""The mask token that stands for a masked run of text."""

from typing import Final

MASK: Final = "<MASK>"
