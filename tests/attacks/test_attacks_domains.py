"""LiRa across domains: direction, rates, C, z, and what a model writes that has seen the other domain."""

import json

import numpy as np
import pytest
from support.memorised import DESCRIPTION, VOCABULARY, trained_on
from support.torch_threads import one_thread  # noqa: F401

from pipelines.attacks.domain_scores import (
    Judged,
    choose_threshold,
    document,
    domain_privacy,
    leak_ratio,
    rate_difference,
)
from pipelines.attacks.domains import (
    LabelledPolicies,
    Prompts,
    attack,
    attack_references,
    dialogue_prompts,
    needed_domain_only,
    needed_models,
    needed_references,
    sentence_prompts,
)
from pipelines.attacks.prompting import Decoding, completed, continuation_losses, fitted
from pipelines.attacks.rates import Rate
from pipelines.errors import ConfigError
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.texts import TextJudge
from pipelines.training.encoded import Record
from pipelines.training.models.recurrent import RecurrentLanguageModel
from pipelines.training.trained import TrainedModel

NAN = float("nan")


def judged(scores, lira=None, conversations=None):
    scores = np.asarray(scores, dtype=float)
    return Judged(
        conversations=list(range(len(scores))) if conversations is None else conversations,
        policy_scores=scores,
        num_empty=int(np.isnan(scores).sum()),
        num_failed=0,
        lira=None if lira is None else np.asarray(lira, dtype=float),
    )


def test_empty_texts_do_not_count_and_z_is_exceeded_not_met():
    rate = judged([0.9, 0.96, 0.97, NAN, 0.0, NAN]).success_rate(0.96)
    assert (rate.num_hits, rate.num_units, rate.value) == (1, 4, 0.25)
    assert judged([NAN]).success_rate(0.5).value is None
    assert judged([NAN]).success_rate(0.5).document()["low"] == 0.0


def test_a_low_score_is_suspicious():
    # Texts that the attacked model finds likelier than the reference: the first and the last.
    lira = [-2.0, 0.5, 1.0, 0.1, -3.0, NAN, -9.0]
    found = judged([1, 0, 0, 0, 1, 1, NAN], lira=lira)
    assert found.success_rate_of_most_suspicious(0.5, 2).value == 1.0
    assert found.success_rate_of_most_suspicious(0.5, 3).value == pytest.approx(2 / 3)
    assert found.success_rate_of_most_suspicious(0.5, 100).num_units == 5
    with pytest.raises(ConfigError, match="reference"):
        judged([1.0]).success_rate_of_most_suspicious(0.5, 2)


def test_texts_of_one_conversation_are_no_independent_ones():
    scores = [1.0] * 50 + [0.0] * 50
    alone = judged(scores).success_rate(0.5)
    together = judged(scores, conversations=[n // 10 for n in range(100)]).success_rate(0.5)
    assert alone.value == together.value == 0.5
    assert alone.low == pytest.approx(Rate.of(50, 100, 0.95).low, abs=0.01)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_c_is_the_ratio_of_both_rates():
    target, reference = judged([1.0] * 60 + [0.0] * 40), judged([1.0] * 20 + [0.0] * 80)
    ratio = leak_ratio(target, reference, 0.5)
    assert ratio.value == pytest.approx(3.0)
    ours, theirs = (each.success_rate(0.5, 0.975) for each in (target, reference))
    assert (ratio.low, ratio.high) == (ours.low / theirs.high, ours.high / theirs.low)
    nothing = leak_ratio(target, judged([0.0] * 100), 0.5)
    assert (nothing.value, nothing.high) == (None, None)
    assert nothing.low > 1
    neither = leak_ratio(judged([0.0] * 100), judged([0.0] * 100), 0.5)
    assert (neither.value, neither.low, neither.high) == (None, 0.0, None)
    none = leak_ratio(judged([0.0] * 100), reference, 0.5)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(Rate.of(0, 100, 0.975).high / theirs.low)
    unknown = leak_ratio(target, judged([NAN]), 0.5)
    assert (unknown.value, unknown.low, unknown.high) == (None, 0.0, None)


def test_the_interval_of_c_covers():
    rng, num_covered = np.random.default_rng(0), 0
    for _ in range(60):
        target, reference = judged(rng.random(150) < 0.3), judged(rng.random(150) < 0.1)
        ratio = leak_ratio(target, reference, 0.5, 0.9)
        num_covered += ratio.low <= 3.0 and (ratio.high is None or ratio.high >= 3.0)
    assert num_covered >= 54


def test_c_of_a_model_is_the_largest_and_its_intervals_hold_together():
    low, high = judged([1.0] * 10 + [0.0] * 90), judged([1.0] * 40 + [0.0] * 60)
    targets = {("a", "b"): low, ("b", "a"): high}
    whole, pairs = domain_privacy(targets, {("a", "b"): low, ("b", "a"): low}, 0.5, 0.95)
    assert whole.value == pairs["b", "a"].value == pytest.approx(4.0)
    assert pairs["a", "b"] == leak_ratio(low, low, 0.5, 0.975)
    assert whole.high == pairs["b", "a"].high
    never = judged([0.0] * 100)
    whole, pairs = domain_privacy(targets, {("a", "b"): never, ("b", "a"): low}, 0.5)
    assert (whole.value, whole.high) == (None, None)
    assert whole.low == max(pair.low for pair in pairs.values())
    with pytest.raises(ConfigError, match="reference"):
        domain_privacy(targets, {("a", "b"): low}, 0.5)


def test_z_is_where_public_leaks_most_above_domain_only():
    public, only = judged([0.99, 0.9, 0.7, 0.6, NAN]), judged([0.8, 0.6, 0.6, 0.0])
    #            z:  0.5    0.65   0.75   0.95
    # public:        4/4    3/4    2/4    1/4
    # domain only:   3/4    1/4    1/4    0
    found = choose_threshold([public], [only], [0.5, 0.65, 0.75, 0.95])
    assert (found.value, found.gap, found.rate_public, found.rate_domain_only) == (0.65, 0.5, 0.75, 0.25)
    assert choose_threshold([public], [only], [0.5, 0.75, 0.95]).value == 0.95  # a quarter each: the strictest
    assert choose_threshold([only], [public], [0.5, 0.65]).gap == -0.25  # the difference has a sign
    with pytest.raises(ConfigError):
        choose_threshold([judged([NAN])], [only], [0.5])
    with pytest.raises(ConfigError):
        choose_threshold([public], [only], [])


def test_differences_of_rates_have_an_interval_over_conversations():
    rng = np.random.default_rng(0)
    many = [n // 10 for n in range(400)]
    high = {("a", "b"): judged([1.0] * 200 + [0.0] * 200, conversations=many)}
    low = {("a", "b"): judged(([1.0] + [0.0] * 9) * 40, conversations=many)}
    value, lower, upper = rate_difference(high, low, 0.5, rng)
    assert value == pytest.approx(0.4)
    assert 0.2 < lower < 0.4 < upper < 0.6
    assert rate_difference(low, low, 0.5, rng) == (0.0, 0.0, 0.0)
    with pytest.raises(ConfigError):
        rate_difference(high, {("b", "a"): judged([1.0])}, 0.5, rng)


def test_needed_models():
    references = needed_references(["air", "media", "ins"])
    assert {j: model.domains for j, model in references.items()} == {
        "air": ("media", "ins"),
        "media": ("air", "ins"),
        "ins": ("air", "media"),
    }
    assert needed_domain_only(["air", "media"])["media"].domains == ("media",)
    models = needed_models(["air", "media"])
    assert models["Pub+Redacted"].method == "redacted"
    assert models["JFT, half the steps"].num_steps_factor == 0.5
    assert all(model.domains == ("air", "media") for model in models.values())
    for domains in (["air"], ["air", "air"]):
        with pytest.raises(ConfigError):
            needed_references(domains)


def turns(doc_id, *texts, domain="air"):
    return [
        {"doc_id": doc_id, "text": text, "speaker": ("USR", "SYS")[n % 2], "domain": domain}
        for n, text in enumerate(texts)
    ]


def test_prompts_are_beginnings_of_conversations_with_the_next_turn_open():
    rows = [*turns("1", "hello", "hi", "bye"), *turns("2", "alone"), *turns("3", "x", "y", domain="media")]
    prompts = dialogue_prompts(rows, "air", np.random.default_rng(0))
    assert prompts.conversations == ["1", "1"]
    assert [list(record.texts) for record in prompts.records] == [["hello", ""], ["hello", "hi", ""]]
    assert [list(record.speakers) for record in prompts.records] == [["USR", "SYS"], ["USR", "SYS", "USR"]]
    assert prompts.records[1].domains == ["air"] * 3
    assert prompts.without_domain_tokens().records[0].domains == ()
    assert "hello" not in repr(prompts)
    many = [row for n in range(30) for row in turns(str(n), *"abcdefghijklmnop")]
    drawn = [dialogue_prompts(many, "air", np.random.default_rng(seed)) for seed in range(60)]
    assert {len(prompts.records) for prompts in drawn} == {100}
    assert {name for prompts in drawn for name in prompts.conversations} == {str(n) for n in range(30)}


def test_few_prompts_are_spread_over_many_conversations():
    rows = [row for name in "xyz" for row in turns(name, *"abcd")]
    prompts = dialogue_prompts(rows, "air", np.random.default_rng(0)).spread(4)
    assert prompts.conversations == ["x", "x", "y", "z"]
    assert [len(record.texts) for record in prompts.records] == [2, 3, 2, 2]
    assert prompts.spread(9) == prompts


def test_prompts_of_sentences():
    rows = [*turns("1", "i want to fly now", "too short", "i need my seat changed"), *turns("2", "a b c d", domain="m")]
    prompts = sentence_prompts(rows, "air", np.random.default_rng(0))
    assert [list(record.texts) for record in prompts.records] == [["i want to"], ["i need my"]]
    assert prompts.conversations == ["1", "1"]


KEYWORDS = {"air": ["seat"], "media": ["cable", "internet"]}


@pytest.fixture(scope="module")
def policies():
    spec = RedactorSpec(policies=("keywords",), options={"keywords": KEYWORDS})
    with Redactor.from_spec(spec) as redactor:
        yield LabelledPolicies(TextJudge(redactor), ["air", "media"])


def test_a_domains_keywords_are_its_leaks(policies):
    found = policies.scores(["my seat", "the internet by cable", "", "seat and cable", "nothing"])
    assert found["air"].tolist() == [1, 0, 0, 1, 0]
    assert found["media"].tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(ConfigError, match="label"):
        LabelledPolicies(None, ["air", "AIR"])


def of(domain, text):
    return Record(texts=[text], speakers=["USR"], domains=[domain])


@pytest.fixture(scope="module")
def models():
    """One read both domains, the references one each; prompts do not tell which domain is meant."""
    air, media = of("air", "i want my seat"), of("media", "i want cable")
    return {"both": trained_on([air, media], 60), "air": trained_on([media], 40), "media": trained_on([air], 40)}


def test_a_model_that_saw_the_other_domain_leaks_and_the_references_do_not(models, policies):
    references = {"air": models["air"], "media": models["media"]}
    prompts = {
        domain: Prompts(records=[of(domain, "i"), of(domain, "i want")], conversations=[1, 2])
        for domain in ("air", "media")
    }
    how = Decoding(num=12, max_new_tokens=16, top_k=40)
    prompts = {domain: given.fitted(16, *models.values()) for domain, given in prompts.items()}
    targets = attack(models["both"], prompts, policies, how, np.random.default_rng(0), references=references)
    of_references = attack_references(references, prompts, policies, how, np.random.default_rng(0))
    assert set(targets) == set(of_references) == {("air", "media"), ("media", "air")}
    for pair, found in targets.items():
        rate, theirs = found.success_rate(0.0), of_references[pair].success_rate(0.0)
        assert rate.num_units + found.num_empty == theirs.num_units + of_references[pair].num_empty == 24
        assert rate.value > 0.2
        assert theirs.value == 0
        # What leaked is what the reference finds least likely.
        leaks = found.policy_scores > 0
        assert np.nanmax(found.lira[leaks]) < -1
        assert found.success_rate_of_most_suspicious(0.0, 5).value >= 0.8 > rate.value
    made = document(targets, of_references, 0.0, num_suspicious=5)
    assert made["c"]["value"] is None
    assert made["c"]["high"] is None
    assert made["direction"] == "log PPL_target - log PPL_reference; low is suspicious"
    text = json.dumps(made) + repr([targets, prompts])
    assert not any(word in text for word in ("seat", "cable", "i want"))


def test_the_score_is_the_mean_loss_of_the_texts_own_tokens(models):
    model = models["both"]
    prompts = [of("air", "i want"), Record(texts=["hello", ""], speakers=["USR", "SYS"]), of("air", "")]
    texts = ["my seat", "yes", "i want"]
    found = continuation_losses(model, prompts, texts)
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        losses = model.losses([completed(prompt, text)])
        # Bytes: the text's tokens are the last ones before the end, with the blank where a turn goes on.
        size = len(text) + (prompt.texts[-1] != "")
        own = losses.per_token[-1 - size : -1]
        assert (own > 0).all()
        assert found.num_tokens[number] == size
        assert found.mean[number] == pytest.approx(own.mean(), rel=1e-4)
    assert len(continuation_losses(model, [], []).mean) == 0


def test_references_of_another_tokenizer_are_refused(models, policies, patch):
    prompts = {"air": Prompts(records=[of("air", "i")], conversations=[1])}
    real = continuation_losses

    def other(model, *args):
        found = real(model, *args)
        return found if model is models["both"] else type(found)(mean=found.mean, num_tokens=found.num_tokens + 1)

    patch("pipelines.attacks.domains", "continuation_losses", other)
    how = Decoding(num=2, max_new_tokens=4)
    with pytest.raises(ConfigError, match="same tokenizer"):
        attack(models["both"], prompts, policies, how, np.random.default_rng(0), references={"media": models["media"]})


def test_long_prompts_lose_their_beginning(models):
    long = Record(texts=["one two three four", "five six", ""], speakers=["USR", "SYS", "USR"], starts=True)
    assert list(fitted(long, 40, models["both"]).texts) == [""]
    assert list(fitted(long, 30, models["both"]).texts) == ["five six", ""]
    assert fitted(long, 4, models["both"]) == long
    assert list(fitted(of(None, "one two three four five"), 34, models["both"]).texts) == ["four five"]
    with pytest.raises(ConfigError, match="no room"):
        fitted(long, 48, models["both"])


def test_an_lstm_is_attacked_too_but_by_no_beams(models):
    lstm = TrainedModel(RecurrentLanguageModel(len(VOCABULARY.tokenizer), 8, 8).eval(), VOCABULARY, DESCRIPTION)
    prompts = [of("air", "i want"), of("air", "i")]
    rng = np.random.default_rng(0)
    assert Decoding(kind="beams").suits(models["both"])
    assert not Decoding(kind="beams").suits(models["both"], lstm)
    for how in (Decoding(kind="greedy", max_new_tokens=4), Decoding(num=2, max_new_tokens=4, top_k=9)):
        assert how.suits(lstm)
        assert [len(texts) for texts in how.write(lstm, prompts, rng)] == [how.num] * 2
    found = continuation_losses(lstm, prompts, ["my seat", "want cable"])
    assert found.num_tokens.tolist() == [8, 11]
    assert np.isfinite(found.mean).all()
    with pytest.raises(ConfigError, match="one text"):
        Decoding(kind="greedy", num=2)
