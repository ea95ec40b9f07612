"""Model cards, and what a training says of itself in the report."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, Final

import torch

from flows.own_words.variants import choices
from pipelines.accounting.events import NonPrivate
from pipelines.context import Spent
from pipelines.dp.rules import FOREIGN_RULES
from pipelines.gate.files import json_units
from pipelines.gate.own import HOLE
from pipelines.mask import MASK
from pipelines.methods.registry import METHODS
from pipelines.settings.train import TrainConfig
from pipelines.training.data.control import (
    BOS,
    CONVERSATION_END,
    CONVERSATION_START,
    EOS,
    OTHER_DOMAIN,
    OTHER_SPEAKER,
    ControlTokens,
)
from pipelines.training.description import describe
from pipelines.training.finished import warnings_about
from pipelines.training.machines.network_exchanges import EXCHANGE_NOTES, NetworkExchange
from pipelines.training.model_card import model_card
from pipelines.training.models.lstm import LSTMLanguageModel
from pipelines.training.models.sources import THE_FOLDER, WHEELS
from pipelines.training.outputs import events_document
from pipelines.training.scoring.evaluation import REASONS, Evaluation, unscored
from pipelines.training.scoring.figures import figures_document
from pipelines.training.scoring.text_metrics import ADVICE, MATCHING, TextScores
from pipelines.training.tasks.registry import TASKS
from pipelines.training.tasks.spec import ClassificationSettings
from pipelines.training.tasks.templates import TEMPLATES

_HEADS: Final = ("causal", "masked", "classification")
_BASES: Final = (HOLE, THE_FOLDER, *WHEELS)
_SPENT: Final = (
    None,
    *(Spent(num_earlier=number, epsilon=epsilon, delta=1e-6) for number in (0, 1, 2) for epsilon in (1.5, math.inf)),
)
_SCORED: Final = Evaluation(
    perplexity=9.5,
    perplexity_per_word=9.5,
    loss=2.5,
    loss_standard_error=0.5,
    next_token_accuracy=0.5,
    num_sentences=3,
    num_tokens=30,
    reason=None,
)
_CONTROLS: Final = (
    ControlTokens(pad=0, bos=1, eos=2, mask=None, speakers={}, other_speaker=None),
    ControlTokens(pad=0, bos=1, eos=2, mask=3, speakers={}, other_speaker=4, domains={}, other_domain=5),
    ControlTokens(
        pad=0,
        bos=1,
        eos=2,
        mask=3,
        speakers={"a": 4, "b": 5},
        other_speaker=6,
        domains={"a": 7},
        other_domain=8,
        conversation_start=9,
        conversation_end=10,
        asks_for_mask=True,
    ),
)


def texts() -> Iterator[str]:
    """Cards of all methods, tasks and kinds of models, and what stands beside them in ``reticent.json``."""
    for run in runs():
        yield model_card(run)
        yield from (unit.text for unit in json_units(describe(run)))


@functools.cache
def notes_of_training() -> tuple[str, ...]:
    """What any training hands to its claims as assumptions of its own."""
    found: dict[str, None] = {FOREIGN_RULES.format(HOLE): None}
    for run in runs():
        found.update(dict.fromkeys(events_document(run)["assumption_notes"]))
    return tuple(found)


def runs() -> Iterator[Any]:
    """Trainings of which cards and reports are made; each has what those look at (`pipelines.training.outputs.Run`)."""
    fields = TrainConfig.model_fields
    for method, base in itertools.product(METHODS, (None, *_BASES)):
        yield _run(method, base=base)
        for trained_on, has_public in itertools.product(("public", "none", "elsewhere"), (False, True)):
            yield _run(method, base=base, trained_on=trained_on, has_public=has_public)
        for target_epsilon, spent in itertools.product((None, 3.0), _SPENT):
            yield _run(method, base=base, target_epsilon=target_epsilon, spent=spent)
    for task, control in itertools.product(TASKS, _CONTROLS):
        for template in (None, HOLE, *TEMPLATES) if task == "classification" else (None,):
            yield _run(task=task, control=control, template=template)
    for adaptation in choices(fields["adaptation"].annotation):
        yield _run(adaptation=adaptation, base=HOLE)
    for kind in set(choices(fields["tokenizer"].annotation)) - {"auto"}:
        yield _run(kind=kind)
    for head, has_prefix in itertools.product(_HEADS, (False, True)):
        yield _run(head=head, has_prefix=has_prefix)
    yield _run(is_lstm=True)
    yield _run(network_exchanges=tuple(EXCHANGE_NOTES))


def evaluations() -> Iterator[dict[str, Any]]:
    """What finished models score, as the report reads it."""
    cases = [(_SCORED, scores) for scores in ({}, *_scores())] + [(found, {}) for found in _evaluations()]
    for found, scores in cases:
        yield figures_document(found, scores, evaluate_fold="test", num_available=1)


def _run(
    method: str = "crt",
    *,
    base: str | None = None,
    trained_on: str = "none",
    has_public: bool = False,
    task: str = "language_modelling",
    control: ControlTokens = _CONTROLS[1],
    template: str | None = None,
    adaptation: str = "full",
    kind: str = "bytes",
    head: str = "causal",
    has_prefix: bool = False,
    is_lstm: bool = False,
    target_epsilon: float | None = 3.0,
    spent: Spent | None = None,
    network_exchanges: tuple[NetworkExchange, ...] = (),
) -> Any:
    """What `pipelines.training.outputs` looks at in a run; nothing was trained."""
    written = _written(control)
    vocabulary = SimpleNamespace(
        tokenizer=SimpleNamespace(convert_ids_to_tokens=lambda number: written.get(number, HOLE)),
        backend=SimpleNamespace(get_vocab_size=lambda: 100),
        control=control,
        kind=kind,
        trained_on=trained_on,
    )
    is_own = template == HOLE
    return SimpleNamespace(
        task=ClassificationSettings.model_construct(
            template=HOLE + "{first}{blank}" if is_own else template,
            classes=(HOLE, HOLE * 2) if is_own else (),
            label_words=(HOLE, HOLE * 2) if is_own else (),
        ),
        config={
            "method": method,
            "task": task,
            "record": HOLE,
            "adaptation": adaptation,
            "target_epsilon": target_epsilon,
            "target_delta": 1e-6,
            "max_grad_norm": 1.0,
            "insecure_test_seed": True,
            "epochs": 1,
        },
        corpus=SimpleNamespace(
            vocabulary=vocabulary,
            nonprivate_examples=_Records(range(has_public)),
            private_examples=_Records(),
            nonprivate_order="content_hash",
        ),
        account=SimpleNamespace(
            event=NonPrivate(),
            variant=None,
            phases=(),
            preconditions=(),
            public_order=None,
            light_noise_miss_rate=None,
        ),
        network=_network(is_lstm=is_lstm, has_prefix=has_prefix),
        network_exchanges=network_exchanges,
        base=base,
        head=head,
        spent=spent,
        num_private=1,
        num_public=1,
        planned_steps=1,
        sample_rate=0.1,
        noise_multiplier=1.0,
        outcome=SimpleNamespace(num_steps=1, num_comparisons=1),
        before=_SCORED,
        context_length=128,
        warnings=warnings_about(
            num_private=1, target_delta=1.0, insecure_test_seed=True, noise_multiplier=0.0, unprotected_by="no_dp"
        ),
    )


class _Records(tuple[int, ...]):
    """Records of a shard."""

    num_truncated = num_without_targets = 0


def _evaluations() -> Iterator[Evaluation]:
    yield from map(unscored, (HOLE, *REASONS.values()))
    accuracy: dict[str, Any] = {"accuracy": 0.5, "accuracy_standard_error": 0.1, "accuracy_by_class": {HOLE: 0.5}}
    yield replace(unscored(REASONS["classification"]), num_sentences=4, **accuracy)


def _scores() -> Iterator[dict[str, Any]]:
    numbers = {field.name: 0.5 for field in fields(TextScores)}
    missing = {"bleu": f"{HOLE} is not installed; {ADVICE}"}
    for matching in MATCHING:
        found: dict[str, Any] = {**numbers, "meteor_matching": matching, "num_outputs": 1, "missing": missing}
        yield {**TextScores(**found).as_json(), "num_available": 2}


def _written(control: ControlTokens) -> dict[int | None, str]:
    """How our own control tokens are written; names that were made tokens are not ours."""
    return {
        control.bos: BOS,
        control.eos: EOS,
        control.mask: MASK,
        control.other_speaker: OTHER_SPEAKER,
        control.other_domain: OTHER_DOMAIN,
        control.conversation_start: CONVERSATION_START,
        control.conversation_end: CONVERSATION_END,
    }


def _network(*, is_lstm: bool, has_prefix: bool) -> Any:
    """A model as far as a card looks at it: the name of its class, and whether it has a prefix."""
    if is_lstm:
        network = LSTMLanguageModel.__new__(LSTMLanguageModel)
        torch.nn.Module.__init__(network)
        return network
    network = type(HOLE, (), {"parameters": lambda _: (), "modules": lambda _: ()})()
    network.peft_config = {"default": SimpleNamespace(is_prompt_learning=has_prefix)}
    network.active_adapter = "default"
    return network
