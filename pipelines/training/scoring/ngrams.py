"""Metrics of generated text that no library computes as published: NIST, CIDEr-D, and the F1 of words."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

Tokens = Sequence[str]
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def ngrams(tokens: Tokens, size: int) -> Counter[tuple[str, ...]]:
    """Counts the n-grams of that size."""
    return Counter(tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1))


def nist(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], max_size: int = 5) -> float:
    """Returns NIST (Doddington 2002), equations 2 and 3.

    The information of an n-gram, log2 of (count of its first n-1 words / count of it), is taken from all references.
    Matches are clipped at the largest count in any one reference of the sentence. The length penalty compares the
    output with the *average* reference length. It is 1/2 if the output is two thirds of that length.

    nltk's ``corpus_nist`` takes the best single reference of each sentence for matches and length instead. The two
    agree if each sentence has one reference.

    Args:
        hypotheses: words of each output.
        references: words of the references of each output.
        max_size: longest n-gram.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    num_words = 0
    for group in references:
        for reference in group:
            num_words += len(reference)
            for size in range(1, max_size + 1):
                counts += ngrams(reference, size)

    def information(gram: tuple[str, ...]) -> float:
        return math.log2((counts[gram[:-1]] if len(gram) > 1 else num_words) / counts[gram])

    score = 0.0
    for size in range(1, max_size + 1):
        gained, possible = 0.0, 0
        for hypothesis, group in zip(hypotheses, references, strict=True):
            written = ngrams(hypothesis, size)
            allowed: Counter[tuple[str, ...]] = Counter()
            for reference in group:
                allowed |= ngrams(reference, size)
            gained += sum(information(gram) * count for gram, count in (written & allowed).items())
            possible += written.total()
        score += gained / possible if possible else 0.0
    length = sum(map(len, hypotheses))
    expected = sum(sum(map(len, group)) / len(group) for group in references)
    if length == 0 or expected == 0:
        return 0.0
    ratio = min(1.0, length / expected)
    beta = math.log(0.5) / math.log(1.5) ** 2
    return score * math.exp(beta * math.log(ratio) ** 2)


def cider_d(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """Returns CIDEr-D (Vedantam, Zitnick & Parikh 2015), equations 1, 4 and 5; times 10, the mean over sentences.

    As in the code that its authors published, term frequencies are plain counts (a division by the length would cancel
    except for the clipping), words are not stemmed, and an n-gram that no reference has counts as if one had it. The
    document frequency of an n-gram is the number of sentences with it in some reference. For a single sentence it is
    always 1, so the score is 0.

    Args:
        hypotheses: words of each output.
        references: words of the references of each output.
    """
    sigma, max_size = 6.0, 4
    if not hypotheses:
        return 0.0
    frequency: Counter[tuple[str, ...]] = Counter()
    for group in references:
        seen: set[tuple[str, ...]] = set()
        for reference in group:
            for size in range(1, max_size + 1):
                seen |= ngrams(reference, size).keys()
        frequency.update(seen)
    log_sentences = math.log(len(references))

    def weighted(tokens: Tokens, size: int) -> dict[tuple[str, ...], float]:
        grams = ngrams(tokens, size)
        return {gram: count * (log_sentences - math.log(max(1, frequency[gram]))) for gram, count in grams.items()}

    total = 0.0
    for hypothesis, group in zip(hypotheses, references, strict=True):
        for size in range(1, max_size + 1):
            ours = weighted(hypothesis, size)
            for reference in group:
                theirs = weighted(reference, size)
                norms = math.hypot(*ours.values()) * math.hypot(*theirs.values())
                shared = sum(min(value, theirs[gram]) * theirs[gram] for gram, value in ours.items() if gram in theirs)
                if norms > 0:
                    gap = len(hypothesis) - len(reference)
                    total += shared / norms * math.exp(-(gap**2) / (2 * sigma**2)) / (max_size * len(group))
    return 10 * total / len(hypotheses)


def normalised_words(text: str) -> list[str]:
    """Returns lower-case words without punctuation and articles, which the F1 of ConvAI2 compares."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def word_f1(hypothesis: str, references: Sequence[str]) -> float:
    """Returns the best F1 of an output's words against a reference: 2 shared / (words of both), as in ConvAI2."""
    ours = Counter(normalised_words(hypothesis))
    best = 0.0
    for reference in references:
        theirs = Counter(normalised_words(reference))
        shared = (ours & theirs).total()
        if shared:
            best = max(best, 2 * shared / (ours.total() + theirs.total()))
    return best
