import numpy as np
import pytest
import torch
from support.small_models import load_model, save_family

from pipelines.attacks import candidates as k
from pipelines.attacks import shared_prefixes
from pipelines.attacks.canaries import draw_canaries
from pipelines.attacks.exposure import exposure_of, rank_among
from pipelines.attacks.patterns import Pattern
from pipelines.attacks.shared_prefixes import shared_prefix_losses
from pipelines.errors import ConfigError
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.encoded import Record
from pipelines.training.models.network import build_model
from pipelines.training.models.recurrent import build_recurrent
from pipelines.training.models.shape import ModelShape
from pipelines.training.trained import TrainedModel

SHAPE = ModelShape(num_layers=2, num_heads=2, embedding_size=16, context_length=48)
PATTERN = Pattern.parse("My ID is {digits:3}.")
SHORT = Pattern.parse("My ID is {digits:2}.")
# Digits that are seen together become one token: candidates are then of several lengths.
TEXTS = ["My ID is 123, 456 or 789.", "Call 12 34 56 78 90.", "Adam Hill and Rose Hill are here."] * 20


def trained(network=None, kind="bpe_public", task="language_modelling", marks=False, seed=0):
    vocabulary = learn_vocabulary(kind, 400, TEXTS, AddedTokens(speakers=("SYS", "USR")))
    size = vocabulary.backend.get_vocab_size()
    if network is None:
        model = build_model(SHAPE, size, vocabulary.control, seed)
    else:
        model = build_recurrent(size, seed, 12, 12, kind=network)
    with torch.no_grad():  # random weights of this size say nearly the same of all
        for parameter in model.parameters():
            parameter.mul_(4)
    described = {"method": "no_dp", "task": task, "context_length": SHAPE.context_length, "marks_tokens": marks}
    return TrainedModel(model.eval().requires_grad_(False), vocabulary, described)


def one_by_one(model, pattern, **fields):
    texts = pattern.texts(0, pattern.size)
    records = [Record(texts=[t], **{name: [value] for name, value in fields.items()}) for t in texts]
    return model.losses(records).per_record


@pytest.fixture(scope="module")
def gpt2():
    return trained()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kind": "bytes"},
        {"network": "lstm"},
        {"network": "lstm", "kind": "bytes"},
        {"network": "gru"},
        {"task": "dialogue"},
    ],
)
@pytest.mark.parametrize("text", ["My ID is {digits:2}.", "I am {choice:Adam|Rose|Adam Hill|Rose Hill}, {digits:2}"])
def test_shared_prefixes_give_the_losses_of_one_by_one(given, text):
    model, pattern = trained(**given), Pattern.parse(text)
    found = k.CandidateScorer(model, pattern).losses(range(pattern.size))
    plain = one_by_one(model, pattern)
    assert np.ptp(plain) > 0.5
    np.testing.assert_allclose(found, plain, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("family", "is_packed"), [("gpt2", True), ("llama", True), ("llama-tied", False)])
def test_models_of_others_are_read_with_shared_prefixes(family, is_packed, tmp_path, patch):
    loaded = load_model(save_family(family, tmp_path), "causal", seed=0)
    described = {"method": "no_dp", "task": "language_modelling", "context_length": 64, "marks_tokens": False}
    model = TrainedModel(loaded.model.eval(), loaded.vocabulary, described)
    if not is_packed:
        patch.constant(shared_prefixes, "PLAIN_HEADS", frozenset())
    found = k.CandidateScorer(model, SHORT).losses(range(SHORT.size))
    np.testing.assert_allclose(found, one_by_one(model, SHORT), rtol=0, atol=2e-5)


def test_a_trained_prefix_is_read(tmp_path):
    peft = pytest.importorskip("peft")
    loaded = load_model(save_family("gpt2", tmp_path), "causal", seed=0)
    settings = peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    network = peft.get_peft_model(loaded.model, settings).eval()
    described = {"method": "no_dp", "task": "language_modelling", "context_length": 40, "marks_tokens": False}
    model = TrainedModel(network, loaded.vocabulary, described)
    found = k.CandidateScorer(model, SHORT).losses(range(SHORT.size))
    np.testing.assert_allclose(found, one_by_one(model, SHORT), rtol=0, atol=2e-5)


@pytest.mark.parametrize("small", ["_MOST_TOKENS", "_MOST_LOGITS", "_MOST_CACHED", "_MOST_SIBLINGS"])
def test_batches_change_nothing(gpt2, small, patch):
    patch.constant(shared_prefixes, small, 7 if small != "_MOST_SIBLINGS" else 2)
    texts = list(PATTERN.texts(300, 340))
    found = shared_prefix_losses(gpt2.model, gpt2.encode(texts))
    np.testing.assert_allclose(found, gpt2.losses(texts).per_record, rtol=0, atol=2e-5)


def test_any_records_may_share_prefixes(gpt2):
    """Of several lengths, twice the same, one a beginning of another."""
    texts = ["Rose", "Rose Hill", "Adam", "Rose", "Call 12 34", "Rose Hill is here", "C"]
    found = shared_prefix_losses(gpt2.model, gpt2.encode(texts))
    np.testing.assert_allclose(found, gpt2.losses(texts).per_record, rtol=0, atol=2e-5)
    # Speakers are read and not asked for, also where records part.
    spoken = [Record(texts=["Rose"], speakers=[name]) for name in ("SYS", "USR", "other", None)]
    found = shared_prefix_losses(gpt2.model, gpt2.encode(spoken))
    np.testing.assert_allclose(found, gpt2.losses(spoken).per_record, rtol=0, atol=2e-5)
    encoded = gpt2.encode([])
    assert shared_prefix_losses(gpt2.model, encoded).shape == (0,)


def test_holes_that_a_model_marks_are_encoded_by_themselves():
    model = trained("lstm", marks=True)
    pattern = Pattern.parse("R{choice:ose|uth} Hill is here")  # of which Rose is one token
    found = k.CandidateScorer(model, pattern, marks_holes=True).losses(range(2))
    np.testing.assert_allclose(found, one_by_one(model, pattern, private_chars=[(1, 4)]), rtol=0, atol=2e-5)
    assert abs(found[0] - one_by_one(model, pattern)[0]) > 0.1


@pytest.mark.parametrize("network", [None, "lstm"])
def test_ranks_are_those_of_one_by_one_scoring(network):
    """Every candidate's: both ways refine what rounding leaves open, and agree with float64 throughout."""
    model = trained(network)
    canaries = draw_canaries(np.random.default_rng(0), PATTERN, 1_000, variant="missed")
    scorer = k.CandidateScorer(model, PATTERN)
    shared = k.enumerated_ranks(scorer, canaries)
    plain = k.enumerated_ranks(scorer, canaries, one_by_one(model, PATTERN))
    assert shared == plain
    exact = scorer.losses(range(1_000), in_double=True)
    for canary in canaries:
        assert shared[canary.id] == rank_among(exact[canary.index], np.delete(exact, canary.index))
    assert sorted(rank.first for rank in shared.values()) == list(range(1, 1_001))


def test_ranks_do_not_depend_on_rounding(gpt2):
    """Noise as large as that of half precision moves rough losses past each other, and no rank."""
    canaries = draw_canaries(np.random.default_rng(0), PATTERN, 60, variant="missed")
    scorer = k.CandidateScorer(gpt2, PATTERN)
    rough = scorer.losses(range(1_000))
    noisy = rough + np.random.default_rng(1).uniform(-0.01, 0.01, size=1_000)
    assert (np.argsort(noisy) != np.argsort(rough)).any()
    assert k.enumerated_ranks(scorer, canaries, noisy) == k.enumerated_ranks(scorer, canaries, rough)


def test_a_model_that_says_the_same_of_all_ties_all(gpt2):
    class Constant:
        pattern = PATTERN

        def losses(self, indices, *, in_double=False):
            return np.full(len(indices), 3.0)

    canaries = draw_canaries(np.random.default_rng(0), PATTERN, 3, variant="missed")
    for rank in k.enumerated_ranks(Constant(), canaries).values():
        assert (rank.first, rank.last) == (1, 1_000)


def test_a_memorised_canary_comes_first_and_joins_by_identifier(gpt2):
    canaries = draw_canaries(np.random.default_rng(0), SHORT, 5, variant="missed")

    class Memorised(k.CandidateScorer):
        def losses(self, indices, *, in_double=False):
            return super().losses(indices, in_double=in_double) - 50.0 * np.isin(indices, canaries[2].index)

    ranks = k.enumerated_ranks(Memorised(gpt2, SHORT), canaries[::-1])
    assert exposure_of(ranks[canaries[2].id]).bits == pytest.approx(np.log2(100))
    assert sum(rank.first == 1 for rank in ranks.values()) == 1


def test_a_reference_model_takes_out_what_any_model_says(gpt2):
    """Target and reference are one model, but for one candidate."""
    canaries = draw_canaries(np.random.default_rng(0), SHORT, 5, variant="missed")

    class Learnt(k.CandidateScorer):
        def losses(self, indices, *, in_double=False):
            return super().losses(indices, in_double=in_double) - 0.05 * np.isin(indices, canaries[0].index)

    target, reference = Learnt(gpt2, SHORT), k.CandidateScorer(gpt2, SHORT)
    ranks = k.enumerated_ranks(k.NormalisedScorer(target, reference), canaries)
    assert ranks[canaries[0].id].last == 1
    assert k.enumerated_ranks(target, canaries)[canaries[0].id].first > 1
    other = k.CandidateScorer(gpt2, Pattern.parse("{digits:1}"))
    with pytest.raises(ConfigError, match="same form"):
        k.NormalisedScorer(target, other)


def test_losses_of_canaries_are_those_of_candidates(gpt2):
    scorer = k.CandidateScorer(gpt2, PATTERN)
    everything = scorer.losses(range(1_000))
    canaries = draw_canaries(np.random.default_rng(0), PATTERN, 3, variant="missed")
    losses = k.canary_losses(scorer, canaries)
    assert losses == pytest.approx({canary.id: everything[canary.index] for canary in canaries}, abs=1e-4)


def test_what_cannot_be_ranked_is_refused(gpt2):
    scorer = k.CandidateScorer(gpt2, PATTERN)
    others = draw_canaries(np.random.default_rng(0), Pattern.parse("{digits:2}"), 1, variant="missed")
    with pytest.raises(ConfigError, match="another form"):
        k.enumerated_ranks(scorer, others)
    (canary,) = draw_canaries(np.random.default_rng(0), PATTERN, 1, variant="missed")
    with pytest.raises(ConfigError, match="one identifier"):
        k.enumerated_ranks(scorer, [canary, canary])
    with pytest.raises(ConfigError, match="as many losses"):
        k.enumerated_ranks(scorer, [canary], np.zeros(10))
    large = Pattern.parse("{digits:9}")
    with pytest.raises(ConfigError, match="Sample them"):
        k.enumerated_ranks(k.CandidateScorer(gpt2, large), [])
    long = Pattern.parse("My ID is {digits:60}.")
    with pytest.raises(ConfigError, match="context of 48"):
        k.CandidateScorer(gpt2, long).losses([0])


def test_threads_and_blocks_change_nothing(gpt2, patch):
    patch.constant(k, "_BLOCK", 30)
    scorer = k.CandidateScorer(gpt2, SHORT, num_threads=2)
    np.testing.assert_allclose(scorer.losses(range(100)), one_by_one(gpt2, SHORT), rtol=0, atol=2e-5)
    activations = {type(module).__name__ for module in gpt2.model.modules()}
    assert "NewGELUActivation" in activations
    assert "GELU" not in activations
