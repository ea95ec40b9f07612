"""Training again is a second release: it is ledgered, a cached one is not, and a budget stops it before it starts."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from looked_at import EVERYTHING, drive, finished_run
from support.copies import copied
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.diff import diff_document, diff_text, runs_document
from flows.commands.ledger import ledger_document, ledger_text
from flows.commands.plan import run_text
from flows.running.spec import open_store
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.numbers import real
from pipelines.settings.loading import load_settings
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects import manifest as manifests
from pipelines.store.place.ledger_file import LedgerError
from pipelines.store.place.roots import Roots

pytestmark = pytest.mark.slow  # one run after the other, each with a server of its own


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished run, to go on with."""
    target = tmp_path_factory.mktemp("releases") / "project"
    copied(finished_run().parent, target)
    return target / "reticent.toml"


def one_file(folder: Path, name: str, *, newest: bool) -> str:
    found = sorted(folder.glob(f"*/{name}"), key=lambda path: path.stat().st_mtime)
    assert found
    return found[-1 if newest else 0].read_text()


def train_objects(config: Path) -> set[str]:
    return {p.name for p in (config.parent / "reticent-store/private/objects/train").iterdir()}


def test_a_cached_model_is_one_release_and_a_forced_one_a_second(config: Path) -> None:
    first = ledger_document(config, {})
    assert [r["state"] for r in first["releases"]] == ["published"]
    assert first["releases"][0]["epsilon"] == pytest.approx(3, abs=0.01)
    assert first["groups"][0]["epsilon"] == first["releases"][0]["epsilon"]

    assert {o.state for o in drive(config, EVERYTHING)} == {"cached"}
    assert len(ledger_document(config, {})["releases"]) == 1

    drive(config, EVERYTHING, forced=("train",))
    second = ledger_document(config, {})
    assert [r["state"] for r in second["releases"]] == ["published"] * 2
    assert second["releases"][0]["data"] == second["releases"][1]["data"]
    (group,) = second["groups"]
    assert group["num_releases"] == 2
    assert 3.5 < group["epsilon"] < 5.9  # more than one, less than the sum
    assert "2 releases that may share records" in ledger_text(second)
    # What the ledger says, everything that prints an epsilon says first: summary, reports, card, and its own credit.
    roots = config.parent / "reticent-store"
    claims = json.loads(one_file(roots / "private/objects/guarantee", "claims.json", newest=True))
    assert claims["together"]["epsilon"] == pytest.approx(group["epsilon"])
    bayesian = next(c for c in claims["claims"] if c["notion"] == "bayesian_confidentiality")
    assert group["credit"]["epsilon"] == bayesian["together"]["epsilon"]
    assert bayesian["epsilon"] is None or group["credit"]["epsilon"] > bayesian["epsilon"]
    full = json.loads(one_file(roots / "private/objects/report", "report.json", newest=True))
    shown = json.loads(one_file(roots / "public/objects/report", "report.json", newest=True))
    for metrics in (full["metrics"], shown["metrics"]):
        assert metrics["num_releases"] == 2
        assert metrics["epsilon"] > metrics["epsilon_this_model"]
    card = one_file(roots / "public/objects/train", "model/README.md", newest=True)
    assert card.index("Together with 1 earlier release") < card.index("The noise of this training")
    assert " (one private record replaced), composed and unamplified. The noise of this training" in card
    assert "2 releases together" in one_file(roots / "public/objects/report", "report.html", newest=True)
    summary = run_text({"run_id": "r", "stages": [], "metrics": full["metrics"]})
    assert "epsilon, all releases on these files" in summary


def headlines(config: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The claims of the newest run, for the trusted side and for the public, by notion."""
    found = json.loads(one_file(config.parent / "reticent-store/private/objects/guarantee", "claims.json", newest=True))
    return tuple({c["notion"]: c for c in d["claims"]} for d in (found, found["public"]))  # type: ignore[return-value]


def test_a_table_that_was_published_once_counts_for_claims_after_it_was_withdrawn(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Guards "no row is published, so delta2 is 0", after a run that published rows beside the same cached model."""
    target = tmp_path_factory.mktemp("withdrawn") / "project"
    copied(finished_run().parent, target)
    shutil.rmtree(target / "reticent-store")
    config = target / "reticent.toml"
    text = config.read_text().replace("[train]", '[train]\nmethod = "dpsgd"')
    texts = {how: f'{text}\n[shard]\npublish = "{how}"\n' for how in ("auto", "always")}
    config.write_text(texts["auto"])
    drive(config, EVERYTHING)
    before, _ = headlines(config)
    assert before["confidentiality"]["is_guarantee"]
    assert ledger_document(config, {})["tables"] == []

    config.write_text(texts["always"])
    drive(config, EVERYTHING)
    (table,) = ledger_document(config, {})["tables"]
    assert "1 table of public rows was published" in ledger_text(ledger_document(config, {}))

    config.write_text(texts["auto"])
    drive(config, EVERYTHING)
    after, public = headlines(config)
    assert public["confidentiality"]["refused"] is not None
    assert "the table of public rows of an earlier run" in after["confidentiality"]["covers"]
    assert not any("no row is published" in text for text in after["confidentiality"]["assumptions"])
    document = ledger_document(config, {})
    assert document["tables"] == [table]
    assert [r["method"] for r in document["releases"]] == ["dpsgd"]  # the model stayed cached: one release

    config.write_text(texts["auto"].replace('"high_entity"]', '"high_entity", "digits"]'))
    drive(config, EVERYTHING)
    _, public = headlines(config)
    assert "another redaction took for public" in public["confidentiality"]["refused"]


def test_a_training_over_the_budget_does_not_start(config: Path) -> None:
    before, trained = ledger_document(config, {}), train_objects(config)
    spent = before["groups"][0]["epsilon"]
    limit = {"RETICENT__GUARANTEE__BUDGET_EPSILON": f"{spent + 0.1}", "RETICENT__TRAIN__TARGET_EPSILON": "1.0"}
    with pytest.raises(PrivacyGateError, match="training was not started: 2 earlier releases"):
        drive(config, EVERYTHING, **limit)
    assert ledger_document(config, {})["releases"] == before["releases"]
    assert train_objects(config) == trained
    assert not list((config.parent / "reticent-store/private/work").glob("*/scratch/train.ckpt"))
    shown = ledger_document(config, limit)
    left = shown["groups"][0]["left"]
    assert left == pytest.approx(0.1)
    assert f"budget {spent + 0.1:g}: {real(left, lower=True)} left" in ledger_text(shown)
    # What is cached costs nothing more, whatever the budget.
    cached = {**limit, "RETICENT__GUARANTEE__BUDGET_EPSILON": "0.5", "RETICENT__TRAIN__TARGET_EPSILON": "3.0"}
    assert {o.state for o in drive(config, EVERYTHING, **cached)} == {"cached"}
    drive(config, EVERYTHING, **{**limit, "RETICENT__GUARANTEE__BUDGET_EPSILON": f"{spent + 1}"})
    assert ledger_document(config, {})["groups"][0]["num_releases"] == 3


def test_diff_says_what_changed_and_only_that(config: Path) -> None:
    document = diff_document(config, {}, "previous", "latest")
    assert [c["setting"] for c in document["config"]] == ["guarantee.budget_epsilon", "train.target_epsilon"]
    assert document["config"][1] == {"setting": "train.target_epsilon", "before": 3.0, "after": 1.0, "hidden": False}
    assert document["inputs"]["num_unchanged"] == 3
    assert document["code"] == document["packages"] == []
    rebuilt = {row["stage"] for row in document["stages"] if row["num_other"]}
    assert rebuilt == {"train", "guarantee", "report"}
    claims = {c["notion"]: c for c in document["guarantee"] if c["group_size"] == 1}
    assert claims["dp_private_set"]["before"]["epsilon"] == pytest.approx(3, abs=0.01)
    assert claims["dp_private_set"]["after"]["epsilon"] == pytest.approx(1, abs=0.01)
    assert document["miss_rate"]["miss_rate"]["before"] == document["miss_rate"]["miss_rate"]["after"] > 0
    assert document["utility"]["perplexity"]["before"] != document["utility"]["perplexity"]["after"]
    text = diff_text(document)
    assert "train.target_epsilon: 3.0 → 1.0" in text
    assert re.search(r"dp_private_set: ε 4\.\d+, δ 10⁻⁵ for 2 releases together \(ε (3|2\.99)", text)
    assert "corpus" not in text
    same = diff_document(config, {}, "latest", "latest")
    assert same["config"] == []
    assert not any(c["changed"] for c in same["guarantee"])


def test_diff_hides_names_and_words_unless_asked(config: Path) -> None:
    (config.parent / "corpus" / "night-02.jsonl").rename(config.parent / "corpus" / "miller-family.jsonl")
    before = config.read_text()
    config.write_text(before + '\n[report]\ntitle = "Miller versus Jones"\n')
    drive(config, ("split",))
    config.write_text(before)
    hidden = CliRunner().invoke(app, ["diff", "previous", "latest", "--config", str(config), "--json"]).output
    assert "iller" not in hidden
    assert "night" not in hidden
    document = json.loads(hidden)
    assert len(document["inputs"]["renamed"]) == 1
    assert next(c for c in document["config"] if c["setting"] == "report.title")["hidden"]
    shown = diff_text(diff_document(config, {}, "previous", "latest", show_names=True))
    assert "renamed  night-02.jsonl → miller-family.jsonl" in shown
    assert "Miller versus Jones" in shown


def test_runs_are_listed_and_found_by_a_unique_beginning(config: Path) -> None:
    listed = runs_document(config, {})["runs"]
    assert [r["run_id"] for r in listed] == sorted((r["run_id"] for r in listed), reverse=True)
    assert {"completed", "unfinished"} <= {r["state"] for r in listed}  # the refused run has no record here
    assert set(listed[0]["built"]) == {"split"}
    assert listed[0]["started"].startswith("20")
    newest = listed[0]["run_id"]
    assert diff_document(config, {}, newest[:20], newest)["runs"][0]["run_id"] == newest
    for wrong in ("2", "", "nothing"):
        with pytest.raises(ConfigError, match="reticent runs"):
            diff_document(config, {}, wrong, "latest")


def forget_the_ledger(roots: Roots) -> None:
    """As a store from before there was a ledger: nobody has written down how long it was."""
    (roots.private / "store.json").write_text('{"schema_version": 1}')
    shutil.rmtree(roots.private / "releases", ignore_errors=True)
    paths = list((roots.private / "manifests/train").glob("*.json"))
    paths += [*roots.public.glob("objects/train/*/manifest.json"), *roots.public.glob("quarantine/*/manifest.json")]
    for path in paths:
        document = json.loads(path.read_text())
        document.pop("ledger", None)
        document.pop("checksum", None)
        document.get("lineage", {}).pop("ledger", None)
        path.write_text(json.dumps(document))


def test_a_model_from_before_the_ledger_counts(config: Path) -> None:
    roots = open_store(load_settings(config, {}))
    (roots.private / "ledger" / "releases.jsonl").unlink()
    with pytest.raises(LedgerError, match="has 0 lines"):  # those who wrote its length down remember it
        read_ledger(roots)
    forget_the_ledger(roots)
    found = read_ledger(roots)
    kept = [k for k in train_objects(config) if manifests.load(roots, "train", k)]
    assert sorted(r.key for r in found) == sorted(kept)
    assert len(found) == 2  # the third was replaced by force, and nobody can know of it any more
    assert {r.tokens for r in found} == {None}
    with pytest.raises(PrivacyGateError, match="2 earlier releases"):
        drive(config, EVERYTHING, forced=("train",), RETICENT__GUARANTEE__BUDGET_EPSILON="3.1")
