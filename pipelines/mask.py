"""The mask token that stands for a masked run of text, and what may stand there in its place."""

from typing import Final, Literal

MASK: Final = "<MASK>"

Replacement = Literal["mask", "label", "surrogate"]
"""What redaction writes: the mask token, what kind of secret it is (``<PERSON>``), or a realistic stand-in."""
