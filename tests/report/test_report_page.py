"""The pages: well-formed, self-contained, escaped, readable without script, and the public one without counts."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from public_reports import published

from pipelines.report.figures import Sources, build
from pipelines.report.numbers import count
from pipelines.report.public import public_version
from pipelines.report.render import render_html

Make = Callable[..., dict[str, Any]]
_VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class _Page(HTMLParser):
    """Collects what the tests ask about, and fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute is given twice in <{tag}>"
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag == name]


@pytest.fixture
def pages(full: dict[str, Any]) -> dict[str, str]:
    return {"full": render_html(full), "public": render_html(published(full))}


@pytest.mark.parametrize("version", ["full", "public"])
def test_structure_and_accessibility(pages: dict[str, str], version: str) -> None:
    page = _Page(pages[version])
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
    page = _Page(html)
    found = [tag for tag, _ in page.tags if tag in {"script", "link", "iframe", "img", "object", "embed", "base"}]
    for tag, attrs in page.tags:
        found += [f"{tag}.{n}" for n in attrs if n.startswith("on") or n in {"src", "srcset", "action", "data"}]
        found += [f"{tag}.href" for n, v in attrs.items() if n.endswith("href") and not (v or "").startswith("#")]
    return found + re.findall(r"https?:|//[a-z]|@import|url\(|javascript:", html)


@pytest.mark.parametrize("version", ["full", "public"])
def test_nothing_is_loaded_and_nothing_runs(pages: dict[str, str], version: str) -> None:
    assert _loads(pages[version]) == []


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
        assert "alert(" in "".join(_Page(html).text)


def test_the_three_kinds_of_claims_look_and_read_differently(raw: dict[str, Any], make_report: Make) -> None:
    raw["claims"]["claims"][2] |= {"is_guarantee": False, "not_guaranteed_because": ["the seed is known"]}
    page = _Page(render_html(make_report(raw)))
    kinds = [(attrs["class"] or "").split()[1] for attrs in page.all("article")]
    assert kinds == ["issued", "refused", "estimate", "refused", "refused", "issued"]
    text = " ".join("".join(page.text).split())
    assert "Estimate, not a guarantee" in text
    assert "Why it is no guarantee: the seed is known." in text
    assert text.count("Why it is refused: delta2") == 3


def test_claims_show_what_they_rest_on(pages: dict[str, str], raw: dict[str, Any]) -> None:
    text = "".join(_Page(pages["full"]).text)
    for claim in raw["claims"]["claims"]:
        for part in (claim["theorem"], claim["statement"], *claim["assumptions"]):
            assert part in text
    assert "ε = 1.883, δ = 0.00417" in text  # rounded up


def test_what_is_not_measured_is_said_and_never_zero() -> None:
    text = " ".join(" ".join(_Page(render_html(build(Sources(), title="t"))).text).split())
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


PRIVATE = {
    "num_documents": 1000,
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
    text = "".join(_Page(pages["public"]).text)
    document = json.dumps(published(full))
    # Defaults of settings and the exact 1,000s of a vocabulary are no counts of the corpus.
    for name, number in PRIVATE.items():
        if number == 1000:
            continue
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
    assert public["metrics"]["false_negative_rate"] == 0.0506  # 37 / 731
    assert public["metrics"]["false_negative_rate_upper"] == 0.067  # 0.0669127, upwards
    assert public["miss_rate"]["miss_rate"]["recommended"] == [0.00284, 0.00607]
    assert public["miss_rate"]["miss_rate"]["student_t"] == [-0.0002, 0.0088]
    for before, after in zip(full["claims"], public["claims"], strict=True):
        if before["status"] != "refused":
            assert before["epsilon"] <= after["epsilon"] <= before["epsilon"] * 1.01
            assert before["delta"] <= after["delta"] <= before["delta"] * 1.01
    assert public["claims"][5]["as_in_paper"]["gamma"] == 0.0506
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
    shown = [
        public_version(make_report(files), told, publishes_rows=False, publishes_counts=False) for files in (raw, other)
    ]
    assert shown[0] == shown[1]
    assert render_html(shown[0]) == render_html(shown[1])
    assert shown[0]["miss_rate"] == {}
    assert not {name for name in shown[0]["metrics"] if any(rate in name for rate in RATES)}
    assert "num_public" not in shown[0]["metrics"]
    page = " ".join("".join(_Page(render_html(shown[0])).text).split())
    assert "That was counted on private text, and is not told here" in page
    assert "No record is published" in page
    assert "γ of the worst label" not in page


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
        text = " ".join("".join(_Page(render_html(report)).text).split())
        first = text.index("What can be claimed.")
        sentence = text[first : first + 200]
        assert re.search(r"ε = 6\.(293|3), δ = 10⁻⁵ for 4 releases together; this model alone: ε = ", sentence)
        assert "4 releases together" in text[text.index("Figures") :]
    headline["together"] = {**whole, "epsilon": None, "delta": None, "is_guarantee": False, "refused": "another one"}
    full = make_report(raw)
    assert full["metrics"]["epsilon"] is None
    text = " ".join("".join(_Page(render_html(full)).text).split())
    assert "Nothing about the 4 releases on these files together: another one. For this model alone" in text
    assert "Why it does not hold for all releases together: another one" in text


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
    text = " ".join("".join(_Page(pages["public"]).text).split())
    for needed in ("A row has an identifier of its own", "neither document nor place in it is told"):
        assert needed in text
    assert "speaker, domain and label, as they were given" in text


def test_rates_of_a_labelled_part_are_said_to_be_that(raw: dict[str, Any], make_report: Make) -> None:
    part = "of the training sentences stand in documents that carry labels"
    assert part not in render_html(make_report(raw))
    raw["estimate"] |= {"source": "human", "covers_corpus": False, "labelled_share": 0.251}
    text = " ".join("".join(_Page(render_html(make_report(raw))).text).split())
    assert "of the sampled sentences were reviewed." in text
    assert part not in text
    raw["estimate"] |= {"source": "gold"}
    report = make_report(raw)
    for found in (report, published(report, raw)):
        text = " ".join("".join(_Page(render_html(found)).text).split())
        assert "Only 25.1\u00a0% of the training sentences" in text.replace("&nbsp;", "\u00a0") or "Only 25.1 %" in text


def test_the_worst_label_stands_beside_the_average(pages: dict[str, str]) -> None:
    for page in pages.values():
        text = " ".join("".join(_Page(page).text).split())
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
    text = " ".join("".join(_Page(render_html(make_report(raw))).text).split())
    assert "A group of secrets with the average share of misses" in text
    assert f"Why it is no guarantee: {why}" in text


def test_the_raw_corpus_is_the_one_after_splitting(pages: dict[str, str]) -> None:
    text = " ".join("".join(_Page(pages["full"]).text).split())
    assert "in the corpus after splitting into sentences, before deduplication" in text
    assert "as it was given, before deduplication" not in text


def test_masked_shares_by_policy_and_domain_are_for_the_private_page_only(pages: dict[str, str]) -> None:
    text = " ".join(" ".join(_Page(pages["full"]).text).split())
    assert "low_entity only watched: masks nothing 4,700 5.02 %" in text  # of 93,595 judged tokens
    assert "travel 2,000 12.4 %" in text
    assert "retail 9,621 12.4 %" in text
    assert "Masked tokens by domain" not in pages["public"]
    assert "travel" not in pages["public"]


def test_scores_of_tasks_are_shown_in_both_versions(make_report: Make, raw: dict[str, Any]) -> None:
    plain = _Page(render_html(make_report(raw)))
    assert not any("classification" in text or "BLEU" in text for text in plain.text)
    classes = {"accuracy": 0.875, "accuracy_at_initialisation": 0.5, "accuracy_standard_error": 0.01}
    classes["accuracy_by_class"] = {"positive": 0.75, "<b>": 1.0}
    scores = {"bleu": 41.5, "rouge_l": None, "nist": 3.25, "f1": 0.5, "num_outputs": 3, "num_available": 9}
    raw["train"] |= {**classes, "scores": scores, "perplexity_reason": "a classification has none"}
    raw["train"] |= {"base_model": "smollm2", "adaptation": "lora", "num_trained_parameters": 46080}
    full = make_report(raw)
    for page in (_Page(render_html(full)), _Page(render_html(published(full, raw)))):
        text = " ".join(" ".join(page.text).split())
        for shown in (
            "87.5",
            "Accuracy among rows of the class <b> 100",
            "BLEU-4, 0 to 100 41.5",
            "3 of 9 held-out",
            "Began with smollm2",
        ):
            assert shown in text
