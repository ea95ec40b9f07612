"""A fitted conservative policy: a sentence is public only if no word of it scores like a part of a secret.

It knows six times as many words as `conservative`. A model that was fitted on public labelled text scores them by their
context (`pipelines.policies.english.contexts`). A second model, `noisy_entities`, reads the sentences that pass. The
limits were set on text that the first model was not fitted on (``benchmarks/calibrated_policy.py``). Misses were
counted on text that neither model was fitted on (``benchmarks/public_side.py``). A bound from such a count holds with
its confidence for sentences that are exchangeable with those, which means drawn in the same way. It says nothing
certain about another corpus. So it is an estimate, and no claim rests on it. The figures of a run come from its own
labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

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
from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.noisy_entities import NoisyEntitiesPolicy
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
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

LIMITS: Final = {
    # (the sentence begins with a capital, `conservative` finds nothing)
    (True, True): -UNITS_PER_NAT // 4,
    (True, False): -3 * UNITS_PER_NAT // 4,
    (False, True): -UNITS_PER_NAT // 2,
    (False, False): -2 * UNITS_PER_NAT,
}
"""The highest score of a word in a public sentence. Writers who begin a sentence with a capital also capitalise names,
and a capital inside a sentence is already forbidden. So the limits are lower for sentences without a first capital."""

MAX_PROBABILITY: Final = 0.2
"""A sentence stays private if `noisy_entities` gives a word a higher probability of being part of a name. Nine tenths
of the sentences that would be public without this rule stay public, in WikiText-2 valid and in MultiDoGO dev."""

_CLOSED: Final = FUNCTION_WORDS | COURTESY_WORDS | NUMBER_WORDS | LISTS["chat"]
"""Words that are never names, in any spelling. The model labels "okey" as a name."""

_BORDERS: Final = _CLOSED | DETERMINERS | VERB_FORMS
_TOKEN: Final = re.compile(r"@[-,.]@|[^\W\d_]+(?:['’][^\W\d_]+)*|\S")
_CUT_MARK: Final = re.compile("@([-,.])@")
_JOINERS: Final = PUNCTUATION | {"-", "–", "—", "@-@"}
"""Marks without information. WikiText-2 writes a hyphen as "@-@"."""

_GAPS: Final = {**DIVIDES, "–": ", ", "—": ", "}
_CLITICS: Final = frozenset({"s", "t", "ll", "ve", "re", "d", "m", "n't"})
"""Remainders of "it's" or "don't" in tokenised text, which separates the marks."""

_OPENS_SPEECH: Final = frozenset({'"', "“", ":"})
_WRITTEN: Final = KNOWN - word_lists("common_words")["health"]


class Reading:
    """A sentence as the model reads it, and the finds that make it private without the model.

    Attributes:
        forbidden: finds ``(start, end, label)`` as characters.
        places: characters of each word.
        seen: words of the sentence.
        is_cased: flag that the sentence begins with a capital, and is not all in capitals.
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
        """Returns the words in lower case, and the gap before each word in the form that `find_triggered` reads."""
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
                # "Bill is right": a capital at the start of a sentence does not count, unless a list has the name.
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
    """Yields the positions of listed phrases, also in the plural."""
    for start in range(len(words) - 1):
        for end in range(start + 2, min(start + LONGEST_PHRASE, len(words)) + 1):
            if not PHRASES.isdisjoint([(*words[start : end - 1], words[end - 1].removesuffix(s)) for s in ("", "s")]):
                yield start, end


def _premises(words: list[str], begins: list[bool]) -> Iterator[tuple[int, int]]:
    """Yields a building or a business with the plain words before it. Without a determiner, they may be its name."""
    for end, word in enumerate(words):
        start = end if word in PREMISES else 0
        while start and not begins[start] and words[start - 1] not in _BORDERS:
            start -= 1
        is_determined = start and not begins[start] and words[start - 1] in DETERMINERS
        if word in PREMISES and start < end and not is_determined:
            yield start, end + 1


def _known(word: str) -> str:
    """Returns the word, or a known form of it without stretched letters or without "'s"."""
    if word in _WRITTEN:
        return word
    short = unstretched(word)
    if short in _WRITTEN:
        return short
    return word[:-2] if word.endswith("'s") and word[:-2] in _WRITTEN else word


class CalibratedPolicy(NamedPolicy):
    """Flags a sentence by any find in it. The label of a find is the reason.

    Reasons (the labels):
        CHARACTER, WORD, CAPITAL, NUMBER_WORDS, NAME_WORD, TIES: reasons of `ConservativePolicy`. This policy knows more
            words, and allows hyphens and a capital at the start of speech. NAME_WORD needs a trigger such as "my name
            is".
        BARE: a function word alone, or a piece that begins with punctuation.
        PHRASE: known words that together are an illness, a crime or a name ("slipped disc"), or may be the name of a
            building or a business ("sunny days nursery").
        CONTEXT: a word whose score is above the limit. Names, places or answers may be used in the same way.
        ENTITY: a word that a second model, `noisy_entities`, labels as a part of a name. The first model reads classes
            of words, and the second reads meanings.
    """

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._everyday = ConservativePolicy(options)
        self._entities = NoisyEntitiesPolicy(options)

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the reasons why the sentence may not be public. Without reasons, it may be."""
        reading = Reading(sentence.text)
        if reading.forbidden or not reading.places:
            return sentence.spans(reading.forbidden, self._name)
        limit = LIMITS[reading.is_cased, not self._everyday.find(sentence)]
        finds = [
            (*place, "CONTEXT")
            for place, score in zip(reading.places, scores(reading.seen), strict=True)
            if score > limit
        ]
        return sentence.spans(finds or self._entities_in(sentence.text, reading), self._name)

    def _entities_in(self, text: str, reading: Reading) -> list[Find]:
        starts, ends = zip(*reading.places, strict=True)
        # The replacement has the same length. The model would read "@-" as a handle.
        words = Sentence(_CUT_MARK.sub(r" \1 ", text), starts, ends)
        return [
            (*place, "ENTITY")
            for place, word, probability in zip(
                reading.places, reading.seen.words, self._entities.probabilities(words), strict=True
            )
            if probability > MAX_PROBABILITY and word not in _CLOSED
        ]
