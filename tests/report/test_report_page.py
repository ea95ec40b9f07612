"""The pages: well-formed, self-contained, escaped, readable without script, and what they say."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, nodes
from public_reports import Page, published, said

from pipelines import accounting
from pipelines.attacks.sequential_test import FALSE_ALARM_RATE, log_bet
from pipelines.numbers import percent
from pipelines.report import render
from pipelines.report.alignment import aligned
from pipelines.report.assumptions import ONLY_PEOPLE_KNOW, Numbered
from pipelines.report.claim_facts import ClaimFacts
from pipelines.report.figures import Sources, build
from pipelines.report.render import Making, render_html
from pipelines.stages.audit import canaries
from pipelines.store.upkeep.samples import TEMPERATURE

TEMPLATES = Path(render.__file__).parent
Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("version", ["full", "public"])
def test_structure_and_accessibility(pages: dict[str, str], version: str) -> None:
    page = Page(pages[version])
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for section in page.all("section"):
        assert section["aria-labelledby"] in ids
    assert len(page.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert len(page.all("table")) == len(page.all("caption"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert all(cell["scope"] in ("row", "col") for cell in page.all("th"))
    assert page.all("html")[0]["lang"] == "en"


def _loads(html: str) -> list[str]:
    """Whatever would make a browser ask for something, or run something."""
    page = Page(html)
    found = [tag for tag, _ in page.tags if tag in {"script", "link", "iframe", "img", "object", "embed", "base"}]
    for tag, attrs in page.tags:
        found += [f"{tag}.{n}" for n in attrs if n.startswith("on") or n in {"src", "srcset", "action", "data"}]
        found += [f"{tag}.href" for n, v in attrs.items() if n.endswith("href") and not (v or "").startswith("#")]
    return found + re.findall(r"https?:|//[a-z]|@import|url\(|javascript:", html)


@pytest.mark.parametrize("version", ["full", "public"])
def test_nothing_is_loaded_and_nothing_runs(pages: dict[str, str], version: str) -> None:
    assert _loads(pages[version]) == []


def test_wide_tables_name_the_column_of_each_figure_for_phones() -> None:
    tables = [
        (block, block.call.args[1].items)
        for template in TEMPLATES.glob("*.html")
        for block in Environment().parse(template.read_text("utf-8")).find_all(nodes.CallBlock)
        if isinstance(block.call.args[-1], nodes.List) and len(block.call.args[-1].items) >= 5
    ]
    assert len(tables) > 10
    for block, heads in tables:
        assert [option.key for option in block.call.kwargs] == ["stacked"]
        for call in block.find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "cells":
                _, values, titles = call.args
                assert (len(values.items), titles.name) == (len(heads) - 1, "heads"), heads[0].value
    (table,) = re.findall(r"<table.*?</table>", (TEMPLATES / "comparison.html").read_text("utf-8"), re.DOTALL)
    assert table.startswith('<table class="stack">')
    assert re.findall(r"<td(?: data-title=\"(.*?)\")?>", table) == re.findall(r'"col">(.*?)</th>', table)[1:]


def test_the_check_for_loads_finds_loads() -> None:
    for bad in ('<p onclick="x()">a</p>', '<img src="a.png">', "<style>@import 'a'</style>", '<a href="b">c</a>'):
        assert _loads(bad)


def test_everything_that_comes_from_data_is_escaped(raw: dict[str, Any], make_report: Make) -> None:
    evil = "<script>alert('x')</script>\" onload=\"y"
    raw["redact"][0]["masked_tokens_by_label"][evil] = 5
    raw["redact"][0]["policies"] = [evil]
    raw["split"][0]["rejected_by_reason"][evil] = 1
    raw["estimate"]["by_label"][evil] = {"num_secret_spans": 1, "num_missed_spans": 0, "false_negative_rate": 0.0}
    raw["estimate"]["mu"] = evil
    raw["claims"]["claims"][0] |= {"statement": evil, "assumptions": [evil], "theorem": evil, "as_in_paper": {evil: 1}}
    raw["claims"]["claims"][1] |= {"refused": evil}
    raw["train"]["warnings"] = [evil]
    report = make_report(raw, lineage=[(evil, evil, evil)], settings={evil: {evil: evil}})
    report["title"] = evil
    for html in (render_html(report), render_html(published(report, raw))):
        assert "<script" not in html
        assert _loads(html) == []
        assert "alert(" in said(html)


def test_no_title_or_label_steers_what_shows_the_page(raw: dict[str, Any], make_report: Make) -> None:
    report = make_report(raw) | {"title": "a\u202egnp.exe\x1b[2J\u200b"}
    page = render_html(report)
    assert "a\\u202egnp.exe\\u001b[2J\\u200b" in page
    assert not set("\u202e\x1b\u200b") & set(page)


def test_the_three_kinds_of_claims_look_and_read_differently(raw: dict[str, Any], make_report: Make) -> None:
    raw["claims"]["claims"][2] |= {"is_guarantee": False, "not_guaranteed_because": ["the seed is known"]}
    html = render_html(make_report(raw))
    kinds = [(attrs["class"] or "").split()[1] for attrs in Page(html).all("article")]
    assert kinds == ["issued", "refused", "estimate", "refused", "refused", "issued"]
    text = said(html)
    assert "Estimate, not a guarantee" in text
    assert "Why it is no guarantee: the seed is known." in text
    assert text.count("Why it is refused: delta2") == 3


def test_claims_show_what_they_rest_on(pages: dict[str, str], raw: dict[str, Any]) -> None:
    text = said(pages["full"])
    for claim in raw["claims"]["claims"]:
        rests_on = () if claim["refused"] else claim["assumptions"]
        for part in (claim["theorem"], claim["statement"], *rests_on):
            assert part in text
    assert "ε = 1.89, δ = 0.00417" in text  # rounded up


def test_assumptions_are_printed_once_and_cited_by_number(full: dict[str, Any], pages: dict[str, str]) -> None:
    listed = re.findall(r'<li id="(a\d+)">(.*?)</li>', pages["full"])
    assert len({text for _, text in listed}) == len(listed) > 3
    assert [name for name, _ in listed] == [f"a{number}" for number in range(1, len(listed) + 1)]
    assert set(re.findall(r'href="#(a\d+)"', pages["full"])) <= {name for name, _ in listed}
    first, *others = [claim for claim in full["claims"] if claim["status"] != "refused"]
    numbered = Numbered({"claims": [first, *others]})
    assert {numbered.texts[n - 1] for n in cited_in(numbered.cited(first["assumptions"]))} == set(first["assumptions"])
    for claim in (first, *others):
        card = re.search(rf"<h3>{claim['title']}.*?</article>", pages["full"], re.DOTALL)
        assert card is not None
        assert "Supposes" in card[0]


def test_a_reason_that_an_assumption_states_is_cited_and_not_repeated(full: dict[str, Any]) -> None:
    reason = full["dedup"]["stability_reason"]
    assert said(render_html(full), " ").count(reason) == 1
    claim = next(claim for claim in full["claims"] if claim["status"] == "issued")
    claim["assumptions"].append(f"one sentence changes one record. {reason}")
    page = said(render_html(full), " ")
    assert page.count(reason) == 1
    assert re.search(r"Why, and what it supposes: A\d+", page)


def cited_in(links: str) -> set[int]:
    """Numbers of a list of links, with all between the ends of a range."""
    found: set[int] = set()
    for part in re.sub("<[^>]+>", "", links).split(", "):
        ends = [int(end.removeprefix("A")) for end in part.split("–")]
        found |= set(range(ends[0], ends[-1] + 1))
    return found


def test_every_assumption_that_only_people_can_know_is_stated_somewhere() -> None:
    stated = "".join(path.read_text("utf-8") for path in Path(accounting.__file__).parent.glob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", stated)  # a text over several lines
    for beginning in ONLY_PEOPLE_KNOW:
        assert beginning in code, beginning


def test_what_is_not_measured_is_said_and_never_zero() -> None:
    text = said(render_html(build(Sources(), title="t")), " ")
    assert "Not measured: nobody said what is sensitive" in text
    assert "Perplexity per token not measured" in text
    assert "Documents not measured" in text
    assert "Nothing: no claim was computed" in text


def test_a_census_is_explained(raw: dict[str, Any], make_report: Make) -> None:
    census = "(a census)"
    assert census not in render_html(make_report(raw))
    raw["estimate"]["is_census"] = True
    assert census in render_html(make_report(raw))


def test_an_epsilon_of_zero_says_whom_it_covers(raw: dict[str, Any], make_report: Make) -> None:
    note = "Secrets that nobody labelled are not covered."
    assert note not in render_html(make_report(raw))
    raw["claims"]["claims"][5] |= {"epsilon": 0.0, "delta": 0.0}
    assert note in render_html(make_report(raw))
    raw["claims"]["claims"][5] |= {"epsilon": 1.0}
    raw["claims"]["claims"][0] |= {"epsilon": 0.0, "delta": 0.0}
    assert note not in render_html(make_report(raw))


def test_a_proxy_is_labelled(raw: dict[str, Any], make_report: Make) -> None:
    raw["estimate"]["source"] = "proxy"
    assert "no guarantee rests on it" in render_html(make_report(raw))


def test_several_releases_stand_first_wherever_an_epsilon_is_shown(raw: dict[str, Any], make_report: Make) -> None:
    """Guards reports that say epsilon 3 where the ledger says four releases and 6.293."""
    whole = {
        "num_releases": 4, "epsilon": 6.293, "delta": 1e-5, "is_guarantee": True, "not_guaranteed_because": [],
        "refused": None, "unit": "sentence", "corpus": "raw",
    }  # fmt: skip
    headline = raw["claims"]["claims"][raw["claims"]["headline"]]
    headline["together"] = whole
    full = make_report(raw)
    assert full["metrics"]["epsilon"] == 6.293
    assert full["metrics"]["epsilon_this_model"] == headline["epsilon"]
    assert full["metrics"]["num_releases"] == 4
    for report in (full, published(full, raw)):
        text = said(render_html(report))
        first = text.index("What can be claimed.")
        sentence = text[first : first + 200]
        assert re.search(r"ε = 6\.(293|3), δ = 10⁻⁵ for 4 releases together; this model alone: ε = ", sentence)
        assert "4 releases together" in text[text.index("Figures") :]
    headline["together"] = {**whole, "epsilon": None, "delta": None, "is_guarantee": False, "refused": "another one"}
    full = make_report(raw)
    assert full["metrics"]["epsilon"] is None
    text = said(render_html(full))
    assert "Nothing about the 4 releases on these files together: another one. For this model alone" in text
    assert "Why it does not hold for all releases together: another one" in text
    headline["notion"] = "owner_dp"
    text = said(render_html(make_report(raw)))
    assert "Nothing about the 4 releases on these files or people together: another one." in text


def test_rates_of_a_labelled_part_are_said_to_be_that(raw: dict[str, Any], make_report: Make) -> None:
    part = "of the training sentences stand in documents that carry labels"
    assert part not in render_html(make_report(raw))
    raw["estimate"] |= {"source": "human", "covers_corpus": False, "labelled_share": 0.251}
    text = said(render_html(make_report(raw)))
    assert "of the sampled sentences were reviewed." in text
    assert part not in text
    raw["estimate"] |= {"source": "gold"}
    report = make_report(raw)
    for found in (report, published(report, raw)):
        text = said(render_html(found))
        assert "Only 25.1\u00a0% of the training sentences" in text.replace("&nbsp;", "\u00a0") or "Only 25.1 %" in text


def test_the_worst_label_stands_beside_the_average(pages: dict[str, str]) -> None:
    for page in pages.values():
        text = said(page)
        assert "γ of the worst label" in text
        assert "at most 11.7" in text


def test_a_figure_of_an_average_group_is_shown_as_an_estimate(raw: dict[str, Any], make_report: Make) -> None:
    group = raw["claims"]["claims"][3]
    why = "a particular group may have a larger share"
    raw["claims"]["claims"].append(
        group
        | {
            "notion": "group_confidentiality_at_average_rate",
            "refused": None,
            "epsilon": 1.0,
            "delta": 1e-5,
            "is_guarantee": False,
            "not_guaranteed_because": [why],
        }
    )
    text = said(render_html(make_report(raw)))
    assert "A group of secrets with the average share of misses" in text
    assert f"Why it is no guarantee: {why}" in text


def test_the_raw_corpus_is_the_one_after_splitting(pages: dict[str, str]) -> None:
    text = said(pages["full"])
    assert "in the corpus after splitting into sentences, before deduplication" in text
    assert "as it was given, before deduplication" not in text


def test_scores_of_tasks_are_shown_in_both_versions(make_report: Make, raw: dict[str, Any]) -> None:
    plain = said(render_html(make_report(raw)))
    assert "classification" not in plain
    assert "BLEU" not in plain
    classes = {"accuracy": 0.875, "accuracy_at_initialisation": 0.5, "accuracy_standard_error": 0.01}
    classes["accuracy_by_class"] = {"positive": 0.75, "<b>": 1.0}
    scores = {"bleu": 41.5, "rouge_l": None, "nist": 3.25, "f1": 0.5, "num_outputs": 3, "num_available": 9}
    raw["train"] |= {**classes, "scores": scores, "perplexity_reason": "a classification has none"}
    raw["train"] |= {"base_model": "smollm2", "adaptation": "lora", "num_trained_parameters": 46080}
    full = make_report(raw)
    for report in (full, published(full, raw)):
        text = said(render_html(report), " ")
        for shown in (
            "87.5",
            "Accuracy among rows of the class <b> 100",
            "BLEU-4, 0 to 100 41.5",
            "3 of 9 held-out",
            "Began with smollm2",
        ):
            assert shown in text


def test_the_private_page_alone_says_what_a_plug_in_says_of_itself(raw: dict[str, Any], make_report: Make) -> None:
    raw["redact"][0] |= {"policies": ["a:B", "digits"], "descriptions": {"a:B": "numbers of jones & sons"}}
    full = make_report(raw)
    assert "numbers of jones &amp; sons" in render_html(full)
    assert "every token that holds a digit" in render_html(full)
    assert "jones" not in render_html(published(full))
    assert "a policy of the user&#39;s own" in render_html(published(full))


def test_only_the_full_page_names_its_run_and_shows_rows_that_are_open(raw: dict[str, Any], make_report: Make) -> None:
    full = make_report(raw, publishes_rows=True)
    planted = "the safe opens with <4711> & a kick"
    making = Making(run_id="20260101T000000.000Z-abcdef", started="2026-01-01T00:00:00Z", examples=(planted,))
    page = render_html(full, making)
    assert escape(planted) in page
    assert making.run_id in page
    assert "To publish none" in page
    public = published(full)
    with pytest.raises(ValueError, match="only the full report"):
        render_html(public, making)
    assert "4711" not in render_html(public) + render_html(full) + json.dumps([public, full])


def test_what_most_claims_share_is_printed_once_and_no_claim_is_taken_for_another(full: dict[str, Any]) -> None:
    claim = next(claim for claim in full["claims"] if claim["status"] == "issued")
    other = {**claim, "unit": "dialogue", "confidence": 0.9, "covers": "the model alone"}
    facts = ClaimFacts([claim, claim, claim, other], None)
    assert facts.shared["Unit"] == "one sentence"
    assert facts.of(claim) == {}
    stated = facts.of(other)
    assert (stated["Unit"], stated["Confidence"], stated["About"]) == ("one dialogue", percent(0.9), "the model alone")
    lacks = {**claim, "epsilon_unamplified": None}
    assert "ε of this training" not in ClaimFacts([claim, claim, claim, lacks], None).shared
    assert ClaimFacts([claim, claim], None).shared == {}


@pytest.mark.parametrize("epsilon", [3.0, 13.9, 900.0])
def test_the_odds_that_a_claim_allows_stand_beside_its_epsilon(full: dict[str, Any], epsilon: float) -> None:
    claim = next(claim for claim in full["claims"] if claim["status"] == "issued") | {"epsilon": epsilon}
    odds = "at most 20.1" if epsilon == 3.0 else "may exceed a million"
    assert odds in ClaimFacts([], None).of(claim)["Odds of a guess"]
    assert ClaimFacts([], None).of(claim | {"status": "estimate"})["Odds of a guess"] == "no limit is promised"


def test_epsilon_so_far_never_exceeds_that_of_the_whole_training(raw: dict[str, Any]) -> None:
    """Guards a signer who reads ε 3 in the claim, and 3.016 for the same steps in the table."""
    exact = min(
        row["epsilon"]
        for row in raw["claims"]["accountants"]
        if row["is_bound"] and row["epsilon"] and row["relation"] == "replace_one"
    )
    raw["events"] |= {"relation": "replace_one", "target_delta": raw["claims"]["accountants"][0]["delta"]}
    raw["curves"] = {
        "epochs": [{"epoch": 1, "epsilon_so_far": exact / 2}, {"epoch": 2, "epsilon_so_far": exact * 1.01}]
    }
    curves = build(Sources(**raw), title="A report")["training"]["curves"]
    assert [row["epsilon_so_far"] for row in curves] == [exact / 2, exact]


def test_samples_stand_in_the_page_of_the_full_report_only(full: dict[str, Any]) -> None:
    pair, text = ("the code is <4711>", "the code is <MASK>"), "a text & more"
    making = Making(run_id="r", started=None, examples=(), redacted=(pair,), written=(text,))
    page = render_html(full, making)
    assert all(str(escape(shown)) in page for shown in (*pair, text))
    assert f"temperature {TEMPERATURE}" in page
    assert "temperature" not in render_html(full)
    assert "4711" not in json.dumps(full) + render_html(published(full))


def test_the_perplexity_of_ordinary_text_comes_first_in_the_full_page(pages: dict[str, str]) -> None:
    assert "Perplexity of ordinary held-out text" in pages["full"]
    assert re.search(r"14\.25?<.*?what no policy found; with secrets \d", pages["full"], re.S)
    assert "ordinary held-out text" not in pages["public"]
    assert "Held-out perplexity" in pages["public"]


def test_numbers_are_aligned_right_below_their_heads() -> None:
    head = "<thead><tr><th>a</th><th>b</th><th>c</th></tr></thead>"
    row = '<tr><th scope="row">1</th><td data-title="b">{}</td><td>{}</td></tr>'
    table = f"<table>{head}<tbody>{row.format('0.5 to 1 %', 'no')}{row.format('not measured', '7')}</tbody></table>"
    found = re.findall(r'<(t[hd])[^>]* class="num">([^<]*)<', aligned(table))
    assert found == [("th", "b"), ("td", "0.5 to 1 %"), ("td", "not measured")]
    assert re.sub(' class="num"', "", aligned(table)) == table
    row = "<tr><th>1</th><td>{}</td></tr>"
    bare = f"<table><tbody>{row.format('3 × 10⁻⁶')}{row.format('a word, and many more words')}</tbody></table>"
    assert re.findall(r'class="num">([^<]*)<', aligned(bare)) == ["3 × 10⁻⁶"]


def test_the_threshold_of_an_alarm_and_that_of_memory_are_those_of_the_code() -> None:
    page = (TEMPLATES / "audit.html").read_text("utf-8")
    assert page.count("3 × 10⁻⁶") == 2
    wealth = -math.log(FALSE_ALARM_RATE / 2)
    assert log_bet(4e-6) < wealth <= log_bet(3e-6)
    assert f"{canaries._LEVEL} / {len(canaries._GROUPS)} / (exposure.groups" in page
