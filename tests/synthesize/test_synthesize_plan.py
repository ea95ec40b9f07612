"""The plan of synthetic rows follows from public settings and the rows' numbers alone."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from pipelines.errors import ConfigError
from pipelines.settings.synthesize import SynthesizeConfig
from pipelines.synthesis.plan import Lengths, Mix, Plan, partitions, rows_of


def plan(**changes):
    values = {
        "domains": Mix.of({"air": 3, "bank": 1}, ["air", "bank", "media"], "domains"),
        "speakers": Mix.of(None, ["USR", "SYS"], "speakers"),
        "lengths": Lengths.of({"1-4": 1, "5-20": 4}, 20),
        "turns": 1,
        "seed": 7,
    }
    return Plan(**{**values, **changes})


def test_rows_follow_the_mix_and_are_drawn_apart():
    turns = [plan().turn(row) for row in range(4_000)]
    counts = Counter((turn.domain, turn.speaker, turn.most) for turn in turns)
    shares = {
        (domain, speaker, most): of_domain * 0.5 * of_length
        for domain, of_domain in (("air", 0.75), ("bank", 0.25))
        for speaker in ("USR", "SYS")
        for most, of_length in ((4, 0.2), (20, 0.8))
    }
    expected = [shares[key] * len(turns) for key in sorted(shares)]
    assert stats.chisquare([counts[key] for key in sorted(shares)], expected).pvalue > 1e-3
    assert {len(turn.uniforms) for turn in turns} == {4, 20}
    assert len({float(turn.uniforms[0]) for turn in turns}) == len(turns)


def test_a_row_is_the_same_in_every_piece_and_another_seed_gives_another():
    one, other = plan().turn(11), plan(seed=8).turn(11)
    again = plan().turn(11)
    assert (one.uniforms == again.uniforms).all()
    assert one.domain == again.domain
    assert not (one.uniforms[:4] == other.uniforms[:4]).any()


@given(st.integers(1, 5_000), st.integers(1, 700), st.integers(0, 5_000))
def test_pieces_hold_every_row_once_and_a_longer_table_keeps_the_whole_ones(num_rows, size, more):
    names = partitions(num_rows, size)
    assert [row for name in names for row in rows_of(name)] == list(range(num_rows))
    longer = partitions(num_rows + more, size)
    assert longer[: num_rows // size] == names[: num_rows // size]
    assert list(longer) == sorted(longer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": "corpus"}, "counted on the private text are refused"),
        ({"speakers": "as in the text"}, "counted on the private text are refused"),
        ({"domains": {}}, "every share"),
        ({"domains": {"a": -1.0}}, "every share"),
        ({"lengths": {"1-16": float("nan")}}, "every share"),
        ({"lengths": {"0-16": 1.0}}, "must lie between 1 and max_new_tokens"),
        ({"lengths": {"1-99": 1.0}}, "must lie between 1 and max_new_tokens"),
        ({"lengths": {"short": 1.0}}, "is no range"),
        ({"rows": 10, "turns": 4}, "no multiple of turns"),
        ({"filter": ["names"]}, "'names' is no public policy"),
        ({"filter": ["regex"]}, "loses the claim"),
        ({"filter": ["token_classifier"]}, "loses the claim"),
        ({"filter": ["propagate"]}, "loses the claim"),
        ({"filter": ["package.module:Policy"]}, "loses the claim"),
    ],
)
def test_what_would_follow_from_the_private_text_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        SynthesizeConfig.model_validate(changes)


def test_public_policies_may_filter_and_names_must_be_known():
    assert SynthesizeConfig(filter=("identifiers", "high_entity", "digits", "presidio")).filter
    with pytest.raises(ConfigError, match="no token for ghost; it knows air"):
        Mix.of({"ghost": 1.0}, ["air"], "domains")
    assert Mix.of(None, [], "domains").names == (None,)
