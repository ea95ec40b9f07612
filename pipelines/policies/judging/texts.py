"""Whole texts through policies: tokenised as the pipeline does it, of any length, with offsets into the text.

Models read a text of up to `WINDOW_TOKENS` tokens at once. A longer one is read in windows that overlap, so that what
stands at a border of one window stands well inside another, and what any window finds is masked. None is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.corpus.split import Splitter
from pipelines.policies.detectors.windows import windows
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.judge import Request
from pipelines.policies.protocol import Span
from pipelines.policies.redact import redact_text, render_jft, token_mask

WINDOW_TOKENS: Final = 256
OVERLAP_TOKENS: Final = 64
RENDERINGS: Final = ("collapsed", "tokens", "jft", "jft-typed")


@dataclass(frozen=True, slots=True)
class JudgedText:
    """What policies found in one text.

    Attributes:
        text: the text.
        starts, ends: character offsets of its tokens.
        spans: sorted; tokens of the whole text.
        failed_closed: a policy failed on a part of it, which is masked whole.
        flagged: the conservative policy would keep some part of it private.
        conservative_failed: it failed on a part of it.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    spans: tuple[Span, ...]
    failed_closed: bool
    flagged: bool
    conservative_failed: bool

    def mask(self) -> bytearray:
        """One byte a token, 1 where it is masked."""
        return token_mask(len(self.starts), self.spans)

    def rendered(self, rendering: str = "collapsed") -> str:
        """The redacted text, in one of `RENDERINGS`."""
        if rendering.startswith("jft"):
            return render_jft(self.text, self.starts, self.ends, self.spans, typed=rendering == "jft-typed")
        return redact_text(self.text, self.starts, self.ends, self.mask(), collapse=rendering == "collapsed")


class TextJudge:
    """Judges whole texts by a `Redactor`, each text being one document.

    Args:
        redactor: judges rows.
        language: whose tokeniser is used.
    """

    def __init__(self, redactor: Redactor, language: str = "en") -> None:
        self._redactor = redactor
        self._splitter = Splitter(language=language)

    def judge(self, texts: Sequence[str]) -> list[JudgedText]:
        """One answer a text, in order."""
        tokens = [self._splitter.tokens(text) for text in texts]
        requests: list[Request] = []
        documents: list[str] = []
        cuts: list[list[tuple[int, int]]] = []
        for number, (text, (starts, ends)) in enumerate(zip(texts, tokens, strict=True)):
            cuts.append(windows(len(starts), WINDOW_TOKENS, OVERLAP_TOKENS))
            for first, last in cuts[-1]:
                base = starts[first]
                requests.append(
                    Request(
                        text[base : ends[last - 1]],
                        [start - base for start in starts[first:last]],
                        [end - base for end in ends[first:last]],
                    )
                )
                documents.append(str(number))
        verdicts = iter(self._redactor.judge(requests, documents))
        judged = []
        for text, (starts, ends), parts in zip(texts, tokens, cuts, strict=True):
            found = [(first, next(verdicts)) for first, _ in parts]
            spans = {
                span._replace(start_token=span.start_token + first, end_token=span.end_token + first)
                for first, verdict in found
                for span in verdict.spans
            }
            failed = any(verdict.failed_closed for _, verdict in found)
            flagged = any(verdict.flagged for _, verdict in found)
            unvouched = any(verdict.conservative_failed for _, verdict in found)
            judged.append(JudgedText(text, starts, ends, tuple(sorted(spans)), failed, flagged, unvouched))
        return judged
