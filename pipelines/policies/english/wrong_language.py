"""Tells text that is plainly in another language than the policies were made for, before any work is done on it.

Entity models find next to nothing in a language that they were not trained on, and say nothing about it.
"""

from __future__ import annotations

import functools
import re
import runpy
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from pipelines.errors import ConfigError

LANGUAGES: Final = ("da", "de", "en", "es", "fr", "hu", "it", "nl", "pl", "pt", "ro", "sv", "tr")
"""Languages whose stop words are compared; all are written in Latin letters."""

_WORD: Final = re.compile(r"[^\W\d_]+")
_MIN_WORDS: Final = 100
_MIN_SHARE: Final = 0.2
_MAX_WORDS: Final = 20_000
_OR_NO_CHECK: Final = ", or redact.check_language = false (--language, --model and --any-language of the commands)"


def check_text(texts: Iterable[str], language: str) -> None:
    """Compares the share of stop words of a few languages, and looks at the script.

    Too little text, names and numbers only, or a mixture pass: this refuses what is certainly wrong, no more.

    Args:
        texts: a sample.
        language: the language code that the policies are for; one that is not in `LANGUAGES` is not checked.

    Raises:
        ConfigError: at least a fifth of the words are stop words of another language, and twice as many as of
            ``language``; or fewer than half of the letters are Latin.
    """
    if language not in LANGUAGES:
        return
    found = (match[0].casefold() for text in texts for match in _WORD.finditer(text))
    words = list(islice(found, _MAX_WORDS))
    if len(words) < _MIN_WORDS:
        return
    num_latin = sum(word[0] < "\u0250" for word in words)
    if 2 * num_latin < len(words):
        raise ConfigError(
            f"redact.language is '{language}', but most of the text is not in Latin letters; set redact.language and a "
            f"model for it (redact.model){_OR_NO_CHECK}"
        )
    shares = {code: sum(word in stop_words(code) for word in words) / len(words) for code in LANGUAGES}
    likeliest = max(shares, key=lambda code: shares[code])
    if shares[likeliest] >= _MIN_SHARE and shares[likeliest] > 2 * shares[language]:
        raise ConfigError(
            f"redact.language is '{language}', but the text looks like '{likeliest}' ({shares[likeliest]:.0%} of its "
            f"words are stop words of that language, {shares[language]:.0%} of '{language}'); set redact.language and "
            f"a model for it (redact.model){_OR_NO_CHECK}"
        )


@functools.cache
def stop_words(language: str) -> frozenset[str]:
    """spaCy's stop words of a language."""
    import spacy.lang

    # The file alone: the package beside it compiles every tokeniser exception of the language, which takes seconds.
    file = Path(spacy.lang.__path__[0]) / language / "stop_words.py"
    return frozenset(runpy.run_path(str(file))["STOP_WORDS"])
