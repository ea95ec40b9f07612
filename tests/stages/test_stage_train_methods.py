"""Every method on one small corpus: what it reads, what it publishes where, and what it says of itself."""

import json
import math

import pytest
from stage_corpora import MASK, Row, artifacts, head_of, write_corpus
from support.contexts import artifact, stage_context
from support.evaluations import figures_of
from support.tables import table_writer
from transformers import AutoModelForCausalLM

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import NeighboringRelation, NonPrivate, leaves
from pipelines.accounting.facts import parse_training
from pipelines.context import Runtime
from pipelines.errors import ConfigError, StageError
from pipelines.settings.train import TrainConfig
from pipelines.stages.train import phase1 as train_phase1
from pipelines.stages.train import train
from pipelines.training.loop import StepSettings  # noqa: F401  (torch is loaded once, before anything is timed)
from pipelines.training.models.recurrent import load_recurrent

SMALL = {
    "num_layers": 1,
    "num_heads": 2,
    "embedding_size": 24,
    "context_length": 40,
    "tokenizer": "bytes",
    "speakers": ("USR",),
    "epochs": 4,
    "jft_phase1_epochs": 3,
    "expected_batch_size": 12,
    "public_batch_size": 8,
    "private_learning_rate": 1e-2,
    "public_learning_rate": 1e-2,
    "target_epsilon": 8.0,
    "jft_phase1_target_epsilon": 0.5,
    "target_delta": 1e-3,
    "max_grad_norm": 1.0,
    "max_eval_sentences": 40,
}
NAMES = [a + b for a in ("Ab", "Cor", "Du", "El", "Fi", "Ga") for b in ("ra", "nix", "lop", "mio")]
ASKS = ["see it", "go on", "wait here", "call you"]
NOISED = {"noise_multiplier": 1.0, "target_epsilon": None}  # to find the noise of a target takes most of a training
METHODS = {
    "crt": {},
    "dpsgd": {},
    "no_dp": {},
    "redacted": {},
    "anonymized": {},
    "jft direct": {},
    "jft manual_screening": {"jft_phase1_epochs": 12, **NOISED},
    "jft light_noise": {},
    "jft conservative_light_noise": {},
    "redaction_schedule": NOISED,
    # Plain SGD needs larger steps than AdamW, and so small a corpus drowns in the noise of any useful epsilon.
    "sdpsgd_lstm": {"public_learning_rate": 1.0, "private_learning_rate": 0.1, "target_epsilon": 1e4, "epochs": 8},
}


def corpus(folder, miss_rate=0.01, is_screened=True):
    """48 sentences for training, half of them with a name, and 24 to evaluate on."""
    rows = [(f"may I {ASKS[i % 4]} now", None, "train") for i in range(24)]
    rows += [(f"I am {name}, may I {ASKS[i % 4]}", name, "train") for i, name in enumerate(NAMES)]
    rows += [(f"may I {ASKS[i % 4]} then", None, "test") for i in range(24)]
    write_corpus(folder, [Row(at, 0, text, name, "USR", None, fold) for at, (text, name, fold) in enumerate(rows)])
    counts = {"num_tokens": 288, "num_duplicate_tokens": 0, "num_masked_tokens": 24}
    (folder / "redact/figures.json").write_text(json.dumps(counts))
    rate = {"value": miss_rate, "recommended": [0.0, 2 * miss_rate]} if miss_rate is not None else None
    with table_writer(folder / "estimate/screened.parquet", "shard") as screened:
        for index, text in enumerate([f"I am {MASK}, may I {ask}" for ask in ASKS] * is_screened):
            head = head_of(Row(index, 0, text, None, "USR", None, "train"))
            screened.append(**head, redacted_text=text, num_tokens=6, num_masked_tokens=1)
    figures = {"miss_rate": rate, "is_census": False, "confidence": 0.95}
    (folder / "estimate/figures.json").write_text(json.dumps(figures))
    return artifacts(folder)


def run(folder, inputs, name, progress=None, num_processes=1, machines=None, **changes):
    """Runs the stage, and its first phase where there is one; ``progress(stage, done, total, message)`` hears of both.

    ``machines`` are settings of `Runtime`, for a training on several. As the store does it, what an attempt that died
    left in the scratch folders is handed to the next one.
    """
    method, _, variant = name.partition(" ")
    settings = {**SMALL, **METHODS.get(name, {}), "method": method, **changes}
    config = TrainConfig(**settings, **({"jft_variant": variant} if variant else {}))
    runtime = Runtime(device="cpu", num_processes=num_processes, **(machines or {}))
    common = {"seed": 3, "runtime": runtime, "failures_folder": folder / "failures"}
    common |= {"rendezvous": folder / "trainings"} if machines else {}

    def heard_in(stage):
        return {} if progress is None else {"progress": lambda *said: progress(stage, *said)}

    first = stage_context(
        "train_phase1", folder / "first", {"train": config}, inputs, **heard_in("train_phase1"), **common
    )
    train_phase1.run(first)
    ctx = stage_context(
        "train",
        folder / "private",
        {"train": config},
        {**inputs, "train_phase1": artifact("train_phase1", folder / "first")},
        **heard_in("train"),
        public_folder=folder / "public",
        scratch=folder / "scratch",
        **common,
    )
    train.run(ctx)
    return ctx


def read(ctx, name):
    return json.loads((ctx.out.folder / name).read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Runs a method once, however many tests look at it."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("method")
            made[name] = run(folder / "run", corpus(folder / "corpus"), name)
        return made[name]

    return get


SLOW = ("dpsgd", "jft direct", "jft light_noise", "jft conservative_light_noise", "redaction_schedule", "sdpsgd_lstm")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in METHODS])
def test_every_method_learns_and_says_what_it_did(finished, name):
    ctx = finished(name)
    figures = figures_of(ctx)
    assert figures["perplexity"] < 0.7 * figures["perplexity_at_initialisation"]
    facts = parse_training(read(ctx, "events.json"))
    assert facts.method == name.partition(" ")[0]
    assert facts.variant == (name.partition(" ")[2] or None)
    is_public = name not in ("no_dp", "redacted", "anonymized")
    model = (ctx.out.public_folder if is_public else ctx.out.folder) / "model"
    assert (model / "model.safetensors").is_file()
    assert is_public or not list(ctx.out.public_folder.iterdir())
    if name == "sdpsgd_lstm":
        assert load_recurrent(model).hidden_size == 200
    else:
        assert AutoModelForCausalLM.from_pretrained(model).config.n_embd == 24
    reads_everything = name.startswith(("dpsgd", "no_dp", "jft", "redaction", "sdpsgd"))
    assert facts.num_private_records == (48 if reads_everything else 24)


@pytest.mark.parametrize(
    "name", ["crt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dpsgd", "jft direct"))]
)
def test_noise_is_calibrated_to_the_target(finished, name):
    facts = parse_training(read(finished(name), "events.json"))
    found = epsilon(
        facts.event_on("original", "redacted") if name == "crt" else facts.event_on("original"),
        facts.target_delta,
        relation=NeighboringRelation.REPLACE_ONE,
    )
    assert found == pytest.approx(8.0, rel=2e-3)
    assert found <= 8.0


@pytest.mark.parametrize("name", ["no_dp", "redacted", pytest.param("jft direct", marks=pytest.mark.slow)])
def test_what_is_read_without_noise_is_recorded_so(finished, name):
    facts = parse_training(read(finished(name), "events.json"))
    assert any(isinstance(leaf, NonPrivate) for _, leaf in leaves(facts.event))


@pytest.mark.slow
def test_light_noise_is_lighter_the_fewer_are_missed_and_recorded_without_that_credit(tmp_path):
    noise = {}
    for rate in (0.01, 0.3):
        inputs = corpus(tmp_path / f"corpus{rate}", miss_rate=rate)
        facts = parse_training(read(run(tmp_path / f"run{rate}", inputs, "jft light_noise"), "events.json"))
        first, second = facts.phases
        assert (first.rows, second.rows) == ("redacted", "original")
        (_, leaf), *_ = leaves(first.event)
        assert leaf.sample_rate == pytest.approx(12 / 48)  # p, and not p times the miss rate
        noise[rate] = leaf.event.noise_multiplier
        assert facts.light_noise_miss_rate.lower == 0
        assert facts.light_noise_miss_rate.upper == pytest.approx(2 * rate)
    assert noise[0.01] < noise[0.3]


def test_light_noise_needs_a_measured_miss_rate(tmp_path):
    with pytest.raises(ConfigError, match="was not measured"):
        run(tmp_path / "run", corpus(tmp_path / "corpus", miss_rate=None), "jft light_noise")


def test_manual_screening_reads_screened_rows_and_needs_some(tmp_path, finished):
    ctx = finished("jft manual_screening")
    facts = parse_training(read(ctx, "events.json"))
    assert facts.phases[0].rows == "reviewed"
    assert facts.met == {"reviewed_rows_only"}
    with pytest.raises(ConfigError, match="review --screening"):
        run(tmp_path / "none", corpus(tmp_path / "empty", is_screened=False), "jft manual_screening")


@pytest.mark.slow
def test_conservative_light_noise_takes_what_is_masked_for_missed(finished):
    facts = parse_training(read(finished("jft conservative_light_noise"), "events.json"))
    assert facts.light_noise_miss_rate.upper == pytest.approx(24 / 288)


@pytest.mark.slow
def test_the_second_phase_starts_where_the_first_ended(tmp_path):
    inputs = corpus(tmp_path / "corpus")
    tiny_steps = {"private_learning_rate": 1e-12, "noise_multiplier": 0.0, "target_epsilon": None}
    ctx = run(tmp_path / "run", inputs, "jft direct", **tiny_steps)
    first = json.loads((tmp_path / "run/first/phase.json").read_text())
    assert figures_of(ctx)["perplexity"] == pytest.approx(first["curve"][-1]["evaluation"]["perplexity"])
    assert math.isfinite(first["curve"][-1]["public_loss"])


def test_a_first_phase_of_another_variant_is_refused(tmp_path):
    quick = {"epochs": 1, "jft_phase1_epochs": 1, "noise_multiplier": 1.0, "target_epsilon": None}
    ctx = run(tmp_path / "run", corpus(tmp_path / "corpus"), "jft direct", **quick)
    ctx.configs["train"] = TrainConfig(**{**SMALL, "method": "jft", "jft_variant": "light_noise"})
    with pytest.raises(StageError, match="phase 1 of this variant"):
        train.run(ctx)


@pytest.mark.parametrize("record", ["dialogue", "block"])
def test_other_records(tmp_path, record):
    changes = {"record": record, "sentences_per_block": 2 if record == "block" else None, "epochs": 1}
    changes |= {"noise_multiplier": 1.0, "target_epsilon": None}
    ctx = run(tmp_path / "run", corpus(tmp_path / "corpus"), "crt", **changes)
    assert parse_training(read(ctx, "events.json")).record == record


def test_repetitions_differ_in_public_randomness(tmp_path):
    inputs = corpus(tmp_path / "corpus")
    found = []
    for repetition in (0, 1):
        settings = {"epochs": 1, "repetition": repetition, "insecure_test_seed": True}
        found.append(read(run(tmp_path / str(repetition), inputs, "no_dp", **settings), "figures.json"))
    assert found[0]["perplexity_at_initialisation"] != found[1]["perplexity_at_initialisation"]


@pytest.mark.parametrize(
    ("method", "model"),
    [
        *(pytest.param(name, "lstm", marks=pytest.mark.slow) for name in ("crt", "dpsgd")),
        ("no_dp", "lstm"),
        pytest.param("dpsgd", "gru", marks=pytest.mark.slow),
        ("sdpsgd_lstm", "gru"),
    ],
)
def test_a_recurrent_network_is_a_model_like_any_other(tmp_path, method, model):
    quick = {"epochs": 2, "noise_multiplier": 1.0, "target_epsilon": None, "model": model}
    ctx = run(tmp_path / "run", corpus(tmp_path / "corpus"), method, **quick)
    figures = figures_of(ctx)
    assert figures["perplexity"] < figures["perplexity_at_initialisation"]
    loaded = load_recurrent((ctx.out.folder if method == "no_dp" else ctx.out.public_folder) / "model")
    assert (loaded.kind, loaded.embedding.num_embeddings) == (model, figures["vocab_size"])
