"""Judges whole texts of any length, with the pipeline's tokens and with offsets into the text.

Models read up to `WINDOW_TOKENS` tokens at once. They read a longer text completely, in windows that overlap, so that a
secret at a border of one window is well inside another. A find of any window is masked.
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
    """The finds of policies in one text.

    Attributes:
        text: original text.
        starts, ends: character offsets of the text's tokens.
        spans: sorted spans over the tokens of the whole text.
        failed_closed: flag that a policy failed on a part of the text, which is masked whole.
        flagged: flag that the conservative policy would keep some part of the text private.
        conservative_failed: flag that the conservative policy failed on a part of the text.
        other_language: language of the text if there is no model for it, so that the text is masked whole.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    spans: tuple[Span, ...]
    failed_closed: bool
    flagged: bool
    conservative_failed: bool
    other_language: str | None = None

    def mask(self) -> bytearray:
        """Returns one byte per token, 1 if it is masked."""
        return token_mask(len(self.starts), self.spans)

    def rendered(self, rendering: str = "collapsed") -> str:
        """Returns the redacted text in one of `RENDERINGS`."""
        if rendering.startswith("jft"):
            return render_jft(self.text, self.starts, self.ends, self.spans, typed=rendering == "jft-typed")
        return redact_text(self.text, self.starts, self.ends, self.mask(), collapse=rendering == "collapsed")


class TextJudge:
    """Judges whole texts by a `Redactor`. Each text is one document. Lines ``SPEAKER: utterance`` name its speakers.

    Args:
        redactor: redactor that judges rows.
        language: language of the tokeniser.
    """

    def __init__(self, redactor: Redactor, language: str = "en") -> None:
        self._redactor = redactor
        self._splitter = Splitter(language=language, cut_fields=True)

    def judge(self, texts: Sequence[str]) -> list[JudgedText]:
        """Returns one result per text, in order."""
        tokens = [self._splitter.tokens(text) for text in texts]
        requests: list[Request] = []
        documents: list[str] = []
        cuts: list[list[tuple[int, int]]] = []
        for number, (text, (starts, ends)) in enumerate(zip(texts, tokens, strict=True)):
            names = tuple(name for _, name in self._splitter.speakers(text)) if self._redactor.reads_speakers else ()
            cuts.append(windows(len(starts), WINDOW_TOKENS, OVERLAP_TOKENS))
            for first, last in cuts[-1]:
                base = starts[first]
                requests.append(
                    Request(
                        text[base : ends[last - 1]],
                        [start - base for start in starts[first:last]],
                        [end - base for end in ends[first:last]],
                        names=names,
                    )
                )
                documents.append(str(number))
        verdicts = iter(self._redactor.judge(requests, documents))
        judged = []
        for text, (starts, ends), parts in zip(texts, tokens, cuts, strict=True):
            of_windows = [next(verdicts) for _ in parts]
            spans = {
                span._replace(start_token=span.start_token + first, end_token=span.end_token + first)
                for (first, _), verdict in zip(parts, of_windows, strict=True)
                for span in verdict.spans
            }
            failed = any(verdict.failed_closed for verdict in of_windows)
            flagged = any(verdict.flagged for verdict in of_windows)
            conservative_failed = any(verdict.conservative_failed for verdict in of_windows)
            other = next((verdict.other_language for verdict in of_windows), None)
            ordered = tuple(sorted(spans))
            judged.append(JudgedText(text, starts, ends, ordered, failed, flagged, conservative_failed, other))
        return judged
