"""A policy for the caller's lists of names: ``redact.names`` and ``redact.names_file``."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import ConfigError
from pipelines.policies.detectors.phrases import PhraseTable
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span


class NamesPolicy(NamedPolicy):
    """Masks every listed name, in any case. The words of a name must be adjacent."""

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        listed = [*options.names, *(read_names(Path(options.names_file)) if options.names_file else ())]
        self._table = PhraseTable((name, "NAME") for name in listed)
        if not self._table:
            raise ConfigError("policy 'names' needs names: set redact.names or redact.names_file")

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all listed names."""
        return sentence.spans(self._table.find(sentence.text), self._name)


def read_names(path: Path) -> list[str]:
    """Reads one name per line. Skips empty lines and lines that begin with ``#``.

    Raises:
        ConfigError: the file cannot be read as UTF-8 text.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"redact.names_file: {path} cannot be read as UTF-8 text ({type(error).__name__})") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
