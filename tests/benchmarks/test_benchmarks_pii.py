"""The benchmark of policies: its figures on rows counted by hand, its generated texts, and its page."""

import json
import re

import pii
import pytest
from pii_mails import LINES, ORDERS, mails

from pipelines.policies.judging.judge import Request

# "a b c d" with the secret "b c", of which "b" is masked, and "d" masked besides.
ROW = (Request("a b c dd", [0, 2, 4, 6], [1, 3, 5, 8]), [(2, 5, "NAME")], "0")


def test_figures_of_one_row_counted_by_hand():
    found = pii.scores([ROW], [[0, 1, 0, 1]])
    assert found["character_recall"] == 1 / 2
    assert found["character_precision"] == 1 / 3
    assert found["character_f2"] == pytest.approx(5 * (1 / 3) * (1 / 2) / (4 / 3 + 1 / 2))
    assert (found["token_recall"], found["token_precision"], found["span_recall"]) == (1 / 2, 1 / 2, 0)
    assert (found["masked"], found["missed_by_kind"]) == (1 / 2, {"NAME": [1, 1]})
    everything = pii.scores([ROW], [[1, 1, 1, 1]])
    assert (everything["character_recall"], everything["span_recall"], everything["masked"]) == (1, 1, 1)
    assert everything["character_precision"] == 2 / 5


@pytest.mark.parametrize("which", ["A", "B"])
def test_mails_mark_what_they_filled_in(which):
    made = list(mails(which, 60, 1))
    assert made == list(mails(which, 60, 1))
    assert made != list(mails(which, 60, 2))
    kinds = {kind for _, spans in made for *_, kind in spans}
    assert {"EMAIL", "ORDER", "IBAN", "PASSWORD", "NAME", "USERNAME", "PHONE", "CARD", "KEY"} <= kinds
    for text, spans in made:
        for start, end, kind in spans:
            assert text[start:end].strip()
            if kind == "IBAN":
                assert re.fullmatch(r"[a-zA-Z]{2}\d\d[\w ]{10,}", text[start:end])


def test_the_two_sets_of_mails_share_no_frame_and_no_format():
    assert set(LINES["A"]).isdisjoint(LINES["B"])
    assert set(ORDERS["A"]).isdisjoint(ORDERS["B"])


def test_the_page_shows_the_results(tmp_path):
    document = json.loads(pii.RESULTS.read_text("utf-8"))
    page = pii.PAGE.read_text("utf-8")
    begin, end = f"<!-- pii: made by `{pii.MAKER}` -->", "<!-- end -->"
    assert f"{begin}\n{pii.tables(document)}\n{end}" in page
    copy = tmp_path / "policies.md"
    copy.write_text(f"before {begin} old {end} after")
    pii.write_docs(document, copy)
    assert copy.read_text() == f"before {begin}\n{pii.tables(document)}\n{end} after"
    copy.write_text("nothing")
    with pytest.raises(ValueError, match="no marks for pii"):
        pii.write_docs(document, copy)
