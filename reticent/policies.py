"""Policies on any text: redaction, and scores on labelled text, without a settings file or a store.

    >>> import reticent
    >>> (found,) = reticent.redact(["call 5550100 now"], policies=["digits"])
    >>> found.text
    'call <MASK> now'
    >>> found.finds
    (Find(start=5, end=12, label='DIGITS', policy='digits', score=1.0),)

A `Redactor` loads its policies once, and scores them:

    >>> from reticent.policies import LabelledText
    >>> with reticent.Redactor(["digits"]) as redactor:
    ...     scores = redactor.evaluate([LabelledText("call 5550100 now", [(5, 12, "PHONE")])])
    >>> scores.overall.span_recall.value, scores.overall.token_precision.num_units
    (1.0, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, Unpack, get_args

from pydantic import ValidationError

from pipelines.corpus.records import is_unicode
from pipelines.errors import ConfigError, InputError
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import DocumentPolicy, Policy, PolicySpec, Sentence, Span, SpeakerPolicy
from pipelines.settings.redact import RedactConfig

if TYPE_CHECKING:  # spaCy is slow to import
    from pipelines.policies.judging.texts import JudgedText

__all__ = [
    "DocumentPolicy",
    "Find",
    "Interval",
    "LabelScores",
    "LabelledText",
    "Policy",
    "PolicyOptions",
    "PolicyScores",
    "PolicySpec",
    "RedactOptions",
    "RedactedText",
    "Redactor",
    "Rendering",
    "Sentence",
    "Span",
    "SpeakerPolicy",
    "redact",
]

Rendering = Literal["collapsed", "tokens", "jft", "jft-typed"]
"""The form of masks: one mask per run of masked tokens, one per token, or masks as the code of JFT writes them."""

Given = TypeVar("Given")

_AT_ONCE: Final = 2_000


class RedactOptions(TypedDict, total=False):
    """The fields of the table ``[redact]`` that policies read. `docs/settings.md` explains each field."""

    model: str
    language: str
    language_of: Literal["corpus", "document"]
    models: Mapping[str, str]
    check_language: bool
    stabilise: bool
    reads_original: bool
    dates_and_numbers: Literal["all", "careful", "identifying"]
    patterns: Mapping[str, str]
    pattern_seconds: float
    keywords: Mapping[str, Sequence[str]]
    names: Sequence[str]
    names_file: str
    recognizers: Sequence[str]
    classifier: str
    classifier_threshold: float
    token_classifier: str
    token_classifier_revision: str
    token_classifier_labels: Mapping[str, str]
    token_classifier_threshold: float
    token_classifier_thresholds: Mapping[str, float]
    token_classifier_device: str
    token_classifier_onnx: str
    token_classifier_aggregation: Literal["label", "any"]
    gliner: str
    gliner_revision: str
    gliner_labels: Mapping[str, str]
    gliner_threshold: float
    exclude: Sequence[str]
    exclude_labels: Sequence[str]
    options: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Find:
    """A find of a policy in a text.

    Attributes:
        start, end: half-open character offsets in the original text.
        label: label of the find.
        policy: name of the policy.
        score: confidence of the policy from 0 to 1; 1.0 if the detector gives none.
    """

    start: int
    end: int
    label: str
    policy: str
    score: float = 1.0


@dataclass(frozen=True, kw_only=True)
class RedactedText:
    """A text with masks, without its original.

    Attributes:
        text: redacted text.
        finds: masked finds in the order of the text. Finds may overlap.
        num_tokens, num_masked_tokens: numbers of tokens and of masked tokens of the original text.
        failed_closed: true if a policy failed on a part of the text, which is then masked whole.
        is_flagged: true if the conservative policy would keep the text private, or failed; None without such a policy.
    """

    text: str
    finds: tuple[Find, ...]
    num_tokens: int
    num_masked_tokens: int
    failed_closed: bool = False
    is_flagged: bool | None = None


@dataclass(frozen=True)
class LabelledText:
    """A text with known secrets.

    Attributes:
        text: original text.
        secrets: half-open character spans ``(start, end, label)``.
    """

    text: str
    secrets: Sequence[tuple[int, int, str]] = ()


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A rate with its two-sided interval; None if nothing was counted.

    Attributes:
        value, low, high: rate and ends of its interval.
        num_hits, num_units: counts that the rate is made of; None for a score that is no rate.
    """

    value: float | None
    low: float | None
    high: float | None
    num_hits: int | None = None
    num_units: int | None = None


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """Scores of policies on one label, or on all labels.

    Recall counts by the label of the secret, whatever the label of the find. Precision counts by the label of the find.
    A span is found if all of its tokens are masked. F2 weighs recall four times as much as precision.
    """

    token_recall: Interval
    token_precision: Interval
    token_f2: Interval
    span_recall: Interval
    span_precision: Interval
    span_f2: Interval


@dataclass(frozen=True, kw_only=True)
class PolicyScores:
    """Scores of policies on labelled text.

    Attributes:
        num_texts, num_tokens, num_failed_closed: numbers of texts, of tokens, and of texts on which a policy failed.
        coverage: share of tokens that are masked; None without a token.
        gold_coverage: share of tokens that are part of a secret.
        confidence: confidence of every interval. Texts are clusters, because secrets of one text tend to be missed
            together.
        overall: scores of all labels together.
        by_label: scores by label.
        texts_missed: share of texts with a secret in which nothing was found. It measures a conservative policy.
    """

    num_texts: int
    num_tokens: int
    num_failed_closed: int
    coverage: float | None
    gold_coverage: float | None
    confidence: float
    overall: LabelScores
    by_label: Mapping[str, LabelScores]
    texts_missed: Interval


class Redactor:
    """Loaded policies for any number of texts.

    Args:
        policies: policies whose union is masked: names (`docs/policies.md`), entry points, import paths
            ``module:Class``, or classes at the top of a module.
        conservative: policy that flags texts as private without masking them; a name or a class.
        workers: number of processes that judge. 1 is this process alone.
        options: fields of ``[redact]``, such as ``names=["Quux"]`` or ``model="en_core_web_md"``.

    Raises:
        ConfigError: a policy, a model or an option is unknown or does not fit; before any work.

    Equal sentences are judged once. Use the redactor as a context manager if it has worker processes.
    """

    def __init__(
        self,
        policies: Sequence[str | type[Policy]],
        *,
        conservative: str | type[Policy] | None = None,
        workers: int = 1,
        **options: Unpack[RedactOptions],
    ) -> None:
        from pipelines.policies.judging.apply import Redactor as Judging
        from pipelines.policies.judging.texts import TextJudge

        names = [_name(policy) for policy in policies]
        settings: dict[str, Any] = {"reads_original": True, **options, "policies": names}
        if conservative is not None:
            settings["conservative"] = _name(conservative)
        try:
            config = RedactConfig.model_validate(settings)
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, e['loc'])) or 'redact'}: {e['msg']}" for e in error.errors()]
            raise ConfigError("; ".join(problems).replace("Value error, ", "")) from None
        self._config = config
        self._judging = Judging.from_spec(config.redactor_spec(), workers)
        self._judge = TextJudge(self._judging, config.language)
        self._is_checked = not config.check_language or config.language_of == "document"

    def redact(self, texts: Iterable[str], *, rendering: Rendering = "collapsed") -> list[RedactedText]:
        """Returns the texts with masks, in order.

        Args:
            texts: texts of any length, each a document of its own.
            rendering: form of masks.

        Raises:
            ConfigError: the texts are plainly in another language, or there is no such rendering.
            InputError: a text holds half a surrogate pair, which is no character.
        """
        return list(self.stream(texts, rendering=rendering))

    def stream(self, texts: Iterable[str], *, rendering: Rendering = "collapsed") -> Iterator[RedactedText]:
        """Yields the results of `redact`, and reads a bounded number of texts at a time."""
        if rendering not in get_args(Rendering):
            raise ConfigError(f"rendering must be one of {', '.join(get_args(Rendering))}")
        for _, judged in self._judged(texts, lambda text: text):
            yield self._redacted(judged, rendering)

    def evaluate(self, texts: Iterable[LabelledText], *, confidence: float = 0.95) -> PolicyScores:
        """Scores the policies on labelled text.

        Args:
            texts: labelled texts, each a document of its own. To judge a conservative policy, cut them into sentences.
            confidence: confidence of every interval, two-sided.

        Raises:
            InputError: there is no text, or a secret does not lie inside its text.
            ConfigError: the texts are plainly in another language.
        """
        from pipelines.policies.judging.scoring import Scores

        scores = Scores(confidence)
        num_texts = 0
        for labelled, judged in self._judged(texts, lambda labelled: labelled.text):
            if any(not 0 <= start < end <= len(labelled.text) for start, end, _ in labelled.secrets):
                raise InputError(f"text {num_texts}: a secret must lie inside its text")
            scores.add(judged, labelled.secrets)
            num_texts += 1
        if not num_texts:
            raise InputError("there is no labelled text to score policies on")
        return _scores(scores.document())

    def _judged(self, texts: Iterable[Given], text_of: Callable[[Given], str]) -> Iterator[tuple[Given, JudgedText]]:
        from pipelines.policies.english.wrong_language import check_text

        source = iter(texts)
        number = 0
        while batch := list(islice(source, _AT_ONCE)):
            plain = [text_of(given) for given in batch]
            for text in plain:
                if not is_unicode(text):
                    raise InputError(f"text {number}: half of a surrogate pair is no character")
                number += 1
            if not self._is_checked:
                check_text(plain, self._config.language)
                self._is_checked = True
            yield from zip(batch, self._judge.judge(plain), strict=True)

    def _redacted(self, judged: JudgedText, rendering: Rendering) -> RedactedText:
        return RedactedText(
            text=judged.rendered(rendering),
            finds=tuple(
                Find(
                    start=judged.starts[span.start_token],
                    end=judged.ends[span.end_token - 1],
                    label=span.label,
                    policy=span.policy,
                    score=span.score,
                )
                for span in judged.spans
            ),
            num_tokens=len(judged.starts),
            num_masked_tokens=sum(judged.mask()),
            failed_closed=judged.failed_closed,
            is_flagged=None if self._config.conservative is None else judged.flagged,
        )

    def close(self) -> None:
        """Ends worker processes."""
        self._judging.__exit__(None, None, None)

    def __enter__(self) -> Redactor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def redact(
    texts: Iterable[str],
    *,
    policies: Sequence[str | type[Policy]],
    conservative: str | type[Policy] | None = None,
    rendering: Rendering = "collapsed",
    workers: int = 1,
    **options: Unpack[RedactOptions],
) -> list[RedactedText]:
    """Masks what policies find, as a run redacts (CRT, Algorithm 1, line 2).

    Args:
        texts: texts of any length, each a document of its own.
        policies, conservative, workers, options: arguments of `Redactor`, which loads policies once for many calls.
        rendering: form of masks.

    Returns:
        One result per text, in order.

    Raises:
        ConfigError: a policy, a model or an option is unknown or does not fit; or the texts are in another language.
        InputError: a text holds half a surrogate pair, which is no character.
    """
    with Redactor(policies, conservative=conservative, workers=workers, **options) as redactor:
        return redactor.redact(texts, rendering=rendering)


def _name(policy: str | type[Policy]) -> str:
    """Returns the name of a policy. A class becomes its import path, so that every process makes its own policy."""
    if isinstance(policy, str):
        return policy
    if not isinstance(policy, type) or "." in policy.__qualname__:
        raise ConfigError("a policy is a name, an import path module:Class, or a class at the top of a module")
    return f"{policy.__module__}:{policy.__qualname__}"


def _scores(document: Mapping[str, Any]) -> PolicyScores:
    def row(scores: Mapping[str, Any]) -> LabelScores:
        return LabelScores(**{name: Interval(**interval) for name, interval in scores.items()})

    texts = document["texts"]
    return PolicyScores(
        **{name: document[name] for name in ("num_texts", "num_tokens", "num_failed_closed", "coverage")},
        gold_coverage=document["gold_coverage"],
        confidence=document["confidence"],
        overall=row(document["overall"]),
        by_label={label: row(scores) for label, scores in document["by_label"].items()},
        texts_missed=Interval(
            value=texts["missed"],
            low=texts["missed_low"],
            high=texts["missed_high"],
            num_hits=texts["num_bearing_a_secret_without_a_find"],
            num_units=texts["num_bearing_a_secret"],
        ),
    )
