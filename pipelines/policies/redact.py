"""Writes redacted text from the spans of all policies, with one mask token for every cause.

Confidentially Redacted Training, Algorithm 1 line 2 and A.5 item 4: every masked run becomes the same token, so that
the text does not reveal the cause of a mask. With collapsing, it does not reveal the length of a secret either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pipelines.mask import MASK
from pipelines.policies.protocol import Sentence, Span

LITERAL_POLICY = "literal_mask"
"""The policy name in the spans of the built-in rule below."""


def literal_mask_spans(sentence: Sentence) -> list[Span]:
    """Masks tokens that touch a mask token in the original text.

    Such a row would otherwise look redacted without having a span. One stage may recognise private rows by their mask
    token, and another by their spans. Masking the token makes both agree, and unmasked text never holds the mask token.
    """
    literals, at = [], sentence.text.find(MASK)
    while at >= 0:
        literals.append((at, at + len(MASK), "LITERAL_MASK"))
        at = sentence.text.find(MASK, at + 1)
    return sentence.spans(literals, LITERAL_POLICY)


def token_mask(num_tokens: int, spans: Iterable[Span | tuple[int, int]]) -> bytearray:
    """Returns one byte per token, 1 if any span covers it; shape ``(num_tokens,)``."""
    mask = bytearray(num_tokens)
    for span in spans:
        start, end = span[:2]
        mask[start:end] = b"\x01" * (end - start)
    return mask


def masked_runs(
    text: str, starts: Sequence[int], ends: Sequence[int], mask: bytes | bytearray
) -> list[tuple[int, int]]:
    """Returns maximal runs of masked tokens as half-open token ranges.

    White space between tokens, or as a token, does not end a run. Space between two masks would show the number of
    pieces of a secret.
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
    """Returns the text with masked tokens replaced. Every other character stays.

    Args:
        text: original sentence.
        starts, ends: character offsets of its tokens.
        mask: one byte per token, as `token_mask` returns it.
        collapse: true for one mask token per maximal run, including its white space. False for one per token.

    Returns:
        The redacted text. It is exactly the mask token if ``collapse`` is true and everything visible is masked.
    """
    if collapse:
        pieces = [(starts[a], ends[b - 1]) for a, b in masked_runs(text, starts, ends, mask)]
    else:
        pieces = [(start, end) for start, end, masked in zip(starts, ends, mask, strict=True) if masked]
    redacted = replace_ranges(text, ((start, end, MASK) for start, end in pieces))
    return MASK if collapse and len(pieces) == 1 and redacted.strip() == MASK else redacted


def replace_ranges(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    """Returns the text with ranges of characters replaced. The ranges are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for start, end, replacement in pieces:
        parts += (text[at:start], replacement)
        at = end
    return "".join([*parts, text[at:]])


_JFT_ORDER: Final = ("PROPN", "PRON", "VERB", "ROOT", "OBJ", "SUBJ")
"""Labels by precedence in the code of Just Fine-tune Twice. All of them have precedence over those of entities."""


def render_jft(
    text: str, starts: Sequence[int], ends: Sequence[int], spans: Iterable[Span], *, typed: bool = False
) -> str:
    """Renders text as the code of Just Fine-tune Twice does, for comparison with its data.

    Each masked token becomes ``<mask>``, or ``<LABEL>``. If equal masks are exactly one space apart, the first one is
    kept. So punctuation ends a run, and with ``typed`` a change of label ends it too.

    Args:
        text: original sentence.
        starts, ends: character offsets of its tokens.
        spans: spans to mask.
        typed: true to write labels.
    """
    labels: dict[int, str] = {}
    for span in sorted(spans, key=lambda s: -_JFT_ORDER.index(s.label) if s.label in _JFT_ORDER else -len(_JFT_ORDER)):
        for token in range(span.start_token, span.end_token):
            labels[token] = f"<{span.label}>" if typed else "<mask>"
    rendered = replace_ranges(text, ((starts[token], ends[token], label) for token, label in sorted(labels.items())))
    masks = frozenset(labels.values())
    kept: list[str] = []
    for piece in rendered.split(" "):
        if not (kept and piece in masks and piece == kept[-1]):
            kept.append(piece)
    return " ".join(kept)
