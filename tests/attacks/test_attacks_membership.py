"""Membership inference from models to figures: what was learnt by heart is found, and nothing elsewhere."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.memorised import trained_on

from pipelines.attacks import membership_protocols
from pipelines.attacks.blind import blind_scores
from pipelines.attacks.membership import CLASSIC, Shadow, attack_membership
from pipelines.attacks.membership_comparison import MembershipSettings
from pipelines.attacks.membership_evaluation import auc, auc_interval, holm
from pipelines.attacks.membership_scores import perplexity, read_evidence
from pipelines.attacks.summary import membership_summary
from pipelines.errors import ConfigError
from pipelines.training.encoded import Record

WORDS = ["amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "inlet", "jetty", "larch", "otter"]
QUICK = MembershipSettings(group_size=5, num_resamples=50)
LATER = ("ez", "wbc", "rmia")


def texts(kind, num, seed):
    rng = np.random.default_rng(seed)
    return {f"{kind}{i}": " ".join(rng.choice(WORDS, 3)).capitalize() for i in range(num)}


def attack(target, *given, seed=0, **named):
    return attack_membership(target, *given, settings=QUICK, generator=np.random.default_rng(seed), **named)


@pytest.fixture(scope="module")
def world():
    """Four samples of one source, and models that learnt the first by heart, the third, and the fourth."""
    samples = [texts(kind, num, seed) for seed, (kind, num) in enumerate([("m", 40), ("n", 40), ("r", 40), ("u", 40)])]
    members, non_members, of_reference, of_unseen = samples
    models = [
        trained_on(list(given.values()), num_steps=num_steps, seed=1)
        for given, num_steps in ((members, 100), (of_reference, 30), (of_unseen, 30))
    ]
    return members, non_members, *models


def aucs(attacks):
    return {name: attack.evaluation.auc for name, attack in attacks.items()}


@pytest.fixture(scope="module")
def result(world):
    members, non_members, target, reference, unseen = world
    population = texts("z", 60, 9)
    return attack(target, members, non_members, reference=reference, unseen=unseen, population=population)


def test_what_was_learnt_by_heart_is_found(result):
    assert set(result.individual) == {*CLASSIC, *LATER}
    found = aucs(result.individual)
    assert max(found.values()) > 0.8, found
    assert found["reference_ratio"] > 0.8
    assert result.any_leak
    assert max(aucs(result.group).values()) > max(found.values()) - 0.05
    best = max(result.individual.values(), key=lambda one: one.evaluation.auc)
    assert best.over_blind.value > 0.2
    assert best.over_unseen.value > 0.2
    assert best.p_value >= best.evaluation.p_value
    attacks = [*result.individual.values(), *result.group.values()]
    corrected = holm(dict(enumerate(one.p_value for one in attacks)))
    assert [one.adjusted_p_value for one in attacks] == list(corrected.values())
    assert best.evaluation.accuracy.value > 0.6
    assert not best.evaluation.points[-1].is_resolved, "40 non-members resolve no rate of 0.1 %"
    assert set(result.skipped) == {"lira_online", "lira_offline"}


def test_where_people_are_judged_their_records_are_no_independent_evidence(result):
    assert result.any_leak
    assert not replace(result, person={}, num_people=(2, 2)).any_leak
    assert replace(result, person=result.individual, num_people=(8, 8)).any_leak


def test_the_papers_figures_stand_beside_with_their_baselines(world, result, patch):
    assert result.papers == ()  # 40 records are neither 500 nor 1,000
    small = membership_protocols.Protocol(name="crt", source="", num_records=30, group_size=5, num_groups=60)
    patch.constant(membership_protocols, "PROTOCOLS", (small,))
    members, non_members, target, reference, unseen = world
    found = attack(target, members, non_members, reference=reference, unseen=unseen)
    (paper,) = found.papers
    assert paper.individual.accuracy > 0.6
    assert set(paper.individual.baselines) == {"blind", "never saw"}
    assert paper.individual.accuracy_over > 0
    counts = {"num_members": 40, "num_non_members": 40}
    rows = membership_summary({**counts, **json.loads(json.dumps(found.document()))})["papers"]
    assert [row["name"] for row in rows] == ["CRT, 30 and 30", "CRT, 30 and 30, overlapping groups of 5"]
    assert rows[0]["low"] < rows[0]["accuracy"] <= rows[0]["high"]
    assert (rows[1]["low"], rows[1]["warning"]) == (None, membership_protocols.OVERLAP)
    quiet = attack(unseen, members, non_members, reference=reference)
    assert abs(quiet.papers[0].individual.accuracy - 0.5) < 0.3 > quiet.papers[0].individual.accuracy_over


def test_the_order_of_records_does_not_matter(world, result):
    members, non_members, target, reference, unseen = world
    turned = dict(sorted(members.items(), key=lambda row: row[1])), dict(reversed(non_members.items()))
    again = attack(target, *turned, reference=reference, unseen=unseen, population=texts("z", 60, 9))
    assert aucs(again.individual) == pytest.approx(aucs(result.individual))


def test_losses_joined_by_position_would_hide_the_leak(world, result):
    """The order that a batch by length has: a join that trusts it is told from ours by the test above."""
    members, non_members, target, *_ = world

    class Reordered:
        def losses(self, rows):
            return target.losses(sorted(rows, key=lambda row: row.texts))

    found = aucs(attack(Reordered(), members, non_members).individual)
    assert found["perplexity"] < 0.7 < aucs(result.individual)["perplexity"]


def test_a_model_that_saw_neither_shows_nothing(world):
    members, non_members, _, reference, unseen = world
    found = attack(unseen, members, non_members, reference=reference, population=texts("z", 60, 9))
    assert not found.any_leak
    for name, one in found.individual.items():
        low, high = auc_interval(*split(found.scores[name], members), 0.999)
        assert low <= 0.5 <= high, name
        assert (one.over_unseen is not None) == (name in ("perplexity", "lower_case", "zlib_length", "zlib_entropy"))


def split(scores, members):
    return [
        np.array([value for name, value in scores.items() if (name in members) is inside]) for inside in (True, False)
    ]


def test_intervals_hold_one_half_as_often_as_they_say(world):
    """400 ways to call one half of 200 unseen records members; a wrong interval is rejected by the same count."""
    *_, unseen = world
    scores = np.array([perplexity(e) for e in read_evidence(unseen, texts("x", 200, 5)).values()])
    rng, misses, too_short = np.random.default_rng(0), 0, 0
    for _ in range(400):
        chosen = rng.permutation(scores)
        low, high = auc_interval(chosen[:60], chosen[60:120], 0.95)
        misses += not low <= 0.5 <= high
        middle, reach = (low + high) / 2, (high - low) / 4
        too_short += not middle - reach <= 0.5 <= middle + reach
    # The 120 come from 200, so misses fall somewhat short of 5 %.
    assert stats.binom.ppf(0.0005, 400, 0.02) <= misses <= stats.binom.ppf(0.9995, 400, 0.05) < too_short


def test_samples_of_two_sources_are_no_leak(world):
    """Non-members of another generator: every score separates them, and so do both baselines."""
    members, _, _, reference, unseen = world
    others = {f"n{i}": f"{text}!?" for i, text in enumerate(texts("n", 40, 8).values())}
    found = attack(unseen, members, others, reference=reference)
    assert max(aucs(found.individual).values()) > 0.9
    assert found.blind.auc > 0.9
    assert not found.any_leak
    best = max(found.individual.values(), key=lambda one: one.evaluation.auc)
    assert best.evaluation.p_value < 1e-6
    assert best.over_blind.value < 0.1
    alone = attack(unseen, members, others)  # without a model that saw nothing, the texts tell
    assert max(one.evaluation.auc for one in alone.individual.values()) > 0.9
    assert {one.over_unseen for one in alone.individual.values()} == {None}
    assert not alone.any_leak


def with_shadows(world, num_pairs, num_steps):
    """The attack with shadow models, each trained on a half of the records, and its counterpart on the other half."""
    members, non_members, target, *_ = world
    names = {**members, **non_members}
    rng = np.random.default_rng(4)
    deals = [rng.permutation(list(names)) for _ in range(num_pairs)]
    halves = [set(part.tolist()) for deal in deals for part in (deal[:40], deal[40:])]
    shadows = [
        Shadow(model=trained_on([names[n] for n in sorted(half)], num_steps=num_steps, seed=5), members=half)
        for half in halves
    ]
    return attack(target, members, non_members, shadows=shadows, population=texts("z", 40, 9))


@pytest.mark.slow
def test_shadow_models(world):
    found = with_shadows(world, 2, 25)
    assert set(found.skipped) == {"reference_ratio", "ez", "wbc"}
    assert aucs(found.individual)["lira_offline"] > 0.8
    assert aucs(found.individual)["rmia"] > 0.8
    assert "lira_online" in found.individual


@pytest.mark.slow
def test_shadow_models_of_the_same_recipe(world):
    found = aucs(with_shadows(world, 5, 100).individual)
    assert min(found[name] for name in ("lira_online", "lira_offline", "rmia")) > 0.9, found


def test_documents_hold_no_text_and_no_name_of_a_record(result):
    written = json.dumps(result.document(), allow_nan=False)
    for word in ["Amber", "otter", "m1", "n1"]:
        assert word in json.dumps([result.scores, list(texts("m", 40, 0).values())])
        assert word not in written
        assert word not in repr(result)


def test_what_is_left_out_is_counted(world):
    members, non_members, target, *_ = world
    num_chance = len(set(non_members.values()) & set(members.values()))
    found = attack(target, members, {**non_members, "again": members["m0"], "empty": ""})
    assert found.num_dropped == {"same_text": num_chance + 1, "without_tokens": 1}
    assert found.blind.num_non_members == 40 - num_chance


def test_records_that_cannot_be_told_apart_are_refused(world):
    members, non_members, target, *_ = world
    with pytest.raises(ConfigError, match="identifier"):
        attack(target, members, {"m0": "x"})
    with pytest.raises(ConfigError, match="two members"):
        attack(target, members, dict(zip("ab", members.values(), strict=False)))
    with pytest.raises(ConfigError, match="identifier"):
        attack(target, members, non_members, population={"n0": "x"})


def test_records_with_speakers(world):
    *_, target, _, _ = world
    rows = {name: Record(texts=[text], speakers=["USR"]) for name, text in texts("s", 12, 3).items()}
    found = attack(target, dict(list(rows.items())[:6]), dict(list(rows.items())[6:]))
    assert found.individual["lower_case"].evaluation.num_members == 6
    assert set(found.group) == set()


def test_the_blind_baseline_sees_words_and_lengths_and_holds_its_level():
    rng = np.random.default_rng(0)
    marked = {name: f"{text} zebra" for name, text in texts("m", 60, 1).items()}
    plain = texts("n", 60, 2)
    longer = {name: f"{text} {text}" for name, text in texts("m", 60, 3).items()}
    for members in (marked, longer):
        assert auc(*split(blind_scores(members, plain, generator=rng), members)) > 0.95
    found = []
    for seed in range(20):
        members, others = texts("m", 60, 100 + seed), texts("n", 60, 200 + seed)
        found.append(auc(*split(blind_scores(members, others, generator=rng), members)))
    # Not fitted on what it scores: no better than a coin on average.
    assert abs(np.mean(found) - 0.5) < 4 * np.std(found, ddof=1) / math.sqrt(20)
