"""The caller's own lists of names: ``redact.names`` and ``redact.names_file``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.detectors.phrases import PhraseTable
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span


class NamesPolicy:
    """Masks every listed name, in any case; a name of several words only where all of them stand together."""

    needs: ClassVar[frozenset[str]] = SPECS["names"].components

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        listed = [*options.names, *(read_names(Path(options.names_file)) if options.names_file else ())]
        self._table = PhraseTable((name, "NAME") for name in listed)
        if not self._table:
            raise ConfigError("policy 'names' needs names: set redact.names or redact.names_file")

    def find(self, sentence: Sentence) -> list[Span]:
        """All listed names."""
        return sentence.spans(self._table.find(sentence.text), self._name)


def read_names(path: Path) -> list[str]:
    """One name a line; empty lines and those that begin with ``#`` are left out.

    Raises:
        ConfigError: the file cannot be read as UTF-8 text.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"redact.names_file: {path} cannot be read as UTF-8 text ({type(error).__name__})") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
