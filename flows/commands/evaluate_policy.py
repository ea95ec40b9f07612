"""``reticent evaluate-policy``: measures recall, precision and F2 of policies on labelled text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flows.commands.gold_records import gold_records
from flows.commands.redact import judge_records, opened
from pipelines.corpus.split import Splitter
from pipelines.errors import InputError
from pipelines.policies.judging.scoring import Scores

if TYPE_CHECKING:
    from pipelines.policies.judging.apply import RedactorSpec


def evaluation_document(
    gold: str,
    spec: RedactorSpec,
    *,
    by_sentence: bool = False,
    workers: int = 1,
    confidence: float = 0.95,
    check_language: bool = True,
) -> dict[str, Any]:
    """Scores policies on labelled text.

    Raises:
        ConfigError: a policy cannot be made, or the text is in another language.
        InputError: the file cannot be read, holds no record, or holds a wrong one. The message names the line.
    """
    scores = Scores(confidence)
    num_texts = 0
    with opened(gold) as lines:
        found = gold_records(lines, gold)
        units = _sentences(found, spec.options.get("language", "en")) if by_sentence else found
        for record, judged in judge_records(units, spec, workers=workers, check_language=check_language):
            scores.add(judged, record["gold"])
            num_texts += 1
    if not num_texts:
        raise InputError(
            f'{gold} holds no gold record; a line is {{"text": "...", '
            '"spans": [{"start": 0, "end": 4, "label": "NAME"}]}'
        )
    return {
        "policies": list(spec.policies),
        "stabilise": spec.stabilise,
        "unit": "sentence" if by_sentence else "text",
        **scores.document(),
    }


def _sentences(found: Iterator[dict[str, Any]], language: str) -> Iterator[dict[str, Any]]:
    splitter = Splitter(language=language, mode="rules", max_sentence_tokens=10**6)
    for record, sentences in splitter.split_each(found, lambda record: (record["text"], None)):
        for sentence in sentences:
            base, end = sentence.char_start, sentence.char_start + len(sentence.text)
            inside = ((max(a, base), min(b, end), label) for a, b, label in record["gold"])
            gold = [(a - base, b - base, label) for a, b, label in inside if a < b]
            yield {"text": sentence.text, "gold": gold}


def evaluation_text(document: Mapping[str, Any]) -> str:
    """Formats the scores for people."""
    texts = document["texts"]
    once = "" if document["stabilise"] else " (not stabilised)"
    lines = [
        f"policies {', '.join(document['policies'])}{once}: {document['num_texts']:,} {document['unit']}s, "
        f"{document['num_tokens']:,} tokens, {document['coverage']:.1%} masked, "
        f"{document['gold_coverage']:.1%} labelled",
        f"{'':24}{'token recall':>24}{'precision':>11}{'F2':>7}{'span recall':>24}{'precision':>11}{'F2':>7}",
    ]
    for label, row in [("all", document["overall"]), *document["by_label"].items()]:
        lines.append(f"{label:24.24}" + "".join(_cells(row, unit) for unit in ("token", "span")))
    if document["most_missed"]:
        lines.append("most missed:")
        lines += [
            f"  {row['label']:24} {row['num_missed_spans']:>7,} spans, {row['num_missed_tokens']:>7,} tokens "
            f"({row['share_of_all_missed_spans']:.1%} of all missed spans)"
            for row in document["most_missed"][:15]
        ]
    if texts["missed"] is not None:
        lines.append(
            f"as a conservative policy: {texts['share_without_a_find']:.1%} of {document['unit']}s public; of "
            f"{texts['num_bearing_a_secret']:,} with a secret {texts['num_bearing_a_secret_without_a_find']:,} "
            f"({texts['missed']:.2%}, {texts['missed_low']:.2%}-{texts['missed_high']:.2%}) among them"
        )
    if document["num_failed_closed"]:
        lines.append(f"warning: a policy failed on {document['num_failed_closed']:,} {document['unit']}s")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any], unit: str) -> str:
    recall, precision, score = (row[f"{unit}_{name}"] for name in ("recall", "precision", "f2"))
    shown = "-" if recall["value"] is None else f"{recall['value']:.3f} ({recall['low']:.3f}-{recall['high']:.3f})"
    return f"{shown:>24}{_number(precision['value']):>11}{_number(score['value']):>7}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
