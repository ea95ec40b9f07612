"""Refuses text that is clearly in another language than that of the policies.

Entity models find almost nothing in a language that they were not trained on, and do not report this.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from pipelines.corpus.languages import LANGUAGES, WORD, counts_of, is_latin
from pipelines.errors import ConfigError

_MIN_WORDS: Final = 100
_MIN_SHARE: Final = 0.2
_MAX_WORDS: Final = 20_000
_OR_NO_CHECK: Final = (
    ", hold such documents back (split.other_languages), or redact.check_language = false (--language, --model and "
    "--any-language of the commands)"
)


def check_text(texts: Iterable[str], language: str) -> None:
    """Compares the shares of stop words of a few languages, and checks the script.

    Short text, text of names and numbers only, and mixtures pass. The check refuses only clear cases.

    Args:
        texts: sample of the texts.
        language: language code of the policies. A code outside `LANGUAGES` is not checked.

    Raises:
        ConfigError: at least a fifth of the words are stop words of another language, and more than twice as many as
            those of ``language``; or fewer than half of the letters are Latin.
    """
    if language not in LANGUAGES:
        return
    words = list(islice((match[0].casefold() for text in texts for match in WORD.finditer(text)), _MAX_WORDS))
    if len(words) < _MIN_WORDS:
        return
    if not is_latin(words):
        raise ConfigError(
            f"redact.language is '{language}', but most of the text is not in Latin letters; set redact.language and a "
            f"model for it (redact.model){_OR_NO_CHECK}"
        )
    counts = counts_of(words)
    shares = {code: counts[code] / len(words) for code in LANGUAGES}
    likeliest = max(shares, key=lambda code: shares[code])
    if shares[likeliest] >= _MIN_SHARE and shares[likeliest] > 2 * shares[language]:
        raise ConfigError(
            f"redact.language is '{language}', but the text looks like '{likeliest}' ({shares[likeliest]:.0%} of its "
            f"words are stop words of that language, {shares[language]:.0%} of '{language}'); set redact.language and "
            f"a model for it (redact.model){_OR_NO_CHECK}"
        )
