"""What cards of releases say: every claim as the public report has it, and what nobody measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from public_reports import published

import reticent
from pipelines.filled_in import without_marks
from pipelines.printable import markdown_code
from pipelines.report.cards import EXAMPLE, _plain, data_card, model_card_sections, synthetic_section
from pipelines.training.model_card import _listed

CARDS = (model_card_sections, data_card)
AUDIT = {
    "epsilon_lower": {"value": 0.123456, "confidence": 0.95},
    "membership": {"best": {"auc": 0.612345}},
    "exposure": {"groups": [{"maximum": 3.21987}, {"maximum": 7.65432}]},
}


@pytest.mark.parametrize("card", CARDS)
def test_every_claim_is_stated_with_its_notion_numbers_relation_unit_and_assumptions(
    full: dict[str, Any], card: Callable[..., str]
) -> None:
    report = published(full)
    text = card(report)
    assert {claim["status"] for claim in report["claims"]} >= {"issued", "refused"}
    for claim in report["claims"]:
        assert f"### {claim['title']}" in text
        if claim["status"] == "refused":
            assert claim["reason"] in text
            continue
        for said in (f"`{claim['notion']}`", f"`{claim['relation']}`", f"one {claim['unit']}", claim["theorem"]):
            assert said in text
        for assumption in claim["assumptions"]:
            assert assumption.replace("<", "&lt;") in text or assumption in text
    issued = next(claim for claim in report["claims"] if claim["status"] == "issued")
    assert f"ε = {issued['epsilon']:g}" in text


@pytest.mark.parametrize("card", CARDS)
def test_rates_and_attacks_are_told_only_where_the_settings_publish_them(
    raw: dict[str, Any], make_report: Callable[..., dict[str, Any]], card: Callable[..., str]
) -> None:
    full = make_report(raw, audit=AUDIT)
    without, within = (card(published(full, publishes_counts=counts)) for counts in (False, True))
    rate = full["miss_rate"]["false_negative_rate"]["upper"]
    assert "share of secrets that redaction missed" not in without
    assert "0.612" not in without
    assert "How much redaction missed (m, γ, δ₂). If it was measured" in without
    assert "what they found stays where the private text is" in without
    assert "share of secrets that redaction missed" in within
    assert f"at most {rate:.3g}"[:10] in within
    assert "Every guarantee above is about the model alone" in within
    for figure in ("| 0.123 |", "| 0.612 |", "| 7.65 |"):
        assert figure in within
    assert "nobody attacked this model" in card(published(make_report(raw)))


def test_audits_are_in_the_public_report_only_where_counts_are(
    raw: dict[str, Any], make_report: Callable[..., dict[str, Any]]
) -> None:
    full = make_report(raw, audit=AUDIT)
    assert "audit" not in published(full, publishes_counts=False)
    assert published(full)["audit"] == {"epsilon_lower": 0.123, "membership_auc": 0.612, "exposure": 7.65}


def test_a_synthetic_table_without_a_claim_says_so() -> None:
    told = {"num_rows": 1200, "num_filtered": 3, "is_guarantee": False, "not_guaranteed_because": ["no noise"]}
    text = synthetic_section(told)
    assert "1,200 rows that the model wrote; 3 more were dropped" in text
    assert "No guarantee: no noise." in text
    assert "It supposes" not in text


def test_text_of_claims_is_no_markup(full: dict[str, Any]) -> None:
    report = published(full)
    report["claims"][0] |= {"assumptions": ["a <MASK> stands | there"], "covers": "a | b", "status": "issued"}
    text = model_card_sections(report)
    assert "<MASK>" not in re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)  # in code no tag is read
    assert "a \\| b" in text


ODD = ("a`b", "`", "``", "a` <img src=x> `b", "a\n# heading", "\u202egnp.exe", "a\u2028b\x1b[2J")


@pytest.mark.parametrize("name", ODD)
def test_names_of_speakers_and_domains_stay_code(name: str) -> None:
    shown = markdown_code(f"<{name}>")
    run = len(shown) - len(shown.lstrip("`"))
    assert shown.endswith("`" * run)
    assert "`" * run not in shown[run:-run]
    assert "\n" not in shown
    assert shown.isprintable()
    assert shown in without_marks(_listed({name: 0}, None, lambda _: shown))


def test_ordinary_names_are_written_as_ever() -> None:
    names = _listed({"USR": 0, "SYS": 1}, 2, ("`<USR>`", "`<SYS>`", "`<other>`").__getitem__)
    assert names == "`<USR>`, `<SYS>`. Any other: `<other>`."


def test_a_backtick_without_a_partner_lets_no_tag_through() -> None:
    assert _plain("say `<MASK>` and <b>") == "say `<MASK>` and &lt;b>"
    assert _plain("a ` and <script>") == "a \\` and &lt;script>"


@pytest.mark.parametrize("card", CARDS)
def test_a_card_reorders_and_hides_nothing(full: dict[str, Any], card: Callable[..., str]) -> None:
    report = published(full)
    report["claims"][0] |= {"assumptions": ["\u202eevil\u200b"], "title": "\u202ea title", "status": "issued"}
    text = card(report)
    assert "\\u202eevil\\u200b" in text
    assert not set("\u202e\u200b") & set(text)


def test_the_card_of_a_model_says_what_it_is_for_and_how_to_load_it(raw: dict[str, Any], make_report: Any) -> None:
    raw["train"] |= {"task": "dialogue", "method": "crt"}
    found = model_card_sections(published(make_report(raw)))
    assert found.startswith("## Intended use\n\nThis model writes the next turns of dialogues")
    assert found.count("```python") == 2
    assert EXAMPLE[1] in found
    assert "The same without Reticent" in found
    raw["train"] |= {"method": "sdpsgd_lstm"}
    assert "The same without Reticent" not in model_card_sections(published(make_report(raw)))
    raw["train"] |= {"task": "classification", "method": "no_dp"}
    found = model_card_sections(published(make_report(raw)))
    assert "This model classifies text" in found
    assert "```" not in found


def test_the_example_of_the_card_is_what_the_policies_make_of_it() -> None:
    before, after = EXAMPLE
    (made,) = reticent.redact([before], policies=["addresses", "identifiers"])
    assert made.text == after
