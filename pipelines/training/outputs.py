"""Files of a training: figures and events for the trusted side, and the model folder for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipelines import memory_files
from pipelines.accounting.events import SAME_NUMBER, SAME_NUMBER_OF_PEOPLE, to_json
from pipelines.artifacts import Target
from pipelines.dp.attach import foreign_rules
from pipelines.dp.rules import FOREIGN_RULES
from pipelines.errors import StageError
from pipelines.filled_in import mark_document, our_names, without_marks
from pipelines.methods import registry
from pipelines.training.description import describe
from pipelines.training.finished import FinishedTraining
from pipelines.training.machines.network_exchanges import EXCHANGE_NOTES
from pipelines.training.model_card import model_card
from pipelines.training.models.adaptation import count_parameters
from pipelines.training.models.recurrent import RecurrentLanguageModel, save_recurrent
from pipelines.training.models.saving import CARD, save_model
from pipelines.training.models.sources import MARKER

CURVES_NOTE = (
    "Losses and counts of private records, un-noised: a release of its own that epsilon does not cover. Keep it on "
    "the trusted side."
)


def write_outputs(run: FinishedTraining, *, private: Target, model: Target, marked: Target) -> None:
    """Writes events, figures and curves to the private side, and the model; ``marked`` takes copies for the gate.

    Raises:
        StageError: training took another number of private steps than the accountant counts.
    """
    figures = figures_document(run)
    private.json("events.json", events_document(run))
    private.json("figures.json", figures)
    private.json("curves.json", {"note": CURVES_NOTE, "epochs": run.outcome.curve})
    write_model_folder(model, run, marked)


_PUBLIC_NOTE: Final = (
    "public records are trained on without noise, sorted by a content hash and then shuffled by a public seed; "
    "which rows are public is decided by the redaction and conservative policies"
)
_PLAIN_NOTE: Final = (
    "redacted records are trained on without noise, sorted by a content hash and then shuffled by a public seed"
)


_TOKENIZER_NOTE: Final = "the tokenizer comes from {} rows only, and names of speakers and domains from {names}"
_TOKENIZER_NOTES: Final[Mapping[str, str]] = {
    "none": "the tokenizer is plain bytes and depends on no data; names of speakers and domains come from {names}",
    "elsewhere": "the tokenizer came with the model and was trained elsewhere, on none of the private records; the "
    "tokens added to it are control tokens, with names of speakers and domains from {names}",
}
_BOUND_NOTE: Final = (
    "of each person (corpus.owner_from), at most guarantee.owner_bound private records were trained on; which of them "
    "depends on their places and the store's secret, and on no text"
)
_DOMAIN_NOTE: Final = "the domain of a row is trained on, as its speaker is, and holds no secret"
_CONVERSATION_NOTE: Final = (
    "a record shows whether it begins or ends its conversation: how many sentences a conversation has is no secret"
)
_BASE_NOTE: Final = (
    "the weights that training began with ({}) were trained elsewhere, on none of the private records: epsilon bounds "
    "what this training tells of them, not what the weights held before"
)


def events_document(run: FinishedTraining) -> dict[str, Any]:
    """Returns the events and their assumptions, for the guarantee stage. Holds no epsilon of the training."""
    config, corpus, account = run.config, run.corpus, run.account
    method = registry.method(config["method"])
    vocabulary = corpus.vocabulary
    notes = [
        SAME_NUMBER if corpus.owners is None else SAME_NUMBER_OF_PEOPLE,
        *([_PUBLIC_NOTE] if method.trains_on_public_rows else [_PLAIN_NOTE] if len(corpus.nonprivate_examples) else []),
        "of the training, only the final weights are released; checkpoints, losses, figures and curves are not, and "
        "epsilon does not cover them",
        "an interrupted run resumes from its last checkpoint with fresh samples and noise; this is one release if "
        "the interruption did not depend on the lost weights",
        "the random number generators (Philox for samples, AES for noise, both keyed by the operating system) and "
        "floating-point noise are taken for ideal ones",
        _TOKENIZER_NOTES.get(vocabulary.trained_on, _TOKENIZER_NOTE).format(
            vocabulary.trained_on, names="public rows and settings" if method.view.learns_words else "settings only"
        ),
        *([_BASE_NOTE.format(run.base)] if run.base is not None else []),
        *([_BOUND_NOTE] if corpus.owner_bound is not None else []),
        *([_DOMAIN_NOTE] if vocabulary.control.other_domain is not None else []),
        *([_CONVERSATION_NOTE] if vocabulary.control.conversation_end is not None else []),
        *([FOREIGN_RULES.format(", ".join(foreign))] if (foreign := foreign_rules(run.network)) else []),
        *(EXCHANGE_NOTES[exchange] for exchange in run.network_exchanges),
        *method.notes,
        *run.warnings,
    ]
    document: dict[str, Any] = {
        "schema_version": 1,
        "method": config["method"],
        "record": run.unit,
        "num_private_records": run.num_private,
        "num_public_records": run.num_public,
        "event": to_json(account.event),
        "target_delta": config["target_delta"],
        "target_epsilon": config["target_epsilon"] if run.planned_steps else None,
        "relation": "replace_one",
        "max_grad_norm": config["max_grad_norm"],
        "insecure_test_seed": config["insecure_test_seed"],
        "tokenizer": {"kind": vocabulary.kind, "trained_on": vocabulary.trained_on},
        "public_order": account.public_order or corpus.nonprivate_order,
        "typed_masks": bool(vocabulary.control.typed_masks),
        "reads_places": vocabulary.control.conversation_start is not None,
        "preconditions": dict.fromkeys(account.preconditions, True),
        "assumption_notes": notes,
    }
    if run.outcome.num_comparisons is not None:
        document["num_comparisons"] = run.outcome.num_comparisons
    if corpus.owners is not None:
        document["owner_records"] = corpus.owners.records_each
    if corpus.owner_bound is not None:
        document["owner_bound"] = corpus.owner_bound
    if account.variant is not None:
        document["variant"] = account.variant
    if account.phases:
        document["phases"] = [{"name": n, "rows": rows, "event": to_json(e)} for n, rows, e in account.phases]
    if account.light_noise_miss_rate is not None:
        document["light_noise_miss_rate"] = dict(account.light_noise_miss_rate)
    return document


def figures_document(run: FinishedTraining) -> dict[str, Any]:
    """Returns the report's figures of the training. Private, because it counts records.

    `scoring.figures` has the figures of the model's quality.

    Raises:
        StageError: training took another number of private steps than the accountant counts.
    """
    if run.outcome.num_steps != run.planned_steps:
        raise StageError(
            f"training took {run.outcome.num_steps} private steps, and {run.planned_steps} are accounted for. Nothing "
            "is published. Run train again"
        )
    corpus, config = run.corpus, run.config
    return {
        "method": config["method"],
        "variant": run.account.variant,
        "task": config["task"],
        "record": run.unit,
        "perplexity_at_initialisation": run.before.perplexity,
        "accuracy_at_initialisation": run.before.accuracy,
        "base_model": run.base,
        "adaptation": config["adaptation"] if run.base is not None else "scratch",
        **dict(zip(("num_trained_parameters", "num_parameters"), count_parameters(run.network), strict=True)),
        "vocab_size": corpus.vocabulary.backend.get_vocab_size(),
        "tokenizer": corpus.vocabulary.kind,
        "num_public_records": run.num_public,
        "num_private_records": run.num_private,
        "num_all_mask_records": int((corpus.private_examples.num_targets == 0).sum()),
        "num_truncated_records": corpus.nonprivate_examples.num_truncated + corpus.private_examples.num_truncated,
        "num_steps": run.outcome.num_steps,
        "sample_rate": run.sample_rate,
        "noise_multiplier": run.noise_multiplier,
        "epochs": config["epochs"],
        "warnings": run.warnings,
    }


_CHOICES: Final = ("method", "task", "vocabulary", "trained_on")
"""What the description of a model chooses among fixed words."""


def write_model_folder(model: Target, run: FinishedTraining, marked: Target) -> None:
    """Writes weights, config, tokenizer, what is to be known of the encoding, and model card.

    `pipelines.training.trained.open_trained` reads the folder. The ``Auto`` classes of ``transformers`` read it too,
    unless it holds an LSTM or a GRU.
    """
    tokenizer, context_length = run.corpus.vocabulary.tokenizer, run.context_length
    with memory_files.writable(model.folder) as folder:
        if isinstance(run.network, RecurrentLanguageModel):
            save_recurrent(run.network, folder)
            tokenizer.model_max_length = context_length
            tokenizer.save_pretrained(folder)
        else:
            save_model(run.network, tokenizer, folder, context_length=context_length)
    description, card = describe(run), model_card(run)
    model.json(MARKER, description)
    model.text(CARD, without_marks(card))
    marked.json(MARKER, mark_document(description, dict.fromkeys(_CHOICES, our_names())))
    marked.text(CARD, card)
