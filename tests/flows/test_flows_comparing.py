"""``reticent compare``: variants, means with intervals, the page, and a real comparison of two methods."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.project import reticent, small_project
from support.shared_server import run_json, shared_server

from flows.commands.compare import (
    Variant,
    _summary,
    _together,
    compare_document,
    compare_text,
    labels,
    make_variants,
    without_idle,
)
from flows.commands.init import write_starter
from flows.commands.ledger import ledger_document
from pipelines.accounting.events import Gaussian, NonPrivate, PoissonSampled
from pipelines.accounting.ledger import Release
from pipelines.errors import ConfigError
from pipelines.numbers import upper_bound
from pipelines.report.comparison import render_comparison


def _row(method: str, repetition: int, value: float, **changes: Any) -> dict[str, Any]:
    claim = {"notion": "confidentiality", "epsilon": 3.0, "delta": 1e-5, "is_guarantee": True, "theorem": "t"}
    row = {"config": None, "method": method, "repetition": repetition, "state": "completed", "epsilon_unamplified": 3.0}
    row |= {"dropped": []}
    row |= {
        "perplexity_per_word": value,
        "bits_per_byte": value / 64,
        "perplexity": value / 2,
        "next_token_accuracy": 0.2,
        "next_word_accuracy": 0.1,
    }
    return row | {"headline": claim, "train_seconds": 2.0} | changes


ROWS = [
    *(_row("crt", number, value) for number, value in enumerate((90.0, 100.0, 110.0))),
    _row("no_dp", 0, 50.0, epsilon_unamplified=None, headline=None),
    {"config": None, "method": "jft/light_noise", "repetition": 0, "state": "failed", "reason": "<not measured>",
     "dropped": []},
]  # fmt: skip
TOGETHER = {"num_releases": 4, "epsilon": 6.293, "delta": 1e-5, "num_trusted": 0, "not_guaranteed_because": None}


def test_means_have_student_intervals_over_repetitions() -> None:
    crt, no_dp = _summary(ROWS)
    assert crt["num_repetitions"] == 3
    assert crt["perplexity_per_word"]["mean"] == pytest.approx(100)
    # t(0.975, 2) = 4.3027, standard error 10 / sqrt(3)
    assert crt["perplexity_per_word"]["high"] == pytest.approx(100 + 4.30265 * 10 / 3**0.5, rel=1e-4)
    assert no_dp["perplexity_per_word"] == {"mean": 50.0, "low": None, "high": None}


def test_an_interval_ends_where_the_figure_cannot_go() -> None:
    """Guards pages on which a perplexity, or an accuracy above 1, lay within the interval of few repetitions."""
    rows = [_row("crt", n, value, next_word_accuracy=0.9 + n / 20) for n, value in enumerate((20.0, 900.0))]
    (crt,) = _summary(rows)
    ends = (crt["perplexity_per_word"]["low"], crt["bits_per_byte"]["low"], crt["next_word_accuracy"]["high"])
    assert ends == (1.0, 0.0, 1.0)
    page = render_comparison({"variants": rows, "methods": [crt], "together": None})
    assert "logarithmic" in page
    assert not re.search(r">-\d", page)


def test_table_and_page_show_every_method_and_what_failed() -> None:
    document = {"variants": ROWS, "methods": _summary(ROWS), "outputs": {"html": "x.html", "json": "x.json"}}
    document["together"] = TOGETHER
    text = compare_text(document)
    assert text.startswith("4 releases on these files together: epsilon 6.3,")
    page = render_comparison(document)
    HTMLParser().feed(page)
    for method in ("crt", "no_dp", "jft/light_noise"):
        assert method in text
        assert method in page
    for shown in (text, page):
        assert "bits per byte" in shown
        assert "1.562" in shown or "1.56" in shown
    assert "&lt;not measured&gt;" in page
    assert "<not measured>" not in page
    assert "<script" not in page
    assert render_comparison(document) == page


def test_an_epsilon_of_0_is_said_to_say_nothing_about_missed_secrets() -> None:
    for epsilon in (0.0, 3.0):
        claim = {"notion": "confidentiality_of_masked_secrets", "epsilon": epsilon, "delta": 0.0}
        rows = [_row("redacted", 0, 20.0, headline=claim, epsilon_unamplified=None)]
        document = {"variants": rows, "methods": _summary(rows), "outputs": {"html": "x.html", "json": "x.json"}}
        document["together"] = None
        assert ("redacted: ε = 0 says nothing about missed secrets" in render_comparison(document)) is (epsilon == 0)
        assert ("says nothing about secrets that redaction missed" in compare_text(document)) is (epsilon == 0)


def test_a_model_trained_without_noise_is_counted_apart_as_the_ledger_does(tmp_path, patch) -> None:
    """Guards the line above the table: "no bound", where the only model without noise stays on the trusted side."""
    noised = PoissonSampled(sample_rate=1.0, event=Gaussian(noise_multiplier=4.0))
    releases = [
        Release(release_id=key, key=key, event=event, delta=1e-5, is_public=is_public, tokens=frozenset())
        for key, event, is_public in (("a", noised, True), ("b", noised, True), ("c", NonPrivate(), False))
    ]
    config = small_project(tmp_path / "p", 2)
    config.write_text(config.read_text() + '\n[guarantee]\nbudget_scope = "store"\n')
    for module in ("compare", "ledger"):
        patch(f"flows.commands.{module}", "checked_releases", lambda roots: releases)
    together = _together([config], {}, {"b", "c"})
    (group,) = ledger_document(config, {})["groups"]
    assert {name: group[name] for name in ("num_releases", "epsilon", "delta")} == {
        name: together[name] for name in ("num_releases", "epsilon", "delta")
    }
    assert together["epsilon"] is not None
    document = {"variants": ROWS, "methods": _summary(ROWS), "outputs": {"html": "x.html", "json": "x.json"}}
    text, page = (show({**document, "together": together}) for show in (compare_text, render_comparison))
    shown = upper_bound(together["epsilon"])
    assert text.startswith(f"2 releases on these files together: epsilon {shown}, delta 10⁻⁵")
    assert "1 model kept on the trusted side: no cost while it stays there" in text
    assert "2 releases on these files together" in page
    assert "at no cost while they do: 1" in page
    assert _together([config], {}, {"x"}) is None


def test_a_comparison_shows_the_figures_of_its_task() -> None:
    none = {"perplexity_per_word": None, "bits_per_byte": None, "next_token_accuracy": None, "next_word_accuracy": None}
    classes = [_row("crt", n, 1.0, **none | {"perplexity": None, "accuracy": 0.8 + n / 100}) for n in range(2)]
    texts = [_row("crt", 0, 15.0, **none | {"perplexity": 7.5, "bleu": 41.0, "rouge_l": 52.0})]
    for rows, present, absent in (
        (classes, ("accuracy", "0.805"), ("perplexity", "BLEU", "next-word")),
        (texts, ("perplexity", "7.5", "BLEU", "41", "ROUGE-L", "52"), ("accuracy", "F1", "per word")),
    ):
        document = {"variants": rows, "methods": _summary(rows), "outputs": {"html": "x.html", "json": "x.json"}}
        document["together"] = None
        text, page = compare_text(document), render_comparison(document)
        assert "<circle" in page
        for word in present:
            assert word in text
            assert word in page
        for word in absent:
            assert word not in text
            assert word not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["dpsdg"]}, "no training method dpsdg"),
        ({"methods": ["jft/none"]}, "jft/light_noise"),
        ({"overrides": ["noise"]}, "table.field=value"),
        ({"overrides": ["train.epoch=1"]}, "--set train.epoch: unknown key train.epoch; did you mean epochs"),
        ({"repetitions": 1}, "nothing to compare with"),
        ({"methods": ["crt", "crt"], "repetitions": 1}, "nothing to compare with"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    config = small_project(tmp_path / "p", 2)
    given = {"methods": [], "repetitions": None, "overrides": []} | arguments
    with pytest.raises(ConfigError, match=message):
        compare_document([config], {}, **given)
    assert not (config.parent / "reticent-store" / "private" / "runs").exists()


def test_what_is_named_twice_is_trained_once_and_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    """Guards intervals: one training in two rows is no repetition, and two corpora are none of each other."""
    configs = [write_starter(tmp_path / name, [], dialogues=3, seed=0) for name in "ab"]
    again = configs[0].parent / ".." / "a" / "reticent.toml"
    found = make_variants(
        [*configs, again], {}, methods=["crt", "dpsgd", "crt"], repetitions=2, overrides=["train.epochs=1"]
    )
    assert len(found) == len({(v.config.resolve(), v.method, v.repetition) for v in found}) == 8
    assert list(labels(configs).values()) == [str(config) for config in configs]
    assert list(labels([configs[0], tmp_path / "other.toml"]).values()) == ["reticent.toml", "other.toml"]
    assert labels(configs[:1]) == {configs[0]: None}


def test_protections_that_a_method_does_not_give_are_dropped_visibly(tmp_path: Path) -> None:
    """Guards the line that switches between methods, where a run with such settings is refused."""
    config = small_project(tmp_path / "p", 2)
    config.write_text(config.read_text() + "\n[sweep]\nrepetitions = 1\n")
    environ = {"RETICENT__TRAIN__MAX_GRAD_NORM": "0.2"}
    plain = without_idle(Variant(config, "crt", 0, environ), {})
    assert plain.dropped == ()
    found = without_idle(Variant(config, "redacted", 0, environ), {})
    assert "train.max_grad_norm" in found.dropped
    rows = [{**_row("redacted", 0, 1.0), "dropped": list(found.dropped)}]
    document = {"variants": rows, "methods": _summary(rows), "outputs": {"html": "x.html", "json": "x.json"}}
    text = compare_text({**document, "together": None})
    assert "redacted gives no such protection, so left out: train.max_grad_norm" in text


@pytest.mark.slow
def test_two_methods_on_one_corpus(tmp_path: Path) -> None:
    config = small_project(tmp_path / "p", 30)
    before = run_json(config)
    choice = ("--methods", "crt,no_dp", "--repetitions", "2", "--json")
    done = reticent("compare", config, *choice, cwd=config.parent, **shared_server())
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert [row["state"] for row in document["variants"]] == ["completed"] * 4
    assert [row["num_repetitions"] for row in document["methods"]] == [2, 2]
    assert Path(document["outputs"]["html"]).is_file()
    assert "private" in document["outputs"]["html"]
    (group,) = ledger_document(config, {})["groups"]
    told = document["together"]
    assert (told["num_releases"], told["epsilon"], told["num_trusted"]) == (2, group["epsilon"], 2)
    latest = json.loads((config.parent / "reticent-store/private/latest.json").read_text())
    assert latest["run_id"] == before["run_id"]
    store = config.parent / "reticent-store"
    assert len(list((store / "public").rglob("model.safetensors"))) == 1  # the run's own, which the comparison shares
    kept = list((store / "private/objects/train").rglob("unpublished/model/model.safetensors"))
    assert len(kept) == 1  # crt once more; it is charged for all the same
    after = run_json(config, RETICENT__TRAIN__METHOD="no_dp", RETICENT__TRAIN__NOISE_MULTIPLIER="")
    assert "model" not in after["outputs"]
    assert Path(after["outputs"]["private_model"], "model.safetensors").is_file()
    assert not (config.parent / "reticent-store/public/latest/model").exists()
