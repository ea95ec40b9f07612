"""The mask token for a masked run of text, and its possible replacements."""

from typing import Final, Literal

MASK: Final = "<MASK>"

Replacement = Literal["mask", "label", "surrogate"]
"""The text that redaction writes: the mask token, the kind of secret (``<PERSON>``), or a realistic surrogate."""
