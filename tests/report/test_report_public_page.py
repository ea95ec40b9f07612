"""The public report and its page: no count of private text, no key, no path, and rates too coarse for either."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from public_reports import published, said

from pipelines.numbers import count
from pipelines.report.cards import model_card_sections
from pipelines.report.people import person_sentences
from pipelines.report.public import public_version
from pipelines.report.render import render_html

Make = Callable[..., dict[str, Any]]

PRIVATE = {
    "num_sentences": 8511,
    "num_tokens": 102011,
    "train sentences": 7657,
    "duplicates": 1313,
    "num_private": 5302,
    "private and no duplicate": 3989,
    "private tokens": 68352,
    "all-mask": 1461,
    "masked": 11454,
    "reviewed": 2207,
    "secrets": 731,
    "sensitive tokens": 2841,
}


def test_the_public_version_holds_no_private_count(full: dict[str, Any], pages: dict[str, str]) -> None:
    text = said(pages["public"])
    document = json.dumps(published(full))
    for name, number in PRIVATE.items():
        for found in (str(number), count(number)):
            assert not re.search(rf"(?<![\d.,]){re.escape(found)}(?![\d,])", document), name
            assert not re.search(rf"(?<![\d.,]){re.escape(found)}(?![\d,])", text), name
        assert count(number) in pages["full"], f"{name} is not in the full version, so its absence shows nothing"


def test_the_public_version_lacks_the_private_sections(full: dict[str, Any], pages: dict[str, str]) -> None:
    public = published(full)
    for words in ("Learning curves. The private curve", "Masked tokens by label", "Rows rejected", "partition-a"):
        assert words in pages["full"]
        assert words not in pages["public"]
        assert words not in json.dumps(public)
    for metric in ("num_documents", "num_tokens", "duplicates", "coverage", "num_private"):
        assert metric not in public["metrics"]
    for section, key in (("training", "curves"), ("training", "sample_rate"), ("miss_rate", "by_label")):
        assert key in full[section]
        assert key not in public[section]
    assert public["warnings"] == []
    assert "Public version" in pages["public"]
    assert "for the trusted side only" in pages["full"]


def test_public_rates_are_too_coarse_to_give_the_counts_back(full: dict[str, Any]) -> None:
    public = published(full)
    assert public["metrics"]["false_negative_rate"] == 0.0507  # 37 / 731, upwards
    assert public["metrics"]["false_negative_rate_upper"] == 0.067  # 0.0669127, upwards
    assert public["miss_rate"]["miss_rate"]["recommended"] == [0.00284, 0.00607]
    assert public["miss_rate"]["miss_rate"]["student_t"] == [-0.0002, 0.0088]
    for before, after in zip(full["claims"], public["claims"], strict=True):
        if before["status"] != "refused":
            assert before["epsilon"] <= after["epsilon"] <= before["epsilon"] * 1.01
            assert before["delta"] <= after["delta"] <= before["delta"] * 1.01
    assert public["claims"][5]["as_in_paper"]["gamma"] == 0.0507
    numbers = re.findall(r"0\.\d{9,}", json.dumps({k: public[k] for k in ("miss_rate", "metrics", "claims")}))
    assert set(numbers) <= {"0.8999999999999999"}  # a confidence, which is a setting


def test_public_claims_quote_no_private_count_and_no_import_path(raw: dict[str, Any], make_report: Make) -> None:
    full = make_report(raw)
    assert any("5302" in text for claim in full["claims"] for text in claim["assumptions"])
    assert any("mypkg.acme" in text for claim in full["claims"] for text in claim["assumptions"])
    full["redaction"]["policies"].append("mypkg.acme:Propagate")
    full["redaction"]["conservative"] = "mypkg.acme:Careful"
    raw["claims"]["claims"][0]["assumptions"].append("these policies are plug-ins: mypkg.acme:Careful")
    public = published(full, raw)
    assert "5302" not in json.dumps(public)
    assert "acme" not in json.dumps(public)
    assert any("warned about this run" in text for text in public["claims"][0]["assumptions"])
    assert any("tie rows together: plug-in" in text for text in public["claims"][1]["assumptions"])


def test_the_public_version_has_no_lineage(full: dict[str, Any], pages: dict[str, str]) -> None:
    """Guards keys that stay the same, or change, from one public report to the next, and so tell of private text."""
    assert full["lineage"]
    assert "Lineage" in pages["full"]
    assert published(full)["lineage"] == []
    assert 'id="lineage"' not in pages["public"]
    assert "a1b2c3d4e5f6" not in pages["public"]


RATES = ("miss_rate", "false_negative_rate", "delta2", "recall", "precision", "num_missed")


def test_by_default_nothing_that_was_counted_on_private_text_is_public(raw: dict[str, Any], make_report: Make) -> None:
    """Guards digits of the public report that tell two worlds apart: both give the same bytes."""
    other = json.loads(json.dumps(raw))
    other["estimate"] |= {"recall": 0.5, "precision": 0.4, "labelled_share": 0.5, "covers_corpus": False}
    for rate in ("false_negative_rate", "delta2"):
        other["estimate"][rate] |= {"value": 0.31, "upper": 0.37}
    other["estimate"]["miss_rate"]["value"] = 0.123
    for part in other["split"] + other["redact"] + other["shard"]:
        for name, value in part.items():
            if isinstance(value, int) and not isinstance(value, bool):
                part[name] = value + 1
    other["claims"]["claims"][0] |= {"epsilon": 9.0, "refused": None}
    told = raw["claims"]  # what the guarantee stage wrote for the public, without any measured rate
    shown = [public_version(make_report(files), told, publishes_counts=False) for files in (raw, other)]
    assert shown[0] == shown[1]
    assert render_html(shown[0]) == render_html(shown[1])
    assert shown[0]["miss_rate"] == {}
    assert not {name for name in shown[0]["metrics"] if any(rate in name for rate in RATES)}
    assert "num_public" not in shown[0]["metrics"]
    page = said(render_html(shown[0]))
    assert "That was counted on private text, and is not told here" in page
    assert "No record is published" in page
    assert "γ of the worst label" not in page


def _digits(value: float) -> int:
    return len(f"{value:.15g}".replace(".", "").lstrip("0").partition("e")[0].rstrip("0"))


def test_public_noise_and_accountants_are_too_coarse_to_give_the_private_count_back(full: dict[str, Any]) -> None:
    full["training"]["noise_multiplier"] = full["metrics"]["noise_multiplier"] = 0.8437615
    public = published(full)
    assert public["training"]["noise_multiplier"] == public["metrics"]["noise_multiplier"] == 0.843  # down
    pairs = list(zip(full["accountants"], public["accountants"], strict=True))
    pairs += [(b, a) for b, a in zip(full["claims"], public["claims"], strict=True) if b["epsilon"] is not None]
    assert len(pairs) > 8
    for before, after in pairs:
        if before["epsilon"] is not None:
            assert before["epsilon"] <= after["epsilon"] <= before["epsilon"] * 1.01
            assert _digits(after["epsilon"]) <= 3
    for key in ("epsilon", "delta", "epsilon_dp"):
        assert _digits(public["metrics"][key]) <= 3
    assert any("still bound that number roughly" in text for text in public["withheld"])
    assert "num_labels" not in public["miss_rate"]["worst_label"]


def test_the_public_page_says_what_the_public_table_tells(pages: dict[str, str]) -> None:
    text = said(pages["public"])
    for needed in ("A row has an identifier of its own", "neither document nor place in it is told"):
        assert needed in text
    assert "speaker, domain and label, as they were given" in text


def test_masked_shares_by_policy_and_domain_are_for_the_private_page_only(pages: dict[str, str]) -> None:
    text = said(pages["full"], " ")
    assert "low_entity only watched: masks nothing 4,700 5.02 %" in text  # of 93,595 judged tokens
    assert "travel 2,000 12.4 %" in text
    assert "retail 9,621 12.4 %" in text
    assert "Masked tokens by domain" not in pages["public"]
    assert "travel" not in pages["public"]


def test_the_epsilon_of_a_person_with_a_bound_that_a_setting_fixed_is_public(
    raw: dict[str, Any], make_report: Make
) -> None:
    figures = [
        {"num_records": 1, "whose": ["one"], "epsilon": 1.0},
        {"num_records": 4, "whose": ["most"], "epsilon": 6.5432},
    ]
    part = {"basis": "dp_private_set", "is_guarantee": True, "not_guaranteed_because": [], "refused": None}
    person = {
        **part, "is_known": True, "owner_from": "field", "num_people": None, "has_public_rows": False,
        "unit": "sentence", "delta": 1e-5, "assumptions": [], "figures": figures,
        "together": {**part, "num_releases": 2, "figures": figures},
    }  # fmt: skip
    for bound, basis, is_shown in ((4, "fixed_beforehand", True), (4, "measured", False), (5, "public_text", False)):
        guarantee = {"owner_bound": bound, "owner_bound_basis": basis}
        full = make_report(raw, settings={"guarantee": guarantee})
        shown = public_version(full, {**raw["claims"], "person": person})
        assert ("6.55 with 4 records (the bound)" in model_card_sections(shown)) is is_shown
        assert ("6.55 with 4 records (the bound)" in said(render_html(shown))) is is_shown
        assert len(shown["person"]["together"]["figures"]) == 1 + is_shown


def test_a_training_on_people_beside_others_does_not_deny_its_own_claim() -> None:
    person = {"unit": "person", "is_known": False, "refused": "a reason", "together": None}
    first, _ = person_sentences(person)
    assert first.startswith("This training sampled people, so its own ε holds for a person with any number of records.")
    assert person_sentences({**person, "unit": "sentence"})[0].startswith("The ε of one record does not cover")
