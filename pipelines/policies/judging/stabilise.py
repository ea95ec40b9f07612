"""Makes redaction independent of the hidden text: policies read placeholders until they find nothing new.

Confidentiality compares two worlds: one with a secret, and one in which a person overwrote the secret with a mask (CRT,
Definition 2). A masked secret costs nothing only if the redacted corpus is the same in both worlds (the proof of
Proposition 5). A model that looks for entities breaks this, because its finds near a name depend on the name.

So no policy reads the text that another policy found. A *reading* is the sentence with one placeholder word for every
masked run, including masks in the original text. Policies that match patterns run first, because a pattern ignores the
words around it. Policies that use a model run next. Both groups run again until neither finds anything in the last
reading.

Formal guarantees, for policies that are functions of the sentence:

* *Termination*: every round of a sentence except the last masks at least one more token. After `MAX_ROUNDS` rounds the
  sentence is masked whole, as if the policy that found something last had failed on it.
* *Idempotence*: the result is the set M of tokens that are masked at the end, and no policy finds anything in the
  reading of M. The sentence with all of M masked by hand has this same reading from the start, so M is its result too.
  Masking by hand everything that was masked changes nothing. (The tokens outside M must be the same in both worlds.)
* *Independence of pattern finds*: if the patterns find the same in both worlds, every later reading is the same too. So
  no find of a model can depend on the value of a secret that patterns find.

With an *original* finder, all policies also read the original once, after the fixed point, and both groups run again.
So no letter or digit stays open that policies find in the original alone. Idempotence stays, because in the sentence
masked by hand the original is the last reading. Independence of pattern finds does not hold for what this adds.

Masking *one* of several finds by hand may still change the others. `pipelines.miss_rate.stability` measures this, and a
secret whose masking by hand changes other finds counts as missed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from pipelines.policies.protocol import PLACEHOLDER as PLACEHOLDER
from pipelines.policies.protocol import Span
from pipelines.policies.redact import masked_runs

MAX_REMEMBERED: Final = 100_000
MAX_ROUNDS: Final = 24
"""Rounds after which a sentence in which policies still find something is masked whole. Time is then linear in the
length of the sentence. Ordinary sentences need two or three rounds."""

Tokens = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A text with the offsets of its tokens."""

Find = Callable[[Sequence[Tokens]], "list[list[Span] | str]"]
"""A function that returns the finds of policies in each text, or the name of the policy that failed on it."""

Marked = tuple[str, Sequence[int], Sequence[int], Sequence[Span]]
"""A sentence: text, starts, ends, and the spans that are masked from the start."""


class Reading(NamedTuple):
    """A sentence as policies read it.

    Attributes:
        tokens: text and offsets, with a placeholder for every masked run.
        back: half-open range of the sentence's tokens that each token of the reading represents.
        is_placeholder: flag of each token of the reading that it replaces a masked run.
    """

    tokens: Tokens
    back: tuple[tuple[int, int], ...]
    is_placeholder: tuple[bool, ...]


def reading_of(
    text: str, starts: Sequence[int], ends: Sequence[int], mask: bytes | bytearray, placeholder: str = PLACEHOLDER
) -> Reading:
    """Returns the sentence with a placeholder for every masked run.

    Args:
        text: text of the sentence.
        starts, ends: character offsets of its tokens.
        mask: one byte per token, 1 if it is masked.
        placeholder: single word.
    """
    if not any(mask):
        back = tuple(zip(range(len(starts)), range(1, len(starts) + 1), strict=True))
        return Reading((text, tuple(starts), tuple(ends)), back, (False,) * len(starts))
    pieces: list[str] = []
    new_starts: list[int] = []
    new_ends: list[int] = []
    ranges: list[tuple[int, int]] = []
    is_placeholder: list[bool] = []
    at = length = token = 0  # characters read, characters written, tokens read

    def copy_tokens(until: int) -> None:
        nonlocal token
        shift = length - at
        new_starts.extend([start + shift for start in starts[token:until]])
        new_ends.extend([end + shift for end in ends[token:until]])
        ranges.extend(zip(range(token, until), range(token + 1, until + 1), strict=True))
        is_placeholder.extend([False] * (until - token))
        token = until

    for first, last in masked_runs(text, starts, ends, mask):
        copy_tokens(first)
        before = text[at : starts[first]]
        pieces += (before, placeholder)
        length += len(before)
        new_starts.append(length)
        length += len(placeholder)
        new_ends.append(length)
        ranges.append((first, last))
        is_placeholder.append(True)
        at, token = ends[last - 1], last
    copy_tokens(len(starts))
    pieces.append(text[at:])
    return Reading(("".join(pieces), tuple(new_starts), tuple(new_ends)), tuple(ranges), tuple(is_placeholder))


def digest_of(tokens: tuple[str, Sequence[int], Sequence[int]], *flags: bool) -> bytes:
    """Returns 16 bytes that identify the text and token offsets that policies read, and some flags."""
    text, starts, ends = tokens
    header = struct.pack(f"<{len(flags)}?Q{2 * len(starts)}I", *flags, len(starts), *starts, *ends)
    return hashlib.blake2b(header + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _State:
    """The masks of one sentence so far, and the readings that each finder has seen.

    Attributes:
        original, first_digest: reading before any find, and its digest.
        missed_original: flag that some finder has not seen the original, because others had found something.
    """

    def __init__(self, sentence: Marked, num_finders: int, placeholder: str) -> None:
        self._text, self._starts, self._ends, given = sentence
        self._placeholder = placeholder
        self._mask = bytearray(len(self._starts))
        self.spans = set(given)
        self.last_policy = ""
        self.failed: str | None = None
        self.missed_original = False
        self.read_by: list[bytes | None] = [None] * num_finders
        for span in given:
            self._cover(span.start_token, span.end_token)
        self._read()
        self.original, self.first_digest = self.reading, self.digest

    def _cover(self, start: int, end: int) -> None:
        self._mask[start:end] = b"\x01" * (end - start)

    def _read(self) -> None:
        self.reading = reading_of(self._text, self._starts, self._ends, self._mask, self._placeholder)
        self.digest = digest_of(self.reading.tokens)

    def is_done(self) -> bool:
        """Returns true if a policy failed, or every finder has seen the current reading."""
        return self.failed is not None or all(digest == self.digest for digest in self.read_by)

    def add(self, finds: Sequence[Span]) -> None:
        """Masks the finds in the current reading. A placeholder is no find."""
        read = self.reading
        before = self._mask.count(1)
        for find in finds:
            first, last = find.start_token, find.end_token
            while first < last and read.is_placeholder[first]:
                first += 1
            while last > first and read.is_placeholder[last - 1]:
                last -= 1
            if first < last:
                self._add(find, read.back[first][0], read.back[last - 1][1])
        if self._mask.count(1) > before:
            self._read()

    def add_original(self, finds: Sequence[Span]) -> None:
        """Masks what finds in the original have beside the masks. Marks alone, as in "Ann -", say nothing and stay."""
        read = self.original
        before = self._mask.count(1)
        for find in finds:
            tokens = range(read.back[find.start_token][0], read.back[find.end_token - 1][1])
            for is_open, run in groupby(tokens, key=lambda token: not self._mask[token]):
                words = [
                    t for t in run if is_open and any(map(str.isalnum, self._text[self._starts[t] : self._ends[t]]))
                ]
                if words:
                    self._add(find, words[0], words[-1] + 1)
        if self._mask.count(1) > before:
            self._read()

    def _add(self, find: Span, start: int, end: int) -> None:
        self.spans.add(find._replace(start_token=start, end_token=end))
        self.last_policy = find.policy
        self._cover(start, end)


class Stabiliser:
    """Finds the spans that a union of policies masks. The policies read placeholders in place of finds.

    Args:
        finders: functions to call in turn, patterns first. Each must be a function of the text alone.
        placeholder: single word.
        original: function of all policies that also reads the original text, so that nothing stays open that they find
            there. None if the policies read placeholders only.
    """

    def __init__(self, finders: Sequence[Find], placeholder: str = PLACEHOLDER, original: Find | None = None) -> None:
        self._finders = tuple(finders)
        self._placeholder = placeholder
        self._original = original
        self._known: tuple[dict[bytes, list[Span] | str], ...] = tuple({} for _ in (*self._finders, original))

    def find_all(self, sentences: Sequence[Marked]) -> list[set[Span] | str]:
        """Finds the spans to mask in each sentence.

        Args:
            sentences: sentences with the spans that are masked from the start (masks in the original text).

        Returns:
            For each sentence the spans, including the given ones, or the name of the policy that failed on it.
        """
        states = [_State(sentence, len(self._finders), self._placeholder) for sentence in sentences]
        self._settle(states)
        if self._original is not None:
            unread = [state for state in states if state.failed is None and state.missed_original]
            readings = [(state, state.original, state.first_digest) for state in unread]
            for (state, _, _), finds in zip(readings, self._finds(-1, self._original, readings), strict=True):
                if isinstance(finds, str):
                    state.failed = finds
                else:
                    state.add_original(finds)
            self._settle(unread)
        return [state.spans if state.failed is None else state.failed for state in states]

    def _settle(self, states: Sequence[_State]) -> None:
        """Asks all finders until none of them finds anything new."""
        live = [state for state in states if not state.is_done()]
        for _ in range(MAX_ROUNDS):
            for number, finder in enumerate(self._finders):
                todo = [s for s in live if s.failed is None and s.read_by[number] != s.digest]
                readings = [(state, state.reading, state.digest) for state in todo]
                for state, finds in zip(todo, self._finds(number, finder, readings), strict=True):
                    state.missed_original |= state.read_by[number] is None and state.digest != state.first_digest
                    state.read_by[number] = state.digest
                    if isinstance(finds, str):
                        state.failed = finds
                    else:
                        state.add(finds)
            live = [state for state in live if not state.is_done()]
            if not live:
                break
        for state in live:
            state.failed = state.last_policy

    def _finds(
        self, number: int, finder: Find, readings: Sequence[tuple[_State, Reading, bytes]]
    ) -> list[list[Span] | str]:
        """Returns what a finder finds in each reading. Equal readings are read once."""
        known = self._known[number]
        unread = {digest: reading.tokens for _, reading, digest in readings if digest not in known}
        new = dict(zip(unread, finder(list(unread.values())), strict=True)) if unread else {}
        found = [new[digest] if digest in new else known[digest] for _, _, digest in readings]
        for digest, finds in new.items():
            if len(known) >= MAX_REMEMBERED:
                break
            known[digest] = finds
        return found
