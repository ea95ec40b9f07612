"""Tokenises documents and splits them into whole natural sentences or dialogue turns (CRT, appendix A.5).

This comes before redaction and deduplication, so that original and redacted rows stay aligned row by row and token by
token. Rules end sentences (closing punctuation, line breaks), never a fixed length. Only sentences of more than
``max_sentence_tokens`` are split further, at token borders, and marked.

Public and non-public: a speaker tag becomes metadata that is never redacted. So only tags that name a role (``SYS``,
``Agent 2``) are kept. Any other tag may be somebody's name, and becomes ``SPEAKER_1``, ``SPEAKER_2`` …
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import spacy
from spacy.attrs import IDX  # type: ignore[import-not-found]
from spacy.language import Language

from pipelines.corpus.boundaries import MAX_TOKENS, load_model, model_boundaries
from pipelines.corpus.items import Turn
from pipelines.corpus.speakers import ROLE as ROLE
from pipelines.corpus.speakers import TAG, Tags, other_names
from pipelines.errors import ConfigError
from pipelines.mask import MASK

T = TypeVar("T")
Layout = Literal["turns", "whole"] | Sequence[Turn]
"""``turns`` for lines ``SPEAKER: utterance``, ``whole`` for one row, or the turns themselves."""

MAX_RUN_CHARS = 500
"""Longest run without white space that is tokenised at once. spaCy removes punctuation from a run one character at a
time, in quadratic time, so longer runs are tokenised in parts."""

_AROUND_MASKS = re.compile(f"({re.escape(MASK)})")
_CODE_BEFORE_STOP = r"(?<=[0-9][A-Z])\.$"
"""Full stop after a code that ends with a letter ("9T6A."). spaCy's rules make it a part of the code, so that a mask
over the code would cover it, but a mask that somebody wrote by hand would not."""

_ZONE_CHARS = 500_000
_ZONE_DOCUMENTS = 1_000
_RUN = re.compile(rf"\S{{1,{MAX_RUN_CHARS}}}")
_MAX_KNOWN_CHARS = 1_000_000
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_MAX_SPEAKERS = 4

_ENDS = re.compile(r"[.!?…。！？｡؟۔।॥]+")
_ENDS_WITHOUT_SPACE = frozenset("。！？｡")
_CLOSERS = frozenset(")]}»”’›」』】）")
_STRAIGHT_QUOTES = frozenset("\"'")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence or turn: ``document_text[char_start : char_start + len(text)] == text``.

    Attributes:
        text: text without white space at either end
        char_start: offset in the document's text, in characters
        token_starts, token_ends: half-open offsets in ``text``; tokens hold no white space, do not overlap, and cover
            every other character
        is_overlong_piece: flag that it is part of a sentence of more than ``max_sentence_tokens``
        speaker: speaker of the turn, which is not part of ``text``
    """

    text: str
    char_start: int
    token_starts: list[int]
    token_ends: list[int]
    is_overlong_piece: bool = False
    speaker: str | None = None


class _Block(NamedTuple):
    """A line, or a turn, which is always one sentence."""

    start: int
    end: int
    speaker: str | None
    is_turn: bool


class _Tokenised(NamedTuple):
    """A text with its tokens, and its blocks with their half-open token ranges."""

    text: str
    starts: list[int]
    ends: list[int]
    blocks: list[tuple[_Block, int, int]]


class _Rules(threading.local):
    """spaCy's tokenisers, each created once per thread. Creation takes as long as a small partition, and a memory zone
    belongs to one thread.
    """

    def __init__(self) -> None:
        self._made: dict[str, Language] = {}

    def of(self, language: str) -> Language:
        if language not in self._made:
            self._made[language] = spacy.blank(language)
        return self._made[language]


_rules = _Rules()


class Splitter:
    """Splits texts into tokens and sentences. The same text gives the same rows, whatever else is in its batch.

    Args:
        language: language code for which spaCy has tokeniser rules
        mode: ``turns`` to start a turn at every ``SPEAKER: utterance`` (lines without a tag belong to the turn before
            them), ``rules`` for sentences, ``senter`` or ``parser`` for sentences by that component of ``model`` inside
            lines, or ``auto`` for turns if a document has at least two lines, all tagged, by at most four speakers who
            are either all roles or do not all speak just once, and rules otherwise
        max_sentence_tokens: length above which sentences and turns are split, at token borders
        model: spaCy model of ``senter`` and ``parser``, whose language's tokeniser is used

    Raises:
        ConfigError: spaCy has no tokeniser for the language, or the tokeniser needs a package that is not installed; or
            the model is missing or lacks the component.
    """

    def __init__(
        self,
        language: str = "en",
        mode: Literal["auto", "rules", "senter", "parser", "turns"] = "auto",
        max_sentence_tokens: int = 256,
        model: str = "en_core_web_sm",
    ) -> None:
        if max_sentence_tokens < 1:
            raise ValueError("max_sentence_tokens must be at least 1")
        self._by_model = mode in ("senter", "parser")
        try:
            if mode == "senter" or mode == "parser":
                self._nlp = load_model(model, mode)
            else:
                self._nlp = _rules.of(language)
        except ImportError:
            raise ConfigError(
                f"split.language = {language!r}: spaCy cannot load a tokeniser for it. Use a code from"
                " https://spacy.io/usage/models#languages, and install the package that it may need."
            ) from None
        _cut_stops_off_codes(self._nlp)
        self._mode = mode
        self._max_tokens = max_sentence_tokens
        self._known_runs: dict[str, tuple[int, ...]] = {}
        self._known_chars = 0

    def split(self, texts: Iterable[str], layout: Layout | None = None) -> Iterator[list[Sentence]]:
        """Yields the sentences of each text, in order. A text without visible characters has none."""
        for _, sentences in self.split_each(texts, lambda text: (text, layout)):
            yield sentences

    def split_each(
        self, items: Iterable[T], text_of: Callable[[T], tuple[str, Layout | None]]
    ) -> Iterator[tuple[T, list[Sentence]]]:
        """Yields each item with the sentences of its text, in order.

        Texts are processed in batches of bounded size, each inside a spaCy memory zone: the strings that spaCy interns
        for a batch are freed after it, so memory does not grow with the corpus. No spaCy object leaves the zone.

        Args:
            items: objects that have texts
            text_of: function that returns an item's text and layout: ``turns`` of a dialogue, ``whole`` for one
                sentence, the turns themselves, or None to let the mode decide
        """
        source = iter(items)
        batch: list[T] = []
        texts: list[tuple[str, Layout | None]] = []
        num_chars = 0
        while True:
            item = next(source, None)
            if item is not None:
                batch.append(item)
                texts.append(text_of(item))
                num_chars += len(texts[-1][0])
            if batch and (item is None or num_chars >= _ZONE_CHARS or len(batch) >= _ZONE_DOCUMENTS):
                with self._nlp.memory_zone():
                    tokenised = [self._tokenise(text, layout) for text, layout in texts]
                    found = self._found_by_model(tokenised)
                    results = [self._cut(one, found) for one in tokenised]
                yield from zip(batch, results, strict=True)
                batch, texts, num_chars = [], [], 0
            if item is None:
                return

    def _tokenise(self, text: str, layout: Layout | None) -> _Tokenised:
        starts, ends = self._tokens(text)
        blocks: list[tuple[_Block, int, int]] = []
        for block in self._blocks(text, layout):
            low = bisect_left(starts, block.start)
            high = bisect_left(starts, block.end, lo=low)
            if low < high:
                blocks.append((block, low, high))
        return _Tokenised(text, starts, ends, blocks)

    def _found_by_model(self, texts: Iterable[_Tokenised]) -> Iterator[list[int]]:
        """Yields the borders inside each block that the model splits, lazily."""

        def words() -> Iterator[tuple[list[str], list[bool]]]:
            for text, starts, ends, blocks in texts:
                for block, low, high in blocks:
                    if self._is_for_model(block, low, high):
                        after = [*starts[low + 1 : high], ends[high - 1]]
                        spaces = [end < start for end, start in zip(ends[low:high], after, strict=True)]
                        yield [text[s:e] for s, e in zip(starts[low:high], ends[low:high], strict=True)], spaces

        return model_boundaries(self._nlp, words()) if self._by_model else iter(())

    def _is_for_model(self, block: _Block, low: int, high: int) -> bool:
        return self._by_model and not block.is_turn and high - low <= MAX_TOKENS

    def _cut(self, tokenised: _Tokenised, found: Iterator[list[int]]) -> list[Sentence]:
        text, starts, ends, blocks = tokenised
        sentences: list[Sentence] = []
        for block, low, high in blocks:
            if block.is_turn:
                borders = [high]
            elif self._is_for_model(block, low, high):
                borders = [low + border for border in next(found)]
            else:
                borders = _sentence_boundaries(text, starts, ends, low, high)
            for border in borders:
                is_overlong = border - low > self._max_tokens
                for first in range(low, border, self._max_tokens):
                    last = min(first + self._max_tokens, border)
                    base = starts[first]
                    sentences.append(
                        Sentence(
                            text=text[base : ends[last - 1]],
                            char_start=base,
                            token_starts=[s - base for s in starts[first:last]],
                            token_ends=[e - base for e in ends[first:last]],
                            is_overlong_piece=is_overlong,
                            speaker=block.speaker,
                        )
                    )
                low = border
        return sentences

    def tokens(self, text: str) -> tuple[list[int], list[int]]:
        """Returns half-open character offsets of a text's tokens, as in `Sentence`, without finding sentences."""
        with self._nlp.memory_zone():
            return self._tokens(text)

    def _tokens(self, text: str) -> tuple[list[int], list[int]]:
        """Returns half-open character offsets of the tokens that are not white space.

        spaCy's rules treat each run without white space separately, so runs can be cached here: inside a memory zone
        spaCy caches none, and outside it keeps their strings for good.
        """
        starts: list[int] = []
        ends: list[int] = []
        known = self._known_runs
        for match in _RUN.finditer(text):
            run = match[0]
            base = match.start()
            cuts = known.get(run)
            if cuts is None:
                cuts = tuple(self._cuts(run))
                self._known_chars += len(run)
                if self._known_chars > _MAX_KNOWN_CHARS:
                    known.clear()
                    self._known_chars = len(run)
                known[run] = cuts
            starts.append(base)
            for cut in cuts[1:]:
                ends.append(base + cut)
                starts.append(base + cut)
            ends.append(match.end())
        return starts, ends

    def _cuts(self, run: str) -> Iterator[int]:
        """Yields the token starts in a run without white space. A mask in it is one token, whatever it touches."""
        at = 0
        for piece in _AROUND_MASKS.split(run) if MASK in run else (run,):
            if piece == MASK:
                yield at
            elif piece:
                yield from (at + int(cut) for cut in self._nlp.tokenizer(piece).to_array([IDX]))
            at += len(piece)

    def speakers(self, text: str, layout: Layout | None = None) -> list[tuple[str | None, str]]:
        """Returns the names of a text's speakers, each with the tag that replaces it in the sentences. Roles stay out.

        Names without a tag are those of `pipelines.corpus.speakers.other_names`.
        """
        tags = Tags()
        self._blocks(text, layout, tags)
        found: list[tuple[str | None, str]] = list(tags.names())
        if layout == "turns" or (layout is None and (found or self._mode == "turns")):
            found += [(None, name) for name in other_names(text)]
        return found

    def _blocks(self, text: str, layout: Layout | None, tags: Tags | None = None) -> list[_Block]:
        tags = tags or Tags()
        if layout == "whole":
            return [_Block(0, len(text), None, True)]
        if layout is not None and layout != "turns":
            return [_Block(turn.start, turn.end, tags.of(turn.speaker), True) for turn in layout]
        lines: list[tuple[int, int]] = []
        start = 0
        for match in _LINE_BREAK.finditer(text):
            lines.append((start, match.start()))
            start = match.end()
        lines.append((start, len(text)))
        lines = [(low, high) for low, high in lines if not text[low:high].isspace() and low < high]
        if layout == "turns" or self._mode in ("turns", "auto"):
            matches = [TAG.match(text, low, high) for low, high in lines]
            if layout == "turns" or self._mode == "turns" or _is_dialogue(matches):
                return _turns(lines, matches, tags)
        return [_Block(low, high, None, False) for low, high in lines]


def _cut_stops_off_codes(nlp: Language) -> None:
    """Adds a rule to a tokeniser that looks for suffixes. Other tokenisers stay unchanged."""
    tokenizer: Any = nlp.tokenizer
    pattern = getattr(getattr(getattr(tokenizer, "suffix_search", None), "__self__", None), "pattern", None)
    if pattern is not None and _CODE_BEFORE_STOP not in pattern:
        tokenizer.suffix_search = re.compile(f"{pattern}|{_CODE_BEFORE_STOP}").search


def _is_dialogue(tags: list[re.Match[str] | None]) -> bool:
    names = [tag[1] for tag in tags if tag is not None]
    distinct = set(names)
    if len(tags) < 2 or len(names) < len(tags) or len(distinct) > _MAX_SPEAKERS:
        return False
    # A form ("Name: …", "Phone: …") is not a dialogue: its tags are not roles, and each occurs once.
    return len(distinct) < len(names) or all(ROLE.fullmatch(name) for name in distinct)


def _turns(lines: list[tuple[int, int]], matches: list[re.Match[str] | None], tags: Tags) -> list[_Block]:
    blocks: list[_Block] = []
    for (low, high), match in zip(lines, matches, strict=True):
        if match is not None:
            blocks.append(_Block(match.end(), high, tags.of(match[1]), True))
        elif blocks:
            blocks[-1] = blocks[-1]._replace(end=high)
        else:
            blocks.append(_Block(low, high, None, True))
    return blocks


def _sentence_boundaries(text: str, starts: list[int], ends: list[int], low: int, high: int) -> list[int]:
    """Returns the exclusive token indices at which the sentences of tokens ``low`` to ``high`` end."""
    borders: list[int] = []
    first = low
    for match in _ENDS.finditer(text, starts[low], ends[high - 1]):
        # A border needs tokens of closing punctuation only: the tokeniser keeps "Dr." and "U.S." whole.
        at = bisect_left(ends, match.end(), lo=first, hi=high)
        if at >= high or ends[at] != match.end() or starts[at] < match.start():
            continue
        after = _skip_closers(text, starts, ends, first, at + 1, high)
        if after >= high:
            break
        if starts[after] == ends[after - 1] and match[0][-1] not in _ENDS_WITHOUT_SPACE:
            continue
        # "approx. five" and “"Why?" he asked” go on; "Hi! how are you" does not.
        is_soft = match[0][-1] in ".…" or after > at + 1
        if is_soft and text[starts[after]].islower():
            continue
        borders.append(after)
        first = after
    return [*borders, high]


def _skip_closers(text: str, starts: list[int], ends: list[int], first: int, at: int, high: int) -> int:
    """Finds the first token from ``at`` on that closes no quote or bracket of the sentence begun at ``first``."""
    while at < high and ends[at] - starts[at] == 1:
        mark = text[starts[at]]
        is_closer = mark in _CLOSERS
        if mark in _STRAIGHT_QUOTES:
            is_attached = starts[at] == ends[at - 1]
            is_closer = is_attached or text.count(mark, starts[first], starts[at]) % 2 == 1
        if not is_closer:
            break
        at += 1
    return at
