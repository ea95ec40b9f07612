"""Scores of membership, each against its definition written out, on cases made by hand."""

import math
import zlib

import numpy as np
import pytest
import torch
from scipy import stats
from support.memorised import DESCRIPTION, VOCABULARY, trained_on
from support.tiny import TOKENIZER, rows_of

from pipelines.attacks import membership_scores as scoring
from pipelines.attacks.membership_scores import Evidence
from pipelines.attacks.membership_shadows import Signals, lira_offline, lira_online, rmia
from pipelines.training.encoded import Record
from pipelines.training.models.recurrent import RecurrentLanguageModel
from pipelines.training.trained import TrainedModel


def evidence(losses, errors=None, ids=None):
    errors = [False] * len(losses) if errors is None else errors
    ids = range(len(losses)) if ids is None else ids
    return Evidence(
        token_losses=np.array(losses, dtype=float), is_error=np.array(errors), token_ids=np.array(ids, dtype=np.int32)
    )


def test_perplexity_and_its_ratios():
    target = evidence([1.0, 2.0, 3.0])
    assert scoring.perplexity(target) == pytest.approx(-math.exp(2))
    assert scoring.lower_case(target, evidence([4.0, 5.0])) == pytest.approx(math.log(math.exp(4.5) / math.exp(2)))
    assert scoring.reference_ratio(target, evidence([1.5, 2.5, 5.0])) == pytest.approx(1.0)
    text = "the heron the heron the heron the heron"
    compressed = zlib.compress(text.encode())
    assert scoring.zlib_length(target, text) == pytest.approx(-2 / len(compressed))
    bits = stats.entropy(list({byte: compressed.count(byte) for byte in compressed}.values()), base=2)
    assert scoring.zlib_entropy(target, text) == pytest.approx(-math.exp(2) / bits)
    assert math.isfinite(scoring.perplexity(evidence([1e6])))


def test_the_error_zone():
    reference = evidence([3.0, 3.0, 3.0, 3.0])
    # Shifts +1, -0.5, +9, +0.25; the third token is predicted rightly, so its shift does not count.
    target = evidence([2.0, 3.5, -6.0, 2.75], [True, True, False, True])
    ratio = 1.25 / 0.5
    assert scoring.ez(target, reference) == pytest.approx(ratio / (1 + ratio))
    # No shift downward, and no error at all, are the strongest signs; no shift at all is none.
    assert scoring.ez(evidence([2.0, 3.0], [True, True]), evidence([3.0, 3.0])) == 1
    assert scoring.ez(evidence([2.0, 3.0]), evidence([3.0, 3.0])) == 1
    assert scoring.ez(evidence([3.0, 3.0], [True, True]), evidence([3.0, 3.0])) == 0.5
    assert scoring.ez(evidence([4.0, 3.0], [True, True]), evidence([3.0, 3.0])) == 0


def test_windows():
    rng = np.random.default_rng(0)
    for length in (1, 2, 7, 60):
        target, reference = rng.exponential(size=(2, length))
        shares = []
        for size in scoring.WINDOWS:
            size = min(size, length)
            windows = [slice(at, at + size) for at in range(length - size + 1)]
            shares.append(np.mean([reference[w].sum() > target[w].sum() for w in windows]))
        assert scoring.wbc(evidence(target), evidence(reference)) == pytest.approx(np.mean(shares))
    same = evidence([0.1, 0.7, 0.2])
    assert scoring.wbc(same, same) == 0


def signals(num_models=6, num_records=5, seed=0):
    rng = np.random.default_rng(seed)
    names = [f"r{i}" for i in range(num_records)]
    target, *shadows = (dict(zip(names, row, strict=True)) for row in rng.normal(-2, 0.5, (num_models + 1, len(names))))
    half = num_models // 2
    members = [set() for _ in range(num_models)]
    for name in names:
        for model in rng.permutation(num_models)[:half]:
            members[model].add(name)
    return Signals(target=target, shadows=shadows, members=members)


@pytest.mark.parametrize("num_models", [6, 64])
def test_lira_is_the_ratio_of_two_normal_densities(num_models):
    given = signals(num_models)
    parts = {
        name: [
            [s[name] for s, m in zip(given.shadows, given.members, strict=True) if (name in m) is seen]
            for seen in (True, False)
        ]
        for name in given.target
    }

    def spread(name, side):
        if num_models >= 64:
            return np.std(parts[name][side], ddof=1)
        return math.sqrt(np.mean([np.var(part[side], ddof=1) for part in parts.values()]))  # as many models each

    online, offline = lira_online(given), lira_offline(given)
    for name, signal in given.target.items():
        inside, outside = (stats.norm(np.mean(parts[name][side]), spread(name, side)) for side in (0, 1))
        assert online[name] == pytest.approx(math.log(inside.pdf(signal) / outside.pdf(signal)))
        assert stats.norm.cdf(offline[name]) == pytest.approx(outside.cdf(signal))


@pytest.mark.parametrize(("gamma", "a", "online"), [(1.0, 1.0, True), (2.0, 1.0, False), (1.0, 0.3, False)])
def test_rmia_counts_the_population_that_it_beats(gamma, a, online):
    given, population = signals(seed=1), signals(num_records=40, seed=2)
    nobody = [set()] * len(given.shadows)
    population = Signals(target=population.target, shadows=population.shadows, members=nobody)
    if not online:
        # A record that some model saw and another that none saw get the same form: that of the models that saw neither.
        given = Signals(target=given.target, shadows=given.shadows, members=[{"r0"}, *nobody[1:]])

    def marginal(of, name, by_both):
        inside, outside = (
            [math.exp(s[name]) for s, m in zip(of.shadows, of.members, strict=True) if (name in m) is seen]
            for seen in (True, False)
        )
        return (np.mean(inside) + np.mean(outside)) / 2 if by_both else ((1 + a) * np.mean(outside) + 1 - a) / 2

    found = rmia(given, population, gamma=gamma, offline_a=a)
    for name, signal in given.target.items():
        ratio = math.exp(signal) / marginal(given, name, online)
        others = [math.exp(s) / marginal(population, z, False) for z, s in population.target.items()]
        assert found[name] == np.mean([ratio / other >= gamma for other in others])


def lstm():
    torch.manual_seed(0)
    network = RecurrentLanguageModel(TOKENIZER.get_vocab_size(), 8, 8)
    with torch.no_grad():
        network.decoder.bias[TOKENIZER.encode("e").ids] = 5  # a model that has an opinion: some of it is right
    return TrainedModel(network, VOCABULARY, DESCRIPTION)


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_evidence_is_what_the_model_says_of_each_record_by_its_name(kind):
    texts = {"a": "Ab nix", "b": "the long heron went away", "c": "no"}
    model = lstm() if kind == "lstm" else trained_on(list(texts.values()), num_steps=12)
    found = scoring.read_evidence(model, texts)
    assert list(found) == list(texts)
    for name, text in texts.items():
        encoded = model.encode([text])
        with torch.no_grad():
            logits = model.model(input_ids=torch.from_numpy(encoded.ids[None].astype(np.int64))).logits[0, :-1]
        asked = encoded.is_target[1:]
        labels = torch.from_numpy(encoded.ids[1:].astype(np.int64))
        losses = -logits.log_softmax(-1).gather(1, labels[:, None])[:, 0].numpy()[asked]
        np.testing.assert_allclose(found[name].token_losses, losses, rtol=1e-4, atol=1e-5)
        assert found[name].is_error.tolist() == (logits.argmax(-1) != labels).numpy()[asked].tolist()
        assert found[name].token_ids.tolist() == encoded.ids[1:][asked].tolist()
    assert any(e.is_error.any() for e in found.values())
    assert not all(e.is_error.all() for e in found.values())
    turned = scoring.read_evidence(model, dict(reversed(texts.items())))
    assert {name: e.nats for name, e in turned.items()} == pytest.approx({name: e.nats for name, e in found.items()})


def test_small_letters_move_no_character():
    record = rows_of([("USR", "İSTANBUL Is FAR")])
    assert scoring.lower(record).texts == ["İstanbul is far"]
    assert scoring.lower(Record(texts=["A", "B"]).rows()).texts == ["a", "b"]


def test_models_that_read_other_tokens_are_not_compared():
    one = {"a": evidence([1.0, 2.0])}
    assert scoring.are_comparable(one, {"a": evidence([2.0, 2.0]), "b": evidence([1.0])})
    assert not scoring.are_comparable(one, {"a": evidence([2.0, 2.0], ids=[0, 2])})
    assert not scoring.are_comparable(one, {"a": evidence([2.0])})
    assert not scoring.are_comparable(one, {})
