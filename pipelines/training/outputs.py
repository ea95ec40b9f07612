"""The files of a training run: figures and events for the trusted side, the model folder for everybody."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import GPT2LMHeadModel

from pipelines.errors import StageError
from pipelines.training.corpus import TrainingCorpus
from pipelines.training.engine.sampling import PrivatePlan
from pipelines.training.evaluation import Evaluation
from pipelines.training.model import save_model
from pipelines.training.tokenizer import loadable

CURVES_NOTE = (
    "Losses and counts of private records, un-noised: a release of its own that epsilon does not cover. Keep it on "
    "the trusted side."
)
EVALUATED_ON = (
    "original (unredacted) sentences of the held-out fold, which are taken to be public, as in JFT, appendix A.2; "
    "figures on them are no part of the guarantee if they are not"
)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON file whose bytes depend on the value only."""
    path.write_text(json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def warnings_about(
    *, num_private: int, target_delta: float, insecure_test_seed: bool, noise_multiplier: float | None
) -> list[str]:
    """What the trusted side should hear loudly about a run."""
    found = []
    if num_private and target_delta >= 1 / num_private:
        found.append(
            f"target_delta {target_delta:g} is not below 1/{num_private}, one over the number of private records: "
            "a mechanism that publishes one random record would satisfy it. Lower train.target_delta."
        )
    if insecure_test_seed:
        found.append("insecure_test_seed is on: samples and noise can be repeated by anyone, so no guarantee holds.")
    if noise_multiplier == 0:
        found.append("noise_multiplier is 0: private records are trained on without protection.")
    return found


def events_document(
    *,
    method: str,
    event: Mapping[str, Any],
    corpus: TrainingCorpus,
    target_delta: float,
    target_epsilon: float | None,
    max_grad_norm: float,
    insecure_test_seed: bool,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """What the guarantee stage reads: the event, and what it rests on. Holds no epsilon that training computed."""
    learnt = corpus.tokenizer_trained_on != "none"
    notes = [
        "the number of private records is the same in neighbouring data sets (one record is replaced), so the "
        "sampling rate and the number of steps may depend on it",
        "public records are trained on without noise, sorted by a content hash and then shuffled by a public seed; "
        "which rows are public is decided by the redaction and conservative policies",
        "only the final weights are released; checkpoints, losses, figures and curves are not, and epsilon does not "
        "cover them",
        "an interrupted run resumes from its last checkpoint with fresh samples and noise; this is one release if "
        "the interruption did not depend on the lost weights",
        "hyper-parameters were not chosen by looking at private data",
        "the random number generator (Philox, keyed by the operating system) and floating-point noise are taken "
        "for ideal Gaussian noise",
        f"the tokenizer and the speaker names come from {corpus.tokenizer_trained_on} rows and settings only"
        if learnt
        else "the tokenizer is plain bytes and depends on no data; speaker names come from public rows and settings",
        *warnings,
    ]
    return {
        "schema_version": 1,
        "method": method,
        "record": "sentence",
        "num_private_records": len(corpus.private),
        "num_public_records": len(corpus.public),
        "event": dict(event),
        "target_delta": target_delta,
        "target_epsilon": target_epsilon,
        "relation": "replace_one",
        "max_grad_norm": max_grad_norm,
        "insecure_test_seed": insecure_test_seed,
        "tokenizer": {"kind": corpus.tokenizer_kind, "trained_on": corpus.tokenizer_trained_on},
        "public_order": corpus.public_order,
        "assumption_notes": notes,
    }


def figures_document(
    *,
    method: str,
    corpus: TrainingCorpus,
    before: Evaluation,
    after: Evaluation,
    plan: PrivatePlan,
    noise_multiplier: float | None,
    epochs: int,
    num_steps: int,
    num_parameters: int,
    vocab_size: int,
    evaluate_fold: str,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """What the report reads. Private: it counts private records.

    Raises:
        StageError: training took another number of private steps than the one that is accounted for.
    """
    if num_steps != plan.num_steps:
        raise StageError(
            f"training took {num_steps} private steps, and {plan.num_steps} are accounted for; nothing is published. "
            "Run train again"
        )
    return {
        "method": method,
        "perplexity": after.perplexity,
        "perplexity_per_word": after.perplexity_per_word,
        "perplexity_at_initialisation": before.perplexity,
        "perplexity_reason": after.reason,
        "loss_per_token": after.loss,
        "loss_per_token_standard_error": after.loss_standard_error,
        "next_token_accuracy": after.next_token_accuracy,
        "evaluate_fold": evaluate_fold,
        "evaluated_on": EVALUATED_ON,
        "num_eval_sentences": after.num_sentences,
        "num_eval_sentences_available": corpus.held_out.num_available,
        "num_eval_tokens": after.num_tokens,
        "num_parameters": num_parameters,
        "vocab_size": vocab_size,
        "tokenizer": corpus.tokenizer_kind,
        "num_public_records": len(corpus.public),
        "num_private_records": len(corpus.private),
        "num_all_mask_records": corpus.private.num_without_targets,
        "num_truncated_records": corpus.public.num_truncated + corpus.private.num_truncated,
        "num_steps": num_steps,
        "sample_rate": plan.sample_rate,
        "noise_multiplier": noise_multiplier,
        "epochs": epochs,
        "warnings": list(warnings),
    }


def write_model_folder(
    folder: Path,
    model: GPT2LMHeadModel,
    corpus: TrainingCorpus,
    *,
    method: str,
    target_epsilon: float | None,
    target_delta: float,
    context_length: int,
) -> None:
    """Writes weights, config, tokenizer and model card; the ``Auto`` classes of ``transformers`` load the folder."""
    save_model(model, loadable(corpus.tokenizer, context_length), folder)
    card = model_card(
        method=method,
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        speakers=corpus.speakers,
        context_length=context_length,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def model_card(
    *, method: str, target_epsilon: float | None, target_delta: float, speakers: Sequence[str], context_length: int
) -> str:
    """The README of the model folder. It is published, so it states settings only, nothing that was counted."""
    goal = (
        f"calibrated for ε = {target_epsilon:g} at δ = {target_delta:g}" if target_epsilon else "at a set noise level"
    )
    tags = ", ".join(f"`<{name}>`" for name in speakers) or "none"
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---
# A language model trained with Reticent

A small GPT-2, trained from scratch with the method `{method}`: AdamW on public text and DP-AdamW on redacted private
text, {goal} (neighbouring relation: one private record replaced). What this promises, and under which assumptions, is
stated in the report of the run that made it, not here.

Load it with `AutoModelForCausalLM.from_pretrained(FOLDER)` and `AutoTokenizer.from_pretrained(FOLDER)`.

* One record is `<BOS>`, the speaker's token where there is one, the text, `<EOS>`; no blank between them. The tokenizer
  adds none of these by itself.
* Speakers: {tags}. Any other speaker: `<SPEAKER>`.
* `<MASK>` stands for a redacted run of text. The model read it and was never trained to write it.
* At most {context_length} tokens.
* The vocabulary was learnt on public text only, or is plain bytes.
"""
