"""The page for the person who signs: plain words, no more than the report says, and one printed page."""

from __future__ import annotations

import base64
import copy
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from public_reports import Page, said
from support import chrome

from pipelines.accounting.claims import HEADLINES
from pipelines.report.assumptions import Numbered
from pipelines.report.cards import model_card_sections
from pipelines.report.claims import headline_claim
from pipelines.report.render import render_html
from pipelines.report.sentences import found_by_attacks, given_away, meaning_of, missed
from pipelines.report.sign_off import (
    TO_CONFIRM,
    Signing,
    composed_words,
    not_claimed,
    sign_off_page,
    to_confirm,
    unmeasured,
)

SIGNING = Signing(
    run_id="20261123T090000.000Z-abc123",
    started="2026-11-23T09:00:00Z",
    config="reticent.toml",
    composed={"num_releases": 2, "epsilon": 4.2345678, "delta": 1e-5},
    last=None,
    changes=None,
)
LAST = {"run_id": "20261101T090000.000Z-fff000", "name": "Ada <Example>", "at": "2026-11-02T10:00:00Z"}


def front_of(page: str) -> str:
    return said(page[page.index('<section class="sign-off"') : page.index('<a class="skip"')])


def test_it_stands_in_front_of_the_whole_report(full: dict[str, Any]) -> None:
    page = sign_off_page(full, SIGNING)
    assert Page(page).text
    assert page == sign_off_page(full, SIGNING)
    start, end = page.index('<section class="sign-off"'), page.index('<a class="skip"')
    rest = page[:start] + page[end:]
    assert said(rest).endswith(said(render_html(full))[-2000:])
    assert page.index("<body>") < start < page.index("Full version, for the trusted side only")
    assert "<script" not in page
    assert ".sign-off { break-after: page" in page


def test_it_says_what_a_signer_asks(full: dict[str, Any]) -> None:
    text = front_of(sign_off_page(full, SIGNING))
    for part in (
        *(
            "What is claimed, and for whom",
            "What of the text is open",
            "How much was missed",
            "What attacks found",
            "What nobody measured",
        ),
        *("What changed since the last signed run", "To verify, rerun and compare", "Name", "Date", "Signature"),
        *(SIGNING.run_id, "2026-11-23T09:00:00Z", "No run of this store was signed before."),
        *("2 models were released on these files", "ε = 4.24", "reticent verify reticent.toml"),
        "Nobody attacked this model.",
        *TO_CONFIRM,
    ):
        assert part in text, part
    assert all(warning in text for warning in full["warnings"])


def test_every_assumption_that_only_people_know_has_a_box(full: dict[str, Any]) -> None:
    numbered = Numbered(full)
    for_people = numbered.texts[: numbered.num_for_people]
    assert len(for_people) > len(TO_CONFIRM)
    *single, others = to_confirm(full)
    assert single == [*TO_CONFIRM]
    confirmed = ("validation and test folds are public", "hyper-parameters were not chosen", "no other release of this")
    left = {number for number, text in enumerate(for_people, start=1) if not text.startswith(confirmed)}
    assert "The other assumptions that only people can know hold" in others
    named = {int(number) for number in re.findall(r'href="#a(\d+)"', others)}  # the ends of ranges
    assert {min(left), max(left)} <= named <= left


def test_changes_since_the_last_signed_run(full: dict[str, Any]) -> None:
    def shown(changes: list[str] | None) -> str:
        return front_of(sign_off_page(full, replace(SIGNING, last=LAST, changes=changes)))

    text = shown([f"setting train.x{n}: 1 → 2" for n in range(20)])
    assert "by Ada <Example>" in text
    assert "setting train.x5" in text
    assert "setting train.x6" not in text
    assert "and 14 more" in text
    assert f"reticent diff {LAST['run_id']} {SIGNING.run_id}" in text
    assert "Nothing that is compared differs" in shown([])
    assert "nothing can be compared" in shown(None)


def test_the_factor_is_e_to_the_epsilon_rounded_up(full: dict[str, Any]) -> None:
    claims = copy.deepcopy(full["claims"])
    claim: Any = headline_claim(claims)
    assert claim["status"] == "issued"
    claim |= {"epsilon": 1.0, "delta": 1e-5, "together": None}
    factor = re.search(r"by a factor of at most ([\d.]+)", meaning_of(claims))
    assert factor is not None
    assert math.e <= float(factor[1]) < 2.73  # 2.7183 rounded up to three digits
    claim["epsilon"] = 0.0
    assert "no help" in meaning_of(claims)
    claim["epsilon"] = 30.0
    assert "hardly a protection" in meaning_of(claims)
    whole = {"num_releases": 2, "epsilon": 2.0, "delta": 1e-5, "unit": "dialogue", "is_guarantee": True}
    claim |= {"epsilon": 1.0, "together": {**whole, "refused": None, "not_guaranteed_because": []}}
    assert "7.39" in meaning_of(claims)
    assert "one dialogue" in meaning_of(claims)
    assert "is not protected" not in meaning_of(claims)
    for other in claims:
        other |= {"status": "refused"}
    assert "nothing protects" in meaning_of(claims)


@pytest.mark.parametrize("epsilon", [0.0, 2.0])
@pytest.mark.parametrize("notion", HEADLINES)
def test_the_plain_words_are_about_no_more_than_the_claim(full: dict[str, Any], notion: str, epsilon: float) -> None:
    claims = copy.deepcopy(full["claims"])
    claim: Any = headline_claim(claims)
    claim |= {"notion": notion, "epsilon": epsilon, "delta": 1e-5, "together": None}
    text = meaning_of(claims)
    is_dp = notion == "dp_private_set"
    assert ("guesses about one sentence of the private side" in text) is is_dp
    assert re.search(r"guesses about (a secret|what the policies mask)", text) is None if is_dp else True
    assert ("whoever wrote or is named in one sentence" in text) is (is_dp and epsilon > 0)
    limit = "Who is named in a row of the public side is not protected."
    limits = dict.fromkeys(("dp_private_set", "confidentiality_of_caught_secrets"), limit)
    limits["owner_dp"] = "What others wrote about the person is not protected."
    assert text.endswith(limits.get(notion, "Of all else that stands in the text it says nothing."))
    assert ("what many of them say together about a person" in text) is (notion != "owner_dp" and epsilon > 0)


PEOPLE = {"num_releases": 3, "epsilon": 4.4444, "delta": 1e-5}


@pytest.mark.parametrize(
    ("composed", "words"),
    [
        (None, "No model"),
        ({"num_releases": 0, "epsilon": None, "delta": None}, "No model"),
        ({"num_releases": 1, "epsilon": None, "delta": 1e-5}, "no bound"),
        ({"num_releases": 1, "epsilon": 1.23449, "delta": 1e-5}, "ε = 1.24"),
        (
            {"num_releases": 1, "epsilon": 1.2, "delta": 0.1, "not_guaranteed_because": "0.1 is large"},
            "promises nothing",
        ),
        ({"num_releases": 1, "epsilon": 1.2, "delta": 1e-5, "has_copy": True}, "A copy of this store may"),
        ({"num_releases": 1, "epsilon": None, "delta": 1e-5, "has_copy": True}, "A copy of this store may"),
        ({"num_releases": 1, "epsilon": 1.2, "delta": 1e-5, "people": [PEOPLE]}, "from whatever files; for one person"),
        ({"num_releases": 1, "epsilon": 1.2, "delta": 1e-5, "people": [PEOPLE]}, "3 models were released that may"),
        ({"num_releases": 1, "epsilon": 1.2, "delta": 1e-5, "people": [PEOPLE]}, "that costs ε = 4.45"),
        (
            {
                "num_releases": 1,
                "epsilon": None,
                "delta": 1e-5,
                "people": [{**PEOPLE, "epsilon": None, "unbounded": ["r1"]}],
            },
            "for one person there is no bound, because nothing limits",
        ),
    ],
)
def test_composed_epsilon_is_rounded_up_and_says_what_it_lacks(composed: dict[str, Any] | None, words: str) -> None:
    assert words in composed_words(composed)


def test_misses_and_attacks_are_told_with_what_they_rest_on(full: dict[str, Any]) -> None:
    rates = full["miss_rate"] | {"num_secret_spans": 1200, "num_missed_spans": 3, "source": "human"}
    rates["false_negative_rate"] = {"value": 0.0025, "upper": 0.00731, "confidence": 0.95}
    text = missed({**rates, "num_unmasked_spans": 1})
    assert "left open: 1 of 1,200. Masked, but in a way that changes other masks: 2 of 1,200. Both count" in text
    assert "3 of 1,200 known secrets were missed" in missed({**rates, "num_unmasked_spans": None})
    for part in ("0.25", "at most 0.731", "95", "people who read the sample"):
        assert part in text
    assert "Nobody measured it: no labels" in missed({"source": "not_measured", "reason": "no labels"})
    audit = {
        "alarm": True,
        "epsilon_lower": {"value": 0.5678, "confidence": 0.95},
        "epsilon_claimed": 1.5,
        "membership": {"any_leak": False, "best": {"auc": 0.5123}},
        "exposure": {"groups": [{"name": name, "conclusion": "no memory seen"} for name in ("detected", "missed")]},
        "extraction": {"num_found_only_by_model": 4},
    }
    first, *others = found_by_attacks(audit)
    assert first.startswith("ALARM")
    assert "at least 0.5678 at 95" in others[0]
    assert "no leak seen" in others[1]
    assert others[2] == "Canaries (detected; missed): no memory seen."
    without = "that the reference model, which was trained without their rows, did not write."
    assert others[3] == f"This model wrote 4 secrets {without}"
    assert others[-1] == "A failed attack is not a proof of safety."


def test_what_was_refused_or_not_attacked_counts_as_unmeasured(full: dict[str, Any]) -> None:
    texts = unmeasured({**full, "audit": {"not_attacked": {"domains": "there is one domain"}}})
    assert "Not attacked, domains: there is one domain." in texts
    refused = [claim["title"] for claim in full["claims"] if claim["status"] == "refused"]
    assert refused
    assert set(not_claimed(full["claims"])) == set(refused)
    assert f"Not claimed: {'; '.join(not_claimed(full['claims']))}" in front_of(sign_off_page(full, SIGNING))


def test_rows_that_nothing_protects_are_named(full: dict[str, Any]) -> None:
    shards = {"num_public": 1379, "num_private": 9_169}
    crt = {**full, "shards": shards, "training": {"method": "crt"}, "corpus": {"num_sentences": 11_644}}
    assert "1,379 of 10,548 rows of the training text are published as they were written" in given_away(
        {**crt, "publishes_rows": True}
    )
    assert "trained without noise on 1,379 of 10,548 rows" in given_away({**crt, "publishes_rows": False})
    repeats = {**crt, "shards": {**shards, "num_duplicates": 5_300}, "publishes_rows": True}
    assert given_away(repeats).startswith("1,379 of 5,248 different rows of the training text are published")
    none = {**crt, "publishes_rows": False, "training": {"method": "dpsgd"}}
    assert given_away(none) == "No row of the text is published."


@pytest.mark.parametrize(
    ("method", "settings", "is_open"),
    [
        ("jft", {"jft_variant": "direct"}, True),
        ("jft", {"jft_variant": "light_noise"}, False),
        ("jft", {}, True),  # not known: the variant that gives away more
        ("redaction_schedule", {}, True),
        ("sdpsgd_lstm", {}, True),
        ("redacted", {}, False),  # its model stays in the private root
        ("crt", {}, False),
    ],
)
def test_text_of_private_rows_that_was_read_without_noise_is_named(
    full: dict[str, Any], method: str, settings: dict[str, str], is_open: bool
) -> None:
    for publishes_rows in (True, False):
        given = given_away(
            {
                **full,
                "publishes_rows": publishes_rows,
                "training": {"method": method},
                "settings": {"train": settings},
            }
        )
        assert ("without noise on text of private rows, too" in given) is is_open


@pytest.mark.slow
@pytest.mark.skipif(chrome.binary() is None, reason="Chromium is not installed")
def test_it_prints_on_one_page_and_fits_a_phone(full: dict[str, Any], tmp_path: Path) -> None:
    changes = [f"Confidentiality of a secret: ε 1.{n}99, δ 10⁻⁵ → ε 2.149, δ 10⁻⁵" for n in range(20)]
    whole = sign_off_page(full, replace(SIGNING, last=LAST, changes=changes))
    (tmp_path / "whole.html").write_text(whole, "utf-8")
    (tmp_path / "front.html").write_text(whole[: whole.index('<a class="skip"')], "utf-8")
    tab = chrome.Chrome(tmp_path / "profile")
    try:
        tab.open((tmp_path / "front.html").as_uri())
        printed = tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
        assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) == 1
        tab.resize(390, 844, mobile=True)
        tab.open((tmp_path / "whole.html").as_uri())
        assert tab.js("document.documentElement.scrollWidth <= innerWidth")
        assert tab.console == []
        assert all(url.startswith("file:") for url in tab.requests)
    finally:
        tab.close()


def test_the_page_says_who_is_protected_if_the_claim_is_about_a_person(full: dict[str, Any]) -> None:
    of_people = copy.deepcopy(full)
    claim: Any = headline_claim(of_people["claims"])
    claim |= {"notion": "owner_dp", "unit": "person", "together": None}
    claim |= {"statement": "everything that one person wrote was replaced", "corpus": "raw"}
    of_people["settings"]["corpus"] = {"owner_from": "field", "source": {"num_values": 0}}
    of_people["person"] = None
    text = front_of(sign_off_page(of_people, SIGNING))
    assert text.index("What is claimed") < text.index("Who is protected") < text.index("What of the text is open")
    assert "A person is whoever the documents name in the field of corpus.owner_field." in text
    assert "people whose text was held out" in text
    assert "A guarantee is about one record" not in said(render_html(of_people))
    assert "**Who is protected.** Every person" in model_card_sections(of_people)
    assert "rows of the public side" not in text
    claim["statement"] = "everything that one person wrote in private rows was replaced"
    text = front_of(sign_off_page(of_people, SIGNING))
    assert "It holds for everything that one person wrote in private rows." in text
    assert "What a person wrote in rows of the public side is not protected either." in text
    claim["corpus"] = "private_set"
    text = front_of(sign_off_page(of_people, SIGNING))
    left = "what deduplication and redaction left of everything that one person wrote"
    assert f"It holds for {left} in private rows." in text
    assert "guesses about what deduplication and redaction left of what one person wrote in private rows" in text
    assert "Nor is what deduplication and redaction reveal of a person" in text
    of_people["settings"]["corpus"]["source"]["num_values"] = 1
    assert "unless a table [[corpus.source]] says otherwise" in front_of(sign_off_page(of_people, SIGNING))
    of_people["settings"]["corpus"]["owner_missing"] = "own"
    text = front_of(sign_off_page(of_people, SIGNING))
    assert "however much they wrote, except whoever wrote several documents without an id" in text
    assert "A document without an id counts as a person of its own (corpus.owner_missing = own)." in text
    for changes in ({"notion": "dp_private_set"}, {"status": "estimate", "reason": "of a test"}):
        other = copy.deepcopy(of_people)
        headline: Any = headline_claim(other["claims"])
        headline |= changes
        assert "Who is protected" not in front_of(sign_off_page(other, SIGNING))


def test_the_plain_words_restrict_the_figures_that_are_shown(full: dict[str, Any]) -> None:
    claims = copy.deepcopy(full["claims"])
    claim: Any = headline_claim(claims)
    whole = {"num_releases": 2, "epsilon": 2.0, "delta": 1e-5, "unit": "person", "is_guarantee": True, "refused": None,
             "not_guaranteed_because": [], "assumptions": [], "corpus": "private_set",
             "statement": "what was left of everything that one person wrote in private rows"}  # fmt: skip
    own = {"notion": "owner_dp", "unit": "person", "corpus": "raw", "statement": "everything that one person wrote"}
    claim |= {**own, "epsilon": 1.0, "together": whole}
    left = "what deduplication and redaction left of everything that one person wrote in private rows"
    assert f"It holds for {left}." in meaning_of(claims)
    whole |= {"refused": "noise is missing", "epsilon": None}  # then the figures of this model are shown
    assert "It holds for everything that one person wrote. " in meaning_of(claims)
