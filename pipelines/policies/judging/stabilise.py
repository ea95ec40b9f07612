"""Redaction that does not depend on what a mask hides: policies are asked until they find nothing new.

Confidentiality compares two worlds: a secret, and a mask written in its place by hand (CRT, Definition 2). A masked
secret costs nothing only if the redacted corpus is the same in both (the proof of Proposition 5). A model that looks
for entities breaks that: what it finds beside a name depends on the name.

So no policy reads here what another one has found. A *reading* is the sentence with one placeholder word for every
masked run, masks that stood in the original text included. Policies that read patterns go first, since a pattern does
not mind its neighbours; then those that read a model; and both again, until neither finds anything in the reading that
is left.

Formal guarantees, for policies that are functions of the sentence:

* *Ends*: every round but the last of a sentence masks one more token.
* *Idempotent*: the answer is the set M of tokens that were masked at the end, and no policy finds anything in the
  reading of M. The sentence with all of M masked by hand has that very reading from the start, so M is its answer too:
  masking by hand everything that was masked changes nothing. (The tokens outside M must be the same in both worlds.)
* *What patterns find first*: where the patterns find the same in both worlds, every later reading is the same too, so
  nothing that a model finds can depend on the value of a secret that patterns find.

Masking *one* of several finds by hand may still change the others: that is measured
(`pipelines.miss_rate.stability`), and a secret of which it is true counts as missed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pipelines.policies.protocol import Span
from pipelines.policies.redact import masked_runs

PLACEHOLDER: Final = "John"
"""The word that stands for a masked run in a reading. Why this one: docs/policies.md, "Stable redaction"."""

MAX_REMEMBERED: Final = 100_000

Tokens = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A text with the offsets of its tokens."""

Find = Callable[[Sequence[Tokens]], "list[list[Span] | str]"]
"""What policies find in each text; the name of the policy that failed on it, where one did."""

Marked = tuple[str, Sequence[int], Sequence[int], Sequence[Span]]
"""A sentence: text, starts, ends, and what is masked from the start."""


class Reading(NamedTuple):
    """A sentence as policies read it.

    Attributes:
        tokens: text and offsets, with a placeholder for every masked run.
        back: for each token of it, the half-open range of the sentence's tokens that it stands for.
        is_placeholder: for each token of it, whether it stands for a masked run.
    """

    tokens: Tokens
    back: tuple[tuple[int, int], ...]
    is_placeholder: tuple[bool, ...]


def reading_of(
    text: str,
    starts: Sequence[int],
    ends: Sequence[int],
    mask: bytes | bytearray,
    placeholder: str = PLACEHOLDER,
) -> Reading:
    """The sentence with a placeholder for every masked run; as it is where nothing is masked.

    Args:
        text: of the sentence.
        starts, ends: character offsets of its tokens.
        mask: one byte a token, 1 where it is masked.
        placeholder: one word.
    """
    pieces: list[str] = []
    new_starts: list[int] = []
    new_ends: list[int] = []
    back: list[tuple[int, int]] = []
    is_placeholder: list[bool] = []
    at = length = token = 0  # characters read, characters written, tokens read

    def copy_tokens(until: int) -> None:
        nonlocal token
        while token < until:
            new_starts.append(starts[token] - at + length)
            new_ends.append(ends[token] - at + length)
            back.append((token, token + 1))
            is_placeholder.append(False)
            token += 1

    for first, last in masked_runs(text, starts, ends, mask):
        copy_tokens(first)
        before = text[at : starts[first]]
        pieces += (before, placeholder)
        length += len(before)
        new_starts.append(length)
        length += len(placeholder)
        new_ends.append(length)
        back.append((first, last))
        is_placeholder.append(True)
        at, token = ends[last - 1], last
    copy_tokens(len(starts))
    pieces.append(text[at:])
    return Reading(("".join(pieces), tuple(new_starts), tuple(new_ends)), tuple(back), tuple(is_placeholder))


def digest_of(tokens: tuple[str, Sequence[int], Sequence[int]], *flags: bool) -> bytes:
    """What policies may look at, and flags beside it, as 16 bytes."""
    text, starts, ends = tokens
    header = struct.pack(f"<{len(flags)}?Q{2 * len(starts)}I", *flags, len(starts), *starts, *ends)
    return hashlib.blake2b(header + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _State:
    """How far one sentence is."""

    def __init__(self, sentence: Marked, num_finders: int, placeholder: str) -> None:
        self._text, self._starts, self._ends, given = sentence
        self._placeholder = placeholder
        self._mask = bytearray(len(self._starts))
        self.spans = set(given)
        self.failed: str | None = None
        self.read_by: list[bytes | None] = [None] * num_finders
        for span in given:
            self._cover(span.start_token, span.end_token)
        self._read()

    def _cover(self, start: int, end: int) -> None:
        self._mask[start:end] = b"\x01" * (end - start)

    def _read(self) -> None:
        self.reading = reading_of(self._text, self._starts, self._ends, self._mask, self._placeholder)
        self.digest = digest_of(self.reading.tokens)

    def is_done(self) -> bool:
        """Whether there is nothing left to ask: a policy failed, or every finder has seen the reading that is left."""
        return self.failed is not None or all(digest == self.digest for digest in self.read_by)

    def add(self, finds: Sequence[Span]) -> None:
        """Takes over what was found in the reading. What is masked already is no find."""
        before = self._mask.count(1)
        for find in finds:
            first, last = find.start_token, find.end_token
            while first < last and self.reading.is_placeholder[first]:
                first += 1
            while last > first and self.reading.is_placeholder[last - 1]:
                last -= 1
            if first < last:
                start, end = self.reading.back[first][0], self.reading.back[last - 1][1]
                self.spans.add(find._replace(start_token=start, end_token=end))
                self._cover(start, end)
        if self._mask.count(1) > before:
            self._read()


class Stabiliser:
    """Finds in sentences what a union of policies masks; policies read placeholders in place of finds.

    Args:
        finders: what is asked in turn, those that read patterns first. Each must be a function of the text alone.
        placeholder: one word.
    """

    def __init__(self, finders: Sequence[Find], placeholder: str = PLACEHOLDER) -> None:
        self._finders = tuple(finders)
        self._placeholder = placeholder
        self._known: tuple[dict[bytes, list[Span] | str], ...] = tuple({} for _ in self._finders)

    def find_all(self, sentences: Sequence[Marked]) -> list[set[Span] | str]:
        """What is to be masked in each sentence.

        Args:
            sentences: each with the spans that are masked from the start (masks in the original text).

        Returns:
            The spans, those that were given included; the name of the policy that failed, where one did.
        """
        states = [_State(sentence, len(self._finders), self._placeholder) for sentence in sentences]
        live = [state for state in states if not state.is_done()]
        while live:
            for number in range(len(self._finders)):
                self._ask(number, live)
            live = [state for state in live if not state.is_done()]
        return [state.spans if state.failed is None else state.failed for state in states]

    def _ask(self, number: int, states: Sequence[_State]) -> None:
        """Lets one finder read what it has not read yet; equal readings once."""
        todo = [s for s in states if s.failed is None and s.read_by[number] != s.digest]
        known = self._known[number]
        unread = {s.digest: s.reading.tokens for s in todo if s.digest not in known}
        found = dict(zip(unread, self._finders[number](list(unread.values())), strict=True)) if unread else {}
        for state in todo:
            finds = found[state.digest] if state.digest in found else known[state.digest]
            state.read_by[number] = state.digest
            if isinstance(finds, str):
                state.failed = finds
            else:
                state.add(finds)
        for digest, finds in found.items():
            if len(known) >= MAX_REMEMBERED:
                break
            known[digest] = finds
