"""Utility on text that the policies found, on the rest, and by domain. Imports no torch.

Every figure that is computed on private text is a separate release that the epsilon of training does not cover (design,
section 5, "Accounting", 5). Which held-out text is private is itself a finding of the policies, so all of this is
private.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.tables import Table
from pipelines.training.data.alignment import NO_WORD, bits_per_byte
from pipelines.training.data.rows import private_ranges

OUTSIDE_EPSILON: Final = (
    "computed on held-out text by what the policies found in it: the epsilon of training covers the weights, not these "
    "figures. Each is a release of its own; keep them on the trusted side."
)
_BATCH_ROWS = 2_048
_SCORES = (
    *("doc_id", "sentence_index", "token_starts", "token_ends", "token_words", "token_bytes", "losses", "is_right"),
    *("word_is_right", "end_losses", "end_is_right"),
)
_MARKS = ("doc_id", "sentence_index", "spans", "num_masked_tokens", "is_duplicate", "failed_closed", "domain")


@dataclass
class UtilitySums:
    """Sums over a part of the held-out text.

    Attributes:
        num_tokens, num_right_tokens, token_loss: number of tokens, number that the model ranks first, and their loss.
        num_bytes: number of bytes of those tokens' text, and one for each end.
        num_words, word_loss: number of words and their loss, with all their tokens and with blanks that no word
            follows.
        num_asked_words, num_right_words: number of words that `alignment.right_words` judges, and of right ones.
    """

    num_tokens: int = 0
    num_right_tokens: int = 0
    token_loss: float = 0.0
    num_bytes: int = 0
    num_words: int = 0
    word_loss: float = 0.0
    num_asked_words: int = 0
    num_right_words: int = 0

    def add_token(self, loss: float, is_right: bool, num_bytes: int) -> None:
        """Adds a token, with the number of bytes of text that it adds."""
        self.num_bytes += num_bytes
        self.num_tokens += 1
        self.num_right_tokens += is_right
        self.token_loss += loss

    def add_word(self, loss: float, is_right: bool | None) -> None:
        """Adds a word. ``is_right`` is None if the word was not judged."""
        self.num_words += 1
        self.word_loss += loss
        self.num_asked_words += is_right is not None
        self.num_right_words += bool(is_right)

    def figures(self) -> dict[str, Any]:
        """Returns perplexity, bits per byte and accuracy by token and word. A figure without data is None."""
        return {
            "num_tokens": self.num_tokens,
            "num_words": self.num_words,
            "perplexity": _perplexity(self.token_loss, self.num_tokens),
            "perplexity_per_word": _perplexity(self.word_loss, self.num_words),
            "bits_per_byte": bits_per_byte(self.token_loss, self.num_bytes),
            "next_token_accuracy": self.num_right_tokens / self.num_tokens if self.num_tokens else None,
            "next_word_accuracy": self.num_right_words / self.num_asked_words if self.num_asked_words else None,
        }


def split_utility(scores: Table, redacted: Iterable[Table]) -> dict[str, Any]:
    """Returns utility on private and on public tokens, and by domain.

    A token is private if any of its characters is masked. A word is private if any of its tokens is. The end of a
    record counts as public tokens and a public word. Rows that are masked as a whole (later copies, failures of a
    policy) were not examined, and form their own group.

    Args:
        scores: table ``token_scores`` with the model's scores on held-out rows. It is read into memory.
        redacted: redacted tables, which say what is private.

    Returns:
        ``groups`` (all, public, private, masked_whole), ``domains`` (each with `UtilitySums.figures`), and a ``note``.
    """
    rows: dict[tuple[str, int], Mapping[str, Any]] = {}
    for batch in scores.batches(_SCORES, _BATCH_ROWS):
        rows |= {(row["doc_id"], row["sentence_index"]): row for row in batch.to_pylist()}
    groups = {name: UtilitySums() for name in ("all", "public", "private", "masked_whole")}
    domains: dict[str, UtilitySums] = {}
    for table in redacted:
        for batch in table.batches(_MARKS, _BATCH_ROWS):
            for mark in batch.to_pylist():
                row = rows.get((mark["doc_id"], mark["sentence_index"]))
                if row is None:
                    continue
                whole = [groups["all"]]
                if mark["domain"] is not None:
                    whole.append(domains.setdefault(mark["domain"], UtilitySums()))
                _add(row, mark, whole, groups)
    return {
        "note": OUTSIDE_EPSILON,
        "groups": {name: group.figures() for name, group in groups.items()},
        "domains": {name: group.figures() for name, group in sorted(domains.items())},
    }


def _add(
    row: Mapping[str, Any], mark: Mapping[str, Any], always: Sequence[UtilitySums], groups: Mapping[str, UtilitySums]
) -> None:
    """Adds one held-out row to the groups of its tokens, and to the groups in ``always``."""
    ranges = private_ranges(" " * max(row["token_ends"], default=0), dict(mark))
    is_whole = bool(ranges) and not mark["spans"]
    word_loss: dict[int, float] = {}
    private_words: set[int] = set()

    def of(is_private: bool) -> UtilitySums:
        return groups["masked_whole"] if is_whole else groups["private" if is_private else "public"]

    columns = ("token_starts", "token_ends", "token_words", "token_bytes", "losses", "is_right")
    for start, end, word, num_bytes, loss, is_right in zip(*(row[name] for name in columns), strict=True):
        is_private = any(start < b and a < end for a, b in ranges)
        for group in (of(is_private), *always):
            group.add_token(loss, is_right, num_bytes)
        if word == NO_WORD:  # a blank that nothing follows has a loss and is no word
            for group in (of(is_private), *always):
                group.word_loss += loss
            continue
        word_loss[word] = word_loss.get(word, 0.0) + loss
        if is_private:
            private_words.add(word)
    for word, loss in word_loss.items():
        for group in (of(word in private_words), *always):
            group.add_word(loss, row["word_is_right"][word])
    for group in (of(False), *always) if row["end_losses"] else ():
        for loss, is_right in zip(row["end_losses"], row["end_is_right"], strict=True):
            group.add_token(loss, is_right, 1)
        group.add_word(sum(row["end_losses"]), None)


def _perplexity(loss: float, count: int) -> float | None:
    return math.exp(loss / count) if count and loss / count < 700 else None
