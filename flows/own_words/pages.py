"""Public reports: the page and the document, of many runs and settings."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from typing import Any, Final

from flows.own_words import settings
from flows.own_words.cards import evaluations, runs
from flows.own_words.cases import few_cases, reasons
from flows.own_words.claims import documents
from flows.own_words.variants import choices
from pipelines.accounting.synthetic_text import claim_of_text
from pipelines.gate.files import json_units, page_units
from pipelines.gate.own import HOLE
from pipelines.graph import GRAPH
from pipelines.miss_rate.estimate import Labelled, measured, not_measured
from pipelines.miss_rate.review import ReviewTable, SentenceReview
from pipelines.policies.detectors.specs import SPECS
from pipelines.report.cards import data_card, model_card_sections
from pipelines.report.figures import Sources, build
from pipelines.report.public import public_version
from pipelines.report.render import render_html
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.report import ReportConfig
from pipelines.training.outputs import events_document, figures_document

_SOURCES: Final = Sources(
    redact=({"policies": list(SPECS), "conservative": "conservative"},),
    shard=(
        {
            "num_public": 3,
            "num_private": 4,
            "num_public_tokens": 30,
            "num_private_tokens": 40,
            "num_all_mask": 1,
            "num_held": 1,
        },
    ),
    dedup={
        "mode": "mask_later",
        "normalise": "none",
        "verify": True,
        "min_tokens": 3,
        "target_false_positive_rate": 1e-6,
        "expected_items": 1_000,
    },
    publishes_rows=True,
    signed_by=HOLE,
)

_TABLE: Final = {"num_rows": 3, "num_filtered": 1, "num_tokens": 30, "is_published": True}


def _check(*, find: bool) -> dict[str, Any]:
    """What was counted in a synthetic table, with the gate on or off."""
    rows = {"rows": {"high": 0.5}}
    distance = {"other": {"auc": 0.5}} if find else None
    finds = {"table": rows} if find else None
    return {"replay": {"table": rows}, "finds": finds, "distance": distance, "downstream": None}


def texts() -> Iterator[str]:
    """What they say, and the names of the public files."""
    yield from settings.lists()
    yield from (table.name for stage in GRAPH.values() if "public" in stage.roots for table in stage.tables)
    yield from _titles()
    for sources, claims, is_shown in _runs():
        full = build(sources, title=HOLE)
        public = public_version(full, claims, publishes_counts=is_shown)
        for unit in (*json_units(public), *page_units(render_html(public))):
            yield unit.text
        yield model_card_sections(public)
        yield data_card(public)


def _titles() -> Iterator[str]:
    starter = tomllib.loads(resources.files("flows.commands").joinpath("starter.toml").read_text("utf-8"))
    yield ReportConfig().title
    yield starter["report"]["title"]


def _runs() -> Iterator[tuple[Sources, Any, bool]]:
    """Sources of a report, the claims that the public may see, and whether the rates are published."""
    plain = _SOURCES
    yield replace(plain, publishes_rows=False), None, False
    for shown in settings.shown():
        yield replace(plain, settings=shown), None, False
    for policy, conservative in _policies():
        redact = {"policies": [policy], "conservative": conservative}
        yield replace(plain, redact=(redact,)), None, False
    for changed in _dedups():
        yield replace(plain, dedup={**plain.dedup, **changed}), None, False
    for stability, reason in reasons():
        known = {"add_or_remove_one": stability, "replace_one": stability, "reason": reason}
        yield replace(plain, claims={"dedup_stability": known}), None, False
    for estimate in _estimates():
        yield replace(plain, estimate=estimate), None, True
        yield replace(plain, estimate=estimate, redact=({"policies": [], "conservative": None},), shard=()), None, True
    for run in runs():
        yield replace(plain, train=figures_document(run), events=events_document(run)), None, False
    for figures in evaluations():
        yield replace(plain, train=figures), None, False
    for case in few_cases():
        for document in documents(case):
            yield replace(plain, claims=document), document, case.publication.publishes_counts
    for table in _tables():
        yield replace(plain, synthetic=table), None, False
    for check in (_check(find=True), _check(find=False)):
        yield replace(plain, synthetic=table, synthetic_check=check), None, True


def _tables() -> list[dict[str, Any]]:
    """Synthetic tables; few, for most claims differ in numbers alone."""
    found = {}
    for case in few_cases():
        for document in documents(case):
            claim = claim_of_text(document)
            words = {name: value for name, value in claim.items() if not isinstance(value, float)}
            found[json.dumps(words)] = {**_TABLE, **claim}
    return list(found.values())


def _policies() -> Iterator[tuple[str, str | None]]:
    plug_in = "some.where:Policy"
    yield from ((name, None) for name in (*SPECS, plug_in))
    yield from (("digits", name) for name in (*SPECS, plug_in))


def _dedups() -> Iterator[dict[str, Any]]:
    fields = ("mode", "normalise", "unit")
    every = [choices(DedupConfig.model_fields[name].annotation) for name in fields]
    for *values, verify, min_tokens in itertools.product(*every, (False, True), (0, 3)):
        yield {**dict(zip(fields, values, strict=True)), "verify": verify, "min_tokens": min_tokens}


def _estimates() -> Iterator[dict[str, Any]]:
    """Figures of reviews: of all, of a sample, of a part of it; with and without misses; and of none."""
    yield not_measured(num_sampled_sentences=5, is_census=False, confidence=0.95, reason=HOLE)
    for num_missed, is_census, is_whole in itertools.product((0, 2), (False, True), (False, True)):
        for source in ("gold", "human", "proxy"):
            labelled = Labelled(is_whole=is_whole, share=1.0 if is_whole else 0.5)
            table = _review(num_missed)
            yield measured(table, source=source, is_census=is_census, confidence=0.95, labelled=labelled)
    yield measured(_review(0, num_sentences=0), source="gold", is_census=False, confidence=0.95)


def _review(num_missed: int, *, num_sentences: int = 20) -> ReviewTable:
    table = ReviewTable(num_replicates=2)
    for number in range(num_sentences):
        is_missed = number < num_missed
        sentence = SentenceReview(
            num_tokens=10,
            num_sensitive=1,
            num_missed=int(is_missed),
            num_masked=int(not is_missed),
            is_kept=True,
            is_public=is_missed,
            secrets=((HOLE, is_missed),),
        )
        table.add(sentence, (number % 2,))
    return table
