"""A fitted conservative policy: a sentence is public only if no word of it scores like a part of a secret.

It knows six times as many words as `conservative`, and reads where they stand, by a model that was fitted on public
labelled text (`pipelines.policies.english.contexts`). What that lets pass is read by another, `noisy_entities`. Limits
were set on text that the first was not fitted on (``benchmarks/calibrated_policy.py``), and misses counted on text that
neither was fitted on (``benchmarks/public_side.py``). A bound from such a count holds with its confidence for sentences
that are exchangeable with those: drawn as they were. It says nothing sure of another corpus. So it is an estimate, and
no claim rests on it; what a run states comes from its own labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from pipelines.policies.detectors.conservative import (
    DIVIDES,
    EMOTICONS,
    ENDS_SENTENCE,
    MIN_SHOUTED,
    PRONOUN_I,
    PUNCTUATION,
    ConservativePolicy,
    is_capitalised_first,
    number_positions,
    unstretched,
)
from pipelines.policies.detectors.noisy_entities import NoisyEntitiesPolicy
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.english.common_words import (
    AMBIGUOUS_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    VERB_FORMS,
)
from pipelines.policies.english.contexts import (
    KNOWN,
    LISTS,
    LONGEST_PHRASE,
    PHRASES,
    PREMISES,
    UNITS_PER_NAT,
    Words,
    scores,
)
from pipelines.policies.english.everyday_use import DETERMINERS, name_like
from pipelines.policies.english.triggers import find_triggered
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span

LIMITS: Final = {
    # (the sentence begins with a capital, `conservative` finds nothing)
    (True, True): -UNITS_PER_NAT // 4,
    (True, False): -3 * UNITS_PER_NAT // 4,
    (False, True): -UNITS_PER_NAT // 2,
    (False, False): -2 * UNITS_PER_NAT,
}
"""The highest score that a word of a public sentence may have. Who begins a sentence with a capital writes names with
one too, and a capital inside a sentence is forbidden already; so the limits are lower where there is none."""

MAX_PROBABILITY: Final = 0.2
"""A sentence stays private where `noisy_entities` gives a word a higher probability of being part of a name. Of what
were public without this, nine tenths stay so, in WikiText-2 valid and in MultiDoGO dev."""

_CLOSED: Final = FUNCTION_WORDS | COURTESY_WORDS | NUMBER_WORDS | LISTS["chat"]
"""Words that are no name by themselves, however they are spelt; the model takes "okey" for one."""

_BORDERS: Final = _CLOSED | DETERMINERS | VERB_FORMS
_TOKEN: Final = re.compile(r"@[-,.]@|[^\W\d_]+(?:['’][^\W\d_]+)*|\S")
_CUT_MARK: Final = re.compile("@([-,.])@")
_JOINERS: Final = PUNCTUATION | {"-", "–", "—", "@-@"}
"""Marks that say nothing; WikiText-2 writes a hyphen as "@-@"."""

_GAPS: Final = {**DIVIDES, "–": ", ", "—": ", "}
_CLITICS: Final = frozenset({"s", "t", "ll", "ve", "re", "d", "m", "n't"})
"""What is left of "it's" or "don't" where marks stand apart, as in text that was cut into tokens."""

_OPENS_SPEECH: Final = frozenset({'"', "“", ":"})
_WRITTEN: Final = KNOWN - word_lists("common_words")["health"]

Find = tuple[int, int, str]


class Reading:
    """A sentence as the model reads it, and what forbids it whatever the model says.

    Attributes:
        forbidden: characters ``(start, end, label)``.
        places: characters of each word.
        seen: the words.
        is_cased: it begins with a capital, and is not all in capitals.
    """

    def __init__(self, text: str) -> None:
        self.forbidden: list[Find] = []
        self.places: list[tuple[int, int]] = []
        tokens = list(_TOKEN.finditer(text))
        lower, gaps = self._words(text, tokens)
        begins = [gap != " " for gap in gaps]
        notes: list[set[str]] = [set() for _ in lower]
        for i in name_like(lower, begins):
            notes[i].add("NAME_WORD")
        for i in number_positions(lower):
            self.forbidden.append((*self.places[i], "NUMBER_WORDS"))
        for i, label in find_triggered(lower, gaps):
            self.forbidden.append((*self.places[i], label))
        for start, end in (*_phrases(lower), *_premises(lower, begins)):
            self.forbidden.append((self.places[start][0], self.places[end - 1][1], "PHRASE"))
        is_sentence = not COURTESY_WORDS.isdisjoint(lower) or (len(lower) > 1 and not FUNCTION_WORDS.isdisjoint(lower))
        is_bare = bool(lower) and (not is_sentence or tokens[0][0] in ",;:.'’)")
        is_piece = bool(lower) and (tokens[0][0] in ",;:.)’" or (len(lower) == 1 and lower[0] in FUNCTION_WORDS))
        if is_piece:
            self.forbidden.append((self.places[0][0], self.places[-1][1], "BARE"))
        self.seen = Words(lower, begins, notes, is_bare)
        self.is_cased = bool(lower) and text[self.places[0][0]].isupper() and not text.isupper()

    def _words(self, text: str, tokens: list[re.Match[str]]) -> tuple[list[str], list[str]]:
        """Words in lower case, and what stands before each, as `find_triggered` wants it."""
        lower: list[str] = []
        gaps: list[str] = []
        starts_sentence, opens_speech, gap = True, False, ". "
        has_case = not text.isupper() or len(tokens) < MIN_SHOUTED
        for match in tokens:
            written, place = match[0], match.span()
            if not written[0].isalpha():
                if written in _JOINERS:
                    starts_sentence = starts_sentence or written in ENDS_SENTENCE
                    opens_speech = written in _OPENS_SPEECH
                    gap = _GAPS.get(written, gap)
                elif EMOTICONS.fullmatch(written) is None:
                    self.forbidden.append((*place, "CHARACTER"))
                    gap = ", "
                continue
            word = _known(written.lower().replace("’", "'"))
            is_clitic = word in _CLITICS and text[: match.start()].rstrip()[-1:] in ("'", "’", "´")
            if is_clitic:
                word = word if word == "n't" else f"'{word}"
            elif word not in _WRITTEN and word != "n't":
                self.forbidden.append((*place, "WORD"))
            elif has_case and word not in PRONOUN_I and not written.islower():
                # "Bill is right": a capital says nothing where a sentence begins, unless the word is listed as a name.
                opens = (starts_sentence and word not in LISTS["surnames"]) or (
                    opens_speech and word in FUNCTION_WORDS - AMBIGUOUS_WORDS
                )
                if not (opens and is_capitalised_first(text, match)):
                    self.forbidden.append((*place, "CAPITAL"))
            self.places.append(place)
            lower.append(word)
            gaps.append(gap)
            starts_sentence, opens_speech, gap = False, False, " "
        return lower, gaps


def _phrases(words: list[str]) -> Iterator[tuple[int, int]]:
    """Where phrases of the list stand, in the plural too."""
    for start in range(len(words) - 1):
        for end in range(start + 2, min(start + LONGEST_PHRASE, len(words)) + 1):
            if not PHRASES.isdisjoint([(*words[start : end - 1], words[end - 1].removesuffix(s)) for s in ("", "s")]):
                yield start, end


def _premises(words: list[str], begins: list[bool]) -> Iterator[tuple[int, int]]:
    """Where a building or a business stands behind plain words without a determiner: together they may be its name."""
    for end, word in enumerate(words):
        start = end if word in PREMISES else 0
        while start and not begins[start] and words[start - 1] not in _BORDERS:
            start -= 1
        is_determined = start and not begins[start] and words[start - 1] in DETERMINERS
        if word in PREMISES and start < end and not is_determined:
            yield start, end + 1


def _known(word: str) -> str:
    """The word, or what it is short for where only that is known: without stretched letters, without "'s"."""
    if word in _WRITTEN:
        return word
    short = unstretched(word)
    if short in _WRITTEN:
        return short
    return word[:-2] if word.endswith("'s") and word[:-2] in _WRITTEN else word


class CalibratedPolicy:
    """Flags a sentence by finding anything in it; each find says why.

    Reasons (the labels):
        CHARACTER, WORD, CAPITAL, NUMBER_WORDS, NAME_WORD, TIES: as `ConservativePolicy`, with more words, hyphens, and
            a capital where speech begins; NAME_WORD only behind a trigger such as "my name is".
        BARE: a function word alone, or a piece that begins with punctuation.
        PHRASE: known words that together are an illness, a crime or a name ("slipped disc"), or may be the name of a
            building or a business ("sunny days nursery").
        CONTEXT: a word whose score is above the limit: it is used as a name, a place or an answer may be.
        ENTITY: a word that a second model, `noisy_entities`, takes for a part of a name: what the first makes of
            classes of words, it makes of their meanings.
    """

    needs: ClassVar[frozenset[str]] = SPECS["calibrated"].components

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        self._everyday = ConservativePolicy(options)
        self._entities = NoisyEntitiesPolicy(options)

    def find(self, sentence: Sentence) -> list[Span]:
        """Why the sentence may not be public; empty when it may."""
        reading = Reading(sentence.text)
        if reading.forbidden or not reading.places:
            return sentence.spans(reading.forbidden, self._name)
        limit = LIMITS[reading.is_cased, not self._everyday.find(sentence)]
        found = [
            (*place, "CONTEXT")
            for place, score in zip(reading.places, scores(reading.seen), strict=True)
            if score > limit
        ]
        return sentence.spans(found or self._entities_in(sentence.text, reading), self._name)

    def _entities_in(self, text: str, reading: Reading) -> list[Find]:
        starts, ends = zip(*reading.places, strict=True)
        # of the same length: "@-" would be read as a handle
        words = Sentence(_CUT_MARK.sub(r" \1 ", text), starts, ends)
        return [
            (*place, "ENTITY")
            for place, word, probability in zip(
                reading.places, reading.seen.words, self._entities.probabilities(words), strict=True
            )
            if probability > MAX_PROBABILITY and word not in _CLOSED
        ]
