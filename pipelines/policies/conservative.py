"""A simple conservative policy: a sentence is public only if every word of it is an everyday word, used as one.

Algorithm 1 of Confidentially Redacted Training asks for a policy of nearly perfect recall that decides, for a whole
sentence, whether it may be trained on without noise. This one reads no meaning: a sentence of everyday words can still
give something away ("i lost my job"), so it protects identifiers, not circumstances. How often it lets a secret pass
is to be measured (the second bound of the miss rate), never assumed.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from pipelines.policies.common_words import (
    AMBIGUOUS_WORDS,
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    SMALL_NUMBERS,
    UNITS,
)
from pipelines.policies.protocol import PolicyOptions, Sentence, Span

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\S")
_PUNCTUATION: Final = frozenset(".,!?;:'\"()’‘“”…")
_ENDS_SENTENCE: Final = frozenset(".!?…")
_PRONOUN_I: Final = frozenset({"i", "i'm", "i've", "i'd", "i'll", "ok"})
_SUBJECTS: Final = frozenset(
    {"i", "we", "you", "he", "she", "it", "they", "this", "that", "these", "those", "the", "there", "my", "your", "our"}
)
_NAMING: Final = re.compile(
    r"\b(?:(?:name['’]?s|name is|named|called|call me|spelled|spelt)"
    r"|(?:user\s?name|password|passcode|pin|code|login|handle)\s*(?:is|was|:|=|['’]s))\s*([^\W\d_]+)",
    re.I,
)
_NOT_A_NAME: Final = frozenset(
    {"not", "on", "in", "the", "a", "an", "what", "your", "to", "you", "and", "as", "for", "with", "by", "back"}
)
_BEFORE_NAMES: Final = frozenset(
    {
        "to",
        "with",
        "from",
        "by",
        "for",
        "and",
        "or",
        "ask",
        "asked",
        "tell",
        "told",
        "call",
        "called",
        "was",
        "is",
        "it's",
    }
)
"""Words behind which an everyday word that is also a name may well be the name ("send it to price")."""

_TIES: Final = re.compile(
    r"\b(?:(?:work(?:s|ed|ing)?|job|employed|stud(?:y|ies|ied|ying)|graduated|enrolled|train(?:ed|ing)?|intern(?:ed|ing)?)"
    r"\s+(?:for|at|by|in|with)|liv(?:e|es|ed|ing)\s+(?:in|at|on|near)|(?:born|based|located|residing|stay(?:s|ing)?)"
    r"\s+(?:in|at|on|near)|(?:mov(?:e|es|ed|ing)|travel(?:s|ed|ling|ing)?|fly(?:ing)?|flew|going|drive|drove)\s+(?:to|from)"
    r"|(?:come|comes|came|coming|am|i'm|im|is|are)\s+from|married\s+to|owned\s+by|part\s+of"
    r"|(?:job|account|card|policy|loan|contract|insurance|appointment|interview|letter)\s+(?:at|from|with))"
    r"\s+(?:the\s+)?([^\W\d_]+)",
    re.I,
)
_NO_PLACE: Final = FUNCTION_WORDS | {"me", "us", "home", "work", "here", "there"}


class ConservativePolicy:
    """Flags a sentence by finding anything in it; each find says why.

    Reasons (the labels):
        CHARACTER: a digit, a symbol such as ``@ / # < -``, or anything that is neither a word nor plain punctuation.
        WORD: a word outside the closed list of everyday words, among them every unusual name in any case.
        CAPITAL: a capital inside a sentence, or a word in capitals.
        NAME_WORD: an everyday word that is also a name, capitalised, next to another such word or to a greeting, where
            a name may stand ("to price"), or in a sentence of one or two words; or whatever follows "my name is" or
            "the password is".
        NUMBER_WORDS: two or more number words or single letters, as in a dictated number or spelling; a number above
            three; a small one that counts something ("two kids").
        TIES: whatever somebody works for, lives in, comes from or goes to.
        BARE: no function word and no courtesy word, or a single word that is no courtesy, or a piece that begins with
            punctuation: an answer or a fragment and not a sentence ("blue horse").
    """

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name

    def find(self, sentence: Sentence) -> list[Span]:
        """Why the sentence may not be public; empty when it may."""
        return sentence.spans(_reasons(sentence.text), self._name)


def _reasons(text: str) -> list[tuple[int, int, str]]:
    matches = list(_WORD.finditer(text))
    found: list[tuple[int, int, str]] = []
    words: list[re.Match[str]] = []
    starts_sentence: list[bool] = []
    at_start = True
    for match in matches:
        token = match[0]
        if token[0].isalpha():
            words.append(match)
            starts_sentence.append(at_start)
            at_start = False
        elif token in _ENDS_SENTENCE:
            at_start = True
        elif token not in _PUNCTUATION:
            found.append((match.start(), match.end(), "CHARACTER"))
    lower = [match[0].lower().replace("’", "'") for match in words]
    num_spelled = sum(word in NUMBER_WORDS or (len(word) == 1 and word not in "ai") for word in lower)
    for i, (match, word) in enumerate(zip(words, lower, strict=True)):
        reason = _word_reason(match[0], word, starts_sentence[i], lower, i)
        if reason is None and num_spelled > 1 and (word in NUMBER_WORDS or len(word) == 1):
            reason = "NUMBER_WORDS"
        if reason is None and word in NUMBER_WORDS:
            following = lower[i + 1] if i + 1 < len(lower) else ""
            if word not in SMALL_NUMBERS or following in UNITS:
                reason = "NUMBER_WORDS"
        if reason is not None:
            found.append((match.start(), match.end(), reason))
    found += [
        (named.start(1), named.end(1), "NAME_WORD")
        for named in _NAMING.finditer(text)
        if named[1].lower() not in _NOT_A_NAME
    ]
    found += [(tied.start(1), tied.end(1), "TIES") for tied in _TIES.finditer(text) if tied[1].lower() not in _NO_PLACE]
    is_sentence = any(word in COURTESY_WORDS for word in lower) or (
        len(lower) > 1 and any(word in FUNCTION_WORDS for word in lower)
    )
    if words and (not is_sentence or matches[0][0] in ",;:.'’)"):
        found.append((words[0].start(), words[-1].end(), "BARE"))
    return found


def _word_reason(word: str, lower: str, starts_sentence: bool, sentence: list[str], i: int) -> str | None:
    """Why one word is no everyday word used as one; None if it is."""
    if lower not in COMMON_WORDS and lower not in NUMBER_WORDS:
        return "WORD"
    following = sentence[i + 1] if i + 1 < len(sentence) else ""
    if word != lower and lower not in _PRONOUN_I:
        if not starts_sentence or word[1:] != word[1:].lower():
            return "CAPITAL"
        if lower in AMBIGUOUS_WORDS and following not in _SUBJECTS:
            return "NAME_WORD"
    if lower in AMBIGUOUS_WORDS:
        before = sentence[i - 1] if i > 0 else ""
        beside_name = before in AMBIGUOUS_WORDS or following in AMBIGUOUS_WORDS
        if beside_name or before in COURTESY_WORDS or before in _BEFORE_NAMES or len(sentence) < 3:
            return "NAME_WORD"
    return None
