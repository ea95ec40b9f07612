"""The figures that reviews add up to."""

from __future__ import annotations

import json

import pytest

from pipelines.intervals import clopper_pearson_upper
from pipelines.miss_rate.estimate import MU, Labelled, measured, not_measured
from pipelines.miss_rate.rates import (
    Delta2,
    FalseNegativeRate,
    MissRate,
    delta2_of,
    false_negative_rate_of,
    miss_rate_of,
    worst_label_of,
)
from pipelines.miss_rate.review import ReviewTable, SecretSpan, StabilityVerdict, review_sentence

STABLE = StabilityVerdict(True, True, "stable")


def table(rows, num_replicates=2, verdicts=None):
    """One row a sentence: (tokens, secrets, masked ranges, flagged, duplicate, replicates). All caught ones stable."""
    made = ReviewTable(num_replicates, has_stability=True)
    for num_tokens, secrets, masked, is_flagged, is_duplicate, replicates in rows:
        review = review_sentence(
            num_tokens=num_tokens,
            secrets=[SecretSpan(*secret) for secret in secrets],
            masked=masked,
            is_duplicate=is_duplicate,
            failed_closed=False,
            is_flagged=is_flagged,
            verdicts={secret[:2]: STABLE for secret in secrets} | (verdicts or {}),
        )
        made.add(review, replicates)
    return made


ROWS = [
    (10, [(0, 2, "NAME")], [(0, 2)], True, False, [0]),  # caught
    (10, [(0, 2, "NAME"), (5, 6, "CARD")], [(0, 1)], True, False, [0, 1]),  # one token of each missed, private
    (10, [(4, 7, "CARD")], [], False, False, [1]),  # three tokens missed, public
    (10, [], [(3, 5)], True, False, [1]),  # wrongly masked
    (10, [(0, 2, "NAME")], [], False, True, [0]),  # a duplicate, masked whole
]


def test_figures_of_a_worked_example():
    found = measured(table(ROWS), source="gold", is_census=False, confidence=0.95)
    assert found["num_sampled_sentences"] == 5
    assert found["num_kept_sentences"] == 4
    assert found["num_tokens"] == 50
    assert found["num_sensitive_tokens"] == 2 + 3 + 3 + 2
    assert found["num_missed_tokens"] == 2 + 3
    assert found["miss_rate"]["value"] == pytest.approx(5 / 50)
    assert (found["num_secret_spans"], found["num_missed_spans"], found["num_escaped_spans"]) == (4, 3, 1)
    assert found["false_negative_rate"]["value"] == pytest.approx(3 / 4)
    assert found["delta2"]["value"] == pytest.approx(1 / 4)
    assert found["escape_per_sentence"]["value"] == pytest.approx(1 / 5)
    assert found["escape_per_sentence"]["upper"] == pytest.approx(clopper_pearson_upper(1, 5, 0.95))
    # Tokens of kept sentences: 5 masked, of which 3 sensitive; 5 missed.
    assert found["recall"] == pytest.approx(3 / 8)
    assert found["precision"] == pytest.approx(3 / 5)
    assert found["recall_as_in_jft"] == pytest.approx(1 - 5 / 5)
    assert found["by_label"]["CARD"] == {
        "num_secret_spans": 2,
        "num_missed_spans": 2,
        "num_unmasked_spans": 2,
        "num_unstable_spans": 0,
        "false_negative_rate": 1.0,
        "false_negative_rate_upper": 1.0,
    }
    # Replicates: 3 sentences each; 2 missed of 30 tokens, and 5 of 30.
    assert found["miss_rate"]["mean_of_replicates"] == pytest.approx((2 / 30 + 5 / 30) / 2)
    assert found["miss_rate"]["student_t"][0] < 0 == found["miss_rate"]["student_t_clipped"][0]
    assert any("clipped" in warning for warning in found["warnings"])
    assert found["source"] == "gold"
    assert found["mu"] == MU
    json.dumps(found, allow_nan=False)


def test_a_sentence_in_two_replicates_counts_once():
    once = measured(
        table([(10, [(0, 2, "NAME")], [], False, False, [0])]), source="gold", is_census=False, confidence=0.95
    )
    twice = measured(
        table([(10, [(0, 2, "NAME")], [], False, False, [0, 1])]), source="gold", is_census=False, confidence=0.95
    )
    assert once["num_tokens"] == twice["num_tokens"] == 10
    assert once["false_negative_rate"] == twice["false_negative_rate"]


def test_recall_as_in_the_paper_flatters():
    rows = [(100, [(0, 10, "NAME")], [(5, 60)], True, False, [0])]  # 5 of 10 found, 50 tokens masked for nothing
    found = measured(table(rows), source="gold", is_census=False, confidence=0.95)
    assert found["recall"] == pytest.approx(0.5)
    assert found["recall_as_in_jft"] == pytest.approx(1 - 5 / 55)


def test_a_census_has_no_sampling_error():
    found = measured(table(ROWS), source="gold", is_census=True, confidence=0.95)
    for name in ("false_negative_rate", "delta2"):
        assert found[name]["upper"] == found[name]["value"]
        assert found[name]["confidence"] == 1.0
    assert found["miss_rate"]["recommended"] == [0.1, 0.1]
    assert found["miss_rate"]["student_t"] is None
    assert found["escape_per_sentence"]["upper"] == 0.2


def test_zero_misses_are_a_bound():
    rows = [(10, [(0, 2, "NAME")], [(0, 2)], True, False, [0])] * 50
    found = measured(table(rows), source="gold", is_census=False, confidence=0.95)
    assert found["false_negative_rate"] == {"value": 0.0, "upper": pytest.approx(1 - 0.05**0.02), "confidence": 0.95}
    assert found["delta2"]["upper"] == found["false_negative_rate"]["upper"]
    assert found["miss_rate"]["recommended"][1] > 0
    assert any("not 0" in warning for warning in found["warnings"])
    exact = measured(table(rows), source="gold", is_census=True, confidence=0.95)
    assert exact["false_negative_rate"]["upper"] == 0.0


def test_no_secret_in_the_sample_is_no_knowledge():
    rows = [(10, [], [], False, False, [0])] * 5
    found = measured(table(rows), source="gold", is_census=False, confidence=0.95)
    assert found["false_negative_rate"] == {"value": None, "upper": 1.0, "confidence": 0.95}
    assert found["recall"] is None
    assert found["precision"] is None
    assert false_negative_rate_of(found) is None
    assert delta2_of(found) is None
    assert any("no labelled secret" in warning for warning in found["warnings"])


def test_measured_and_unmeasured_figures_have_the_same_keys():
    found = measured(table(ROWS), source="gold", is_census=False, confidence=0.95)
    nothing = not_measured(num_sampled_sentences=3, is_census=False, confidence=0.95, reason="no labels")
    assert set(found) == set(nothing)
    assert nothing["source"] == "not_measured"
    assert nothing["warnings"] == ["no labels"]
    assert (miss_rate_of(nothing), false_negative_rate_of(nothing), delta2_of(nothing)) == (None, None, None)


def test_rates_come_back_as_their_own_types():
    found = json.loads(json.dumps(measured(table(ROWS), source="gold", is_census=False, confidence=0.9)))
    assert isinstance(miss_rate_of(found), MissRate)
    gamma, escape = false_negative_rate_of(found), delta2_of(found)
    assert isinstance(gamma, FalseNegativeRate)
    assert isinstance(escape, Delta2)
    assert gamma.upper == found["false_negative_rate"]["upper"] > gamma.value
    assert gamma.mu == escape.mu == MU
    assert gamma.confidence == 0.9


def test_m_is_not_gamma():
    # 0.7 % of all tokens missed, at 16 % sensitive tokens, is about 4 % of the secrets.
    rows = [(100, [(t, t + 1, "NAME") for t in range(16)], [(0, 16)], True, False, [0])] * 956
    rows += [(100, [(t, t + 1, "NAME") for t in range(16)], [(90, 91)], True, False, [0])] * 44
    found = measured(table(rows), source="gold", is_census=False, confidence=0.95)
    assert found["miss_rate"]["value"] == pytest.approx(0.00704)
    assert found["false_negative_rate"]["value"] == pytest.approx(0.044)


def test_the_bounds_of_labels_hold_at_once():
    # 40 clean secrets of one kind, 80 of the other: each bound at 1 - 0.05 / 2, not at 0.95.
    rows = [(10, [(0, 2, "NAME")], [(0, 2)], True, False, [0])] * 40
    rows += [(10, [(0, 2, "CARD")], [(0, 2)], True, False, [0])] * 80
    found = measured(table(rows), source="gold", is_census=False, confidence=0.95)
    assert found["by_label"]["NAME"]["false_negative_rate_upper"] == pytest.approx(clopper_pearson_upper(0, 40, 0.975))
    assert found["by_label"]["CARD"]["false_negative_rate_upper"] == pytest.approx(clopper_pearson_upper(0, 80, 0.975))
    gamma, escape = worst_label_of(found)
    assert gamma.upper == pytest.approx(clopper_pearson_upper(0, 40, 0.975))
    assert escape.upper == gamma.upper > found["false_negative_rate"]["upper"]
    assert gamma.confidence == 0.95
    assert gamma.mu == escape.mu != MU


def test_a_part_of_the_corpus_is_never_a_census():
    part = Labelled(is_whole=False, share=0.25)
    found = measured(table(ROWS), source="gold", is_census=True, confidence=0.95, labelled=part)
    assert not found["is_census"]
    assert not found["covers_corpus"]
    assert found["labelled_share"] == 0.25
    assert found["false_negative_rate"]["upper"] > found["false_negative_rate"]["value"]
    assert found["mu"] != MU
