"""What a policy learnt from shows nothing of what it misses: left out of the rates, told in claims."""

import json

import numpy as np
import pytest

from pipelines.accounting.decisions import about_policies
from pipelines.accounting.facts import CorpusFacts
from pipelines.errors import ConfigError
from pipelines.miss_rate.learnt import LEARNT, read_learnt, write_learnt
from pipelines.miss_rate.review_log import sentence_key
from pipelines.miss_rate.sampling import draw_replicate, seed_of_draw
from pipelines.settings.redact import RedactConfig

SECRET, OTHER_STORE = b"secret of the store", b"secret of another"


def test_the_list_quotes_nothing_and_speaks_of_its_own_store_only(tmp_path):
    write_learnt(tmp_path, SECRET, [sentence_key(SECRET, text) for text in ("call Jane", "call Jane", "call Ann")])
    path = tmp_path / LEARNT
    assert "Jane" not in path.read_text()
    assert len(read_learnt([path], SECRET)) == 2
    assert read_learnt([path], OTHER_STORE) == frozenset()
    assert read_learnt([], SECRET) == frozenset()


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 2, "store": "x", "sentences": []}'])
def test_a_damaged_list_is_refused(tmp_path, text):
    (tmp_path / LEARNT).write_text(text)
    with pytest.raises(ConfigError, match="what a model learnt from"):
        read_learnt([tmp_path / LEARNT], SECRET)


def test_settings_find_the_list_beside_the_model_and_its_content_counts(tmp_path):
    config = RedactConfig(policies=("classifier", "digits"), classifier=str(tmp_path))
    assert config.learnt_from() == ()
    write_learnt(tmp_path, SECRET, ["one"])
    assert config.learnt_from() == (tmp_path / LEARNT,)
    assert str(tmp_path / LEARNT) in config.code_references()
    assert RedactConfig(policies=("digits",)).learnt_from() == ()


def test_another_draw_is_another_sample_and_the_first_one_stays():
    assert seed_of_draw(7, 1) == 7
    draws = [set(draw_replicate(100_000, 1_000, seed_of_draw(7, n), 0)) for n in (1, 2, 3)]
    assert draws[0] == set(draw_replicate(100_000, 1_000, 7, 0))
    for i, j in ((0, 1), (0, 2), (1, 2)):  # independent: about 10 in common
        assert len(draws[i] & draws[j]) < 40


def test_what_is_left_of_a_sample_is_a_random_part_of_what_was_not_learnt_from():
    """Of 30 sentences 10 were learnt from, by their number: the others are drawn equally often still."""
    counts = np.zeros(30)
    for seed in range(4_000):
        drawn = draw_replicate(30, 12, seed_of_draw(seed, 2), 0)
        counts[[n for n in drawn if n >= 10]] += 1
    assert counts[:10].sum() == 0
    expected = 4_000 * 12 / 30
    assert (((counts[10:] - expected) ** 2) / (expected * (1 - 12 / 30))).sum() < 45.3  # chi-square, 20 degrees, 0.1 %


def test_claims_know_a_policy_that_learnt_from_the_corpus():
    known = about_policies(CorpusFacts(dedup_stability=1, dedup_reason="exact.", learnt=("classifier",)))
    unknown = about_policies(CorpusFacts(dedup_stability=1, dedup_reason="exact.", fitted=("classifier",)))
    assert "Nothing is promised" in known[0]
    assert "supposes that none of the private records" in unknown[0]
    assert json.dumps(known) != json.dumps(unknown)
