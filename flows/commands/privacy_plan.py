"""``reticent privacy plan``: recommends unit, batch, steps and noise before anybody trains."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from flows.commands.privacy import SAMPLING, with_assumptions
from pipelines.errors import ConfigError, InputError
from pipelines.numbers import real
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.settings.train import TrainConfig

if TYPE_CHECKING:
    from pipelines.accounting.planning import Goal, Option, PlannedTraining

_EPSILON: Final = 3.0
_WORDS: Final = {"record": "records", "owner": "people"}
_VOCABULARY: Final = 264
"""Tokens of a vocabulary of bytes, with control tokens."""
_PUBLIC: Final = (
    "the numbers of people and records are public, or you declare them: a plan prints what you give, and a setting "
    "that follows from a private count is outside epsilon"
)
_OWNER: Final = (
    "an owner's epsilon covers all private records of one person, whatever their number; corpus.owner_from names the "
    "people, and dpsgd and crt sample them"
)
_SEVERAL: Final = (
    "g follows from the numbers of records that you gave, so these must be public or fixed beforehand; it gains up to "
    "the root of g in signal if a person's records differ and train.max_grad_norm is lowered, and costs about a tenth "
    "at most if they agree"
)
_SAMPLING_OF_PEOPLE: Final = (
    "Poisson sampling: each person enters each step on their own with the sample rate; batches of a fixed size, or a "
    "shuffled order, are not covered",
    "the mean of what a person brings to a step is clipped to the norm that the noise multiplier refers to",
    SAMPLING[-1],
)
_ESTIMATE: Final = (
    "noise figures are exact for the noise shown; what they mean for a model is an estimate from small models "
    "(docs/models.md)"
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Numbers, privacy and compute that the user gives. None stands for a value that is not given.

    Attributes:
        people, records: numbers of people and records.
        median, most: number of records that half of the people do not exceed, and that nobody exceeds.
        epsilon, delta: guarantee of the unit.
        epochs, gradients, tokens, hours: compute, in one of four ways.
        record_tokens: tokens of an average record.
        throughput: gradients of records a second.
        parameters: number of trained parameters.
    """

    people: int | None = None
    records: int | None = None
    median: int | None = None
    most: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    epochs: float | None = None
    gradients: float | None = None
    tokens: float | None = None
    hours: float | None = None
    record_tokens: float | None = None
    throughput: float | None = None
    parameters: int | None = None


def plan_document(given: Budget, config: Path | None, environ: Mapping[str, str], out: Path | None) -> dict[str, Any]:
    """Plans a training, and draws the plan if there is a file for it.

    Args:
        given: values that the user gives.
        config: settings file for what is not given; None for the defaults of settings.
        environ: environment variables that override settings.
        out: file for the picture (SVG).

    Raises:
        ConfigError: a number is missing, out of range, or contradicts another.
    """
    project = None if config is None else load_settings(config, environ)
    train = TrainConfig.model_validate({}) if project is None else cast(TrainConfig, project.stages["train"])
    given = _checked(given if project is None else _completed(given, project))
    num_records, typical = _records(given)
    from pipelines.accounting.people import person_epsilon
    from pipelines.accounting.planning import BATCH_LOSS, DROWNED, Goal, options

    goal = Goal(
        epsilon=given.epsilon or train.target_epsilon or _EPSILON,
        delta=_delta(given, train),
        gradients=_gradients(given, train, num_records),
    )
    parameters = given.parameters or num_parameters(train)
    cannot = train.method_spec().no_people
    num_people = None if cannot else given.people
    found = options(goal, num_records=num_records, num_people=num_people, records_of_a_person=typical)
    best = found[0] if given.most == 1 else found[-1]
    by_owner = best.chosen.unit == "owner"
    rows = []
    for option in found:
        chosen, of_person = option.chosen, None
        if given.people is not None:
            size = given.most if chosen.unit == "record" else 1
            if size is not None:
                of_person = goal.epsilon if size == 1 else person_epsilon(chosen.event, goal.delta, size)
        rows.append(
            {
                "name": option.name,
                "unit": chosen.unit,
                "owner_records": chosen.records_each if chosen.unit == "owner" else None,
                "expected_batch_size": chosen.batch,
                "epochs": chosen.epochs,
                "steps": chosen.steps,
                "sample_rate": chosen.sample_rate,
                "noise_multiplier": chosen.noise_multiplier,
                "noise_batch_ratio": chosen.noise_batch_ratio,
                "noise_to_signal": parameters and chosen.noise_batch_ratio * math.sqrt(parameters),
                "total_noise": chosen.total_noise,
                "epsilon_person": of_person,
                "gradients": chosen.gradients,
                "hours": None if given.throughput is None else chosen.gradients / given.throughput / 3600,
            }
        )
    if out is not None:
        _draw(found, best, DROWNED, out)
    return {
        "recommended": next(row for row, option in zip(rows, found, strict=True) if option is best),
        "options": rows,
        "epsilon": goal.epsilon,
        "delta": goal.delta,
        "people": given.people,
        "records": num_records,
        "most_records": given.most,
        "gradients": goal.gradients,
        "parameters": parameters,
        "least_total_noise": goal.least_total(best.chosen.count),
        "batch_loss": BATCH_LOSS,
        "warns_from": DROWNED,
        "warnings": _warnings(best.chosen, goal, given, cannot and f"method {train.method!r} {cannot}"),
        "settings": _settings(best.chosen, goal, is_bound=given.most == 1 and not cannot),
        "picture": None if out is None else str(out),
        "assumptions": [
            *((_OWNER,) if by_owner else ()),
            *((_SEVERAL,) if best.chosen.records_each > 1 else ()),
            _PUBLIC,
            _ESTIMATE,
            *(_SAMPLING_OF_PEOPLE if by_owner else SAMPLING),
        ],
    }


def plan_text(document: Mapping[str, Any]) -> str:
    """Formats the options in a table, then the recommended settings and the warnings."""
    people = "" if document["people"] is None else f"{document['people']:,} people, "
    lines = [
        f"epsilon {document['epsilon']:g} at delta {real(document['delta'])}: {people}{document['records']:,} records, "
        f"{document['gradients']:,.0f} gradients"
        + ("" if document["parameters"] is None else f", {document['parameters']:,} trained parameters"),
        f"  {'unit':<14} {'batch':>8} {'epochs':>6} {'steps':>8} {'noise':>7} {'noise/batch':>11} {'a step':>7} "
        f"{'total':>8} {'person':>7} {'hours':>7}",
    ]
    for row in document["options"]:
        mark = "*" if row == document["recommended"] else " "
        lines.append(
            f"{mark} {row['name']:<14} {row['expected_batch_size']:>8,} {row['epochs']:>6,} {row['steps']:>8,} "
            f"{row['noise_multiplier']:>7.3g} {row['noise_batch_ratio']:>11.2g} {_short(row['noise_to_signal'])} "
            f"{row['total_noise']:>8.2g} {_short(row['epsilon_person'])} {_short(row['hours'])}"
        )
    lines += [
        "  * recommended. noise: multiplier. noise/batch: noise of a coordinate of a step, over the largest signal.",
        "  a step: length of that noise, over the same. total: noise/batch over the root of the number of steps.",
        "  person: epsilon of a person with the most records (--most). hours: with --throughput.",
        *(f"warning: {warning}" for warning in document["warnings"]),
        "settings:",
        *(f"  {line}" for line in document["settings"].splitlines()),
    ]
    return with_assumptions(lines, document)


def _short(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.3g}':>7}"


def _completed(given: Budget, project: ProjectSettings) -> Budget:
    """Adds what the public report of the last run publishes: nothing else of the store may be printed."""
    path = project.roots()[1] / "latest" / "public_report" / "report.json"
    report = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    person, training = report.get("person") or {}, report.get("training") or {}
    return replace(
        given,
        people=given.people or person.get("num_people"),
        parameters=given.parameters or training.get("num_trained_parameters"),
    )


def _checked(given: Budget) -> Budget:
    for name, value in asdict(given).items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ConfigError(f"--{name.replace('_', '-')} must be a finite number above 0, not {value}")
    if given.people is None and given.records is None:
        raise ConfigError(
            "give --people, --records, or both, as numbers that are public or that you declare; those in a store are "
            "private counts, which a plan does not read"
        )
    if given.people is None and (given.median or given.most):
        raise ConfigError("--median and --most are about people: give --people as well")
    if given.most is not None and given.median is not None and given.median > given.most:
        raise ConfigError(f"--median is {given.median} and --most is {given.most}: half of the people cannot have more")
    people, records, most = given.people or 0, given.records, given.most
    if most is not None and records is not None and not most <= records <= most * people:
        raise ConfigError(
            f"{people:,} people with at most {most:,} records each cannot have {records:,} records: correct --people, "
            "--records or --most"
        )
    return given


def _records(given: Budget) -> tuple[int, int]:
    """Returns the number of records, and how many a drawn person can be expected to have."""
    if given.records is None:
        each = given.median or given.most or 1
        return (given.people or 0) * each, each
    mean = max(1, given.records // (given.people or given.records))
    return given.records, given.median or mean


def _delta(given: Budget, train: TrainConfig) -> float:
    """Returns a delta well below 1 / number of people (or of records)."""
    count = given.people or given.records or 1
    delta = given.delta
    if delta is None:
        delta = min(train.target_delta, 10.0 ** math.floor(math.log10(0.1 / count)))
    if delta * count >= 1:
        raise ConfigError(
            f"--delta {real(delta)} is not below 1 / {count:,}: a training that publishes one of them whole would meet "
            f"it; take {0.01 / count:.0e} or less"
        )
    return delta


def _gradients(given: Budget, train: TrainConfig, num_records: int) -> float:
    """Returns the compute in gradients of single records."""
    ways = {name: getattr(given, name) for name in ("epochs", "gradients", "tokens", "hours")}
    told = {name: value for name, value in ways.items() if value is not None}
    if len(told) > 1:
        raise ConfigError(f"the compute is given {len(told)} times; keep one of {', '.join('--' + n for n in told)}")
    if given.tokens is not None:
        if given.record_tokens is None:
            raise ConfigError("--tokens needs --record-tokens, the tokens of an average record")
        return given.tokens / given.record_tokens
    if given.hours is not None:
        if given.throughput is None:
            raise ConfigError("--hours needs --throughput, the gradients of records that a second computes")
        return given.hours * 3600 * given.throughput
    return given.gradients or (given.epochs or train.epochs) * num_records


def num_parameters(train: TrainConfig) -> int | None:
    """Returns the number of parameters of a GPT-2 from scratch; None for a model that only a run loads."""
    if train.is_pretrained() or train.architecture() != "gpt2":
        return None
    shape = train.shape()
    vocabulary = train.vocab_size if train.tokenizer_kind() == "bpe_public" else _VOCABULARY
    width = shape.embedding_size
    return (vocabulary + shape.context_length + 2) * width + shape.num_layers * (12 * width + 13) * width


def _warnings(chosen: PlannedTraining, goal: Goal, given: Budget, cannot: str | None) -> list[str]:
    from pipelines.accounting.planning import DROWNED, ENOUGH_STEPS

    found = []
    if cannot and given.people is not None:
        found.append(f"people cannot be sampled, so the plan protects a record: {cannot}")
    if chosen.total_noise >= DROWNED:
        factor = chosen.total_noise / DROWNED
        several = chosen.records_each == 1 and chosen.unit == "owner" and given.most != 1
        more = f"{math.ceil(chosen.count * factor):,} {_WORDS[chosen.unit]} in place of {chosen.count:,}"
        found.append(
            f"noise will drown the signal (an estimate): total noise is {chosen.total_noise:.2g}, and from {DROWNED:g} "
            "on small models trained from scratch lost a third to almost half of what they learn without noise beyond "
            f"the frequencies of tokens. Batch size, steps and compute hardly change it. What helps: {more}, or "
            f"epsilon {real(goal.epsilon_for(factor), 2)}, or a pretrained model, which has less to learn "
            '(train.model, perhaps with train.adaptation = "lora")'
            + (", or more epochs, which allow several records of a drawn person (train.owner_records)" * several)
        )
    if chosen.steps < ENOUGH_STEPS:
        found.append(f"only {chosen.steps:,} steps: give more compute, which allows more steps at the same total noise")
    if given.people is None:
        found.append(
            "without --people the plan protects a record, and not a person with several (`reticent privacy person`)"
        )
    return found


def _settings(chosen: PlannedTraining, goal: Goal, *, is_bound: bool) -> str:
    """Returns the tables to paste into the settings file."""
    unit = f'unit = "owner"\nowner_records = {chosen.records_each}\n' if chosen.unit == "owner" else ""
    bound = '[guarantee]\nowner_bound = 1\nowner_bound_basis = "fixed_beforehand"\n' if is_bound else ""
    needs = "# corpus.owner_from has to say whose text a document is\n" if unit or bound else ""
    return (
        f"{needs}{bound}[train]\n{unit}expected_batch_size = {chosen.batch}\nepochs = {chosen.epochs}\n"
        f"target_epsilon = {goal.epsilon:g}\ntarget_delta = {goal.delta:g}\n"
        f"# the run calibrates its own noise, about {chosen.noise_multiplier:.3g}"
    )


def _draw(found: Sequence[Option], best: Option, limit: float, out: Path) -> None:
    from pipelines.report.plan_chart import plan_chart

    def point(training: PlannedTraining) -> tuple[float, float]:
        return training.batch * training.records_each, training.total_noise

    curves = {option.name: [*map(point, option.curve)] for option in found}
    drawn = plan_chart(curves, {option.name: point(option.chosen) for option in found}, best.name, limit)
    try:
        out.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the picture cannot be written to {out} ({type(error).__name__}); choose another --out"
        ) from None
