"""From spans to redacted text: the union of the policies, one mask token for every cause.

Confidentially Redacted Training, Algorithm 1 line 2 and A.5 item 4: every masked run becomes the same token, so that
neither the cause nor, with collapsing, the length of a secret is left in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pipelines.mask import MASK
from pipelines.policies.protocol import Sentence, Span

LITERAL_POLICY = "literal_mask"
"""Names the built-in rule below among the spans' policies."""


def literal_mask_spans(sentence: Sentence) -> list[Span]:
    """Masks tokens that touch the mask token written out in the original text.

    Such a row would otherwise look redacted without being counted as masked: a later stage that tells private rows by
    their mask token, and one that tells them by their spans, would disagree. Masking it makes both agree, and unmasked
    text never holds the mask token.
    """
    found, at = [], sentence.text.find(MASK)
    while at >= 0:
        found.append((at, at + len(MASK), "LITERAL_MASK"))
        at = sentence.text.find(MASK, at + 1)
    return sentence.spans(found, LITERAL_POLICY) if found else []


def token_mask(num_tokens: int, spans: Iterable[Span]) -> bytearray:
    """One byte a token, 1 where any span covers it; shape ``(num_tokens,)``."""
    mask = bytearray(num_tokens)
    for span in spans:
        mask[span.start_token : span.end_token] = b"\x01" * (span.end_token - span.start_token)
    return mask


def masked_runs(
    text: str, starts: Sequence[int], ends: Sequence[int], mask: bytes | bytearray
) -> list[tuple[int, int]]:
    """Maximal runs of masked tokens as half-open token ranges.

    White space, whether between tokens or a token of its own, does not end a run: what is left between two masks
    would show how many pieces a secret has.
    """
    runs: list[tuple[int, int]] = []
    for token in range(len(starts)):
        if not mask[token]:
            continue
        if runs and text[ends[runs[-1][1] - 1] : starts[token]].strip() == "":
            runs[-1] = (runs[-1][0], token + 1)
        else:
            runs.append((token, token + 1))
    return runs


def redact_text(
    text: str, starts: Sequence[int], ends: Sequence[int], mask: bytes | bytearray, *, collapse: bool = True
) -> str:
    """The text with masked tokens replaced; everything else is kept to the character.

    Args:
        text: the original sentence.
        starts, ends: character offsets of its tokens.
        mask: one byte a token, as `token_mask` gives.
        collapse: one mask token for each maximal run, white space inside it swallowed; if false, one for each token.

    Returns:
        The redacted text; exactly the mask token when everything visible is masked and ``collapse`` holds.
    """
    if collapse:
        pieces = [(starts[a], ends[b - 1]) for a, b in masked_runs(text, starts, ends, mask)]
    else:
        pieces = [(start, end) for start, end, masked in zip(starts, ends, mask, strict=True) if masked]
    if collapse and len(pieces) == 1:
        (start, end) = pieces[0]
        if not text[:start].strip() and not text[end:].strip():
            return MASK
    parts: list[str] = []
    at = 0
    for start, end in pieces:
        parts += (text[at:start], MASK)
        at = end
    parts.append(text[at:])
    return "".join(parts)


_JFT_ORDER: Final = ("PROPN", "PRON", "VERB", "ROOT", "OBJ", "SUBJ")
"""Of a token's labels the code of Just Fine-tune Twice writes the last that it looks at; an entity's comes first."""


def render_jft(
    text: str, starts: Sequence[int], ends: Sequence[int], spans: Iterable[Span], *, typed: bool = False
) -> str:
    """The rendering of the code of Just Fine-tune Twice, for comparison with its data.

    One ``<mask>``, or ``<LABEL>``, for each masked token; of neighbours that are the same mask and stand exactly one
    space apart, the first is kept. So punctuation ends a run, and with ``typed`` a change of label does.

    Args:
        text: the original sentence.
        starts, ends: character offsets of its tokens.
        spans: what to mask.
        typed: write labels.
    """
    labels: dict[int, str] = {}
    for span in sorted(spans, key=lambda s: -_JFT_ORDER.index(s.label) if s.label in _JFT_ORDER else -len(_JFT_ORDER)):
        for token in range(span.start_token, span.end_token):
            labels[token] = f"<{span.label}>" if typed else "<mask>"
    parts: list[str] = []
    at = 0
    for token, (start, end) in enumerate(zip(starts, ends, strict=True)):
        parts += (text[at:start], labels.get(token, text[start:end]))
        at = end
    parts.append(text[at:])
    masks = frozenset(labels.values())
    kept: list[str] = []
    for piece in "".join(parts).split(" "):
        if not (kept and piece in masks and piece == kept[-1]):
            kept.append(piece)
    return " ".join(kept)
