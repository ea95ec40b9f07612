"""Audit: what the attacks found, and lower bounds on epsilon beside what the accountant says of the same training."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import NeighboringRelation, adds_no_noise, from_json, is_silent
from pipelines.attacks.conformance import combined
from pipelines.attacks.engine_power import measured_power
from pipelines.attacks.epsilon_comparison import ClaimedProfile, claim_p_value
from pipelines.attacks.epsilon_estimates import EstimatorName, epsilon_estimates
from pipelines.attacks.epsilon_trials import Trials
from pipelines.attacks.sequential_test import SequentialTest
from pipelines.attacks.summary import (
    ACROSS_DOMAINS,
    LEFT_OPEN,
    PEOPLE,
    estimates_shown,
    extraction_summary,
    membership_summary,
)
from pipelines.context import StageContext
from pipelines.settings.audit import AuditConfig, records_of_person
from pipelines.stages.audit.canaries import EXPOSURES
from pipelines.stages.audit.canary_table import CANARIES
from pipelines.stages.audit.other_recipe import note_of_other_recipe
from pipelines.stages.audit.person import person_document, why_no_people
from pipelines.stages.audit.steps import played_games

SCHEMA_VERSION: Final = 1
ESTIMATOR: Final[EstimatorName] = "f_dp"
"""The estimator whose bound is shown first, because it assumes only fair coins. It is fixed before any result."""
_ATTACKED_VARIANT: Final = "missed"
MODEL: Final = "the audit's model"
"""The name in the report of the attacked model; the method's steps are the other target."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``audit.json``: figures of all attacks, bounds on epsilon, and whether they refute the claim. Private."""
    # Identifiers of games are as fresh as their coins: evidence of several nights counts each coin once.
    rng = np.random.default_rng(ctx.seed if ctx.configs["train"].insecure_test_seed else None)
    attacks = {
        name: ctx.input(f"audit_{stage}").json(f"{name}.json")
        for name, stage in (("membership", "membership"), ("extraction", "extraction"), ("exposure", "canaries"))
    }
    not_attacked = {name: document["not_attacked"] for name, document in attacks.items() if "not_attacked" in document}
    domains = ctx.input("audit_domains").json("domains.json") if "audit_domains" in ctx.inputs else None
    if domains is None:
        not_attacked["domains"] = "audit.domains is off; it trains one more model for each domain"
    secrets = ctx.input("audit_secrets").json("secrets.json") if "audit_secrets" in ctx.inputs else None
    if secrets is None:
        not_attacked["secrets"] = "audit.num_secrets is 0"
    elif "not_attacked" in secrets:
        not_attacked["secrets"] = secrets["not_attacked"]
    games: list[AuditedGame] = []
    if is_silent(from_json(ctx.input("audit_model").json("events.json")["event"])):
        not_attacked["epsilon"] = "the training touched no private record"
    else:
        if "exposure" in not_attacked:
            not_attacked["epsilon"] = not_attacked["exposure"]
        else:
            games.append(_attack_on_model(ctx, rng))
        on_steps, not_played = _games_on_steps(ctx, rng)
        games += on_steps
        if not_played is not None:
            not_attacked["steps"] = not_played
        if records_of_person(ctx.configs) is not None and not any(game.person for game in games):
            not_attacked["person"] = not_played or why_no_people(ctx.configs["train"])
    of_model = note_of_other_recipe(ctx, "audit_model", MODEL)
    of_domains = None if domains is None else domains.get("other_recipe")
    # Games on steps come first: they are the stronger tests, and the stake falls from one game to the next.
    evidence = [(game.identifier, game.p_value) for game in reversed(games) if game.p_value is not None]
    # This is the evidence of this audit alone. The ledger keeps that of all nights (`flows.running.auditing`).
    state = SequentialTest()
    for identifier, p_value in evidence:
        state = state.after(identifier, p_value)
    document = {
        "schema_version": SCHEMA_VERSION,
        "exposure": None if "exposure" in not_attacked else attacks["exposure"],
        "membership": None if "membership" in not_attacked else membership_summary(attacks["membership"]),
        "extraction": None if "extraction" in not_attacked else extraction_summary(attacks["extraction"]),
        "domains": domains,
        "secrets": None if "secrets" in not_attacked else secrets,
        **_lower_bound(None if "epsilon" in not_attacked else games[0]),
        "estimates": estimates_shown(
            [(game.name, game.claimed, game.estimates) for game in games if game.person is None]
        ),
        "person": [game.person for game in games if game.person is not None],
        "evidence": [{"audit": identifier, "p_value": p_value} for identifier, p_value in evidence],
        "p_value": min(1.0, len(evidence) * min(p for _, p in evidence)) if evidence else None,
        "alarm": state.is_alarm,
        "attacked": [game.attacked for game in games if game.attacked is not None],
        "power": _power(ctx) if any(game.attacked for game in games) else None,
        "not_attacked": not_attacked,
        "left_open": [
            *LEFT_OPEN,
            *(() if attacks["membership"].get("person") else (PEOPLE,)),
            *((ACROSS_DOMAINS,) if domains is None else ()),
            *(note for note in (of_model, of_domains) if note is not None),
        ],
    }
    ctx.out.json("audit.json", document)
    lower = document["epsilon_lower"]
    return {"epsilon_lower": lower["value"] if lower else None, "epsilon_claimed": document["epsilon_claimed"]}


@dataclass(frozen=True, kw_only=True)
class AuditedGame:
    """The result of one game of coins.

    Attributes:
        name: name of the game in reports.
        identifier: identifier of the coins; evidence of the same coins counts once.
        claimed: the accountant's epsilon of what was attacked, for the game's relation, delta and group size; None
            where nothing finite is claimed.
        estimates: documents of the lower bounds; the report shows the first one first.
        p_value: p-value of the claim; None without a claim.
        attacked: code and method that were attacked, with the p-value of each test; None for a model.
        person: bound and epsilons of a game on people (`pipelines.stages.audit.person`); None if it is on records.
    """

    name: str
    identifier: str
    claimed: float | None
    estimates: Sequence[Mapping[str, Any]]
    p_value: float | None
    attacked: Mapping[str, Any] | None = None
    person: Mapping[str, Any] | None = None


def _power(ctx: StageContext) -> dict[str, Any] | None:
    """Returns how often faults of such steps were caught (`pipelines.attacks.engine_power`), if it was measured."""
    config = ctx.configs["train"]
    takes_spans: bool = config.method_spec().needs_lstm
    if takes_spans and config.architecture() != "lstm":
        return None
    return measured_power(ctx.configs["audit"].num_trials, takes_spans=takes_spans)


def _lower_bound(attack: AuditedGame | None) -> dict[str, Any]:
    if attack is None:
        return {"epsilon_lower": None, "epsilon_claimed": None}
    keys = ("value", "confidence", "delta", "relation", "estimator", "ceiling")
    return {"epsilon_lower": {name: attack.estimates[0][name] for name in keys}, "epsilon_claimed": attack.claimed}


def _attack_on_model(ctx: StageContext, rng: np.random.Generator) -> AuditedGame:
    """Guesses from losses which canaries the audit's own model was trained on."""
    config: AuditConfig = ctx.configs["audit"]
    events = ctx.input("audit_model").json("events.json")
    event, delta, relation = from_json(events["event"]), events["target_delta"], NeighboringRelation.ADD_OR_REMOVE_ONE
    identifier, trials = _trials(ctx)
    # All copies are one person's. An epsilon of single records does not bound a coin that adds several records.
    size = 1 if ctx.configs["train"].by_owner() else config.copies
    estimates = epsilon_estimates(trials, delta=delta, confidence=config.confidence, rng=rng, group_size=size)
    is_claimed = size == 1 and not adds_no_noise(event)
    return AuditedGame(
        name=MODEL,
        identifier=identifier,
        claimed=epsilon(event, delta, relation) if is_claimed else None,
        estimates=[estimates[name].document() for name in sorted(estimates, key=lambda name: name != ESTIMATOR)],
        p_value=claim_p_value(trials, ClaimedProfile.of(event, relation), rng=rng) if is_claimed else None,
    )


def _trials(ctx: StageContext) -> tuple[str, Trials]:
    """Returns the scores of the canaries that no policy found, with an identifier of their coins.

    A score is the loss of the released model on a canary, minus the loss of the audit's model. The identifier is a
    digest of the canaries' names, which are random and differ between trainings.
    """
    rows = ctx.input("audit_canaries").table(EXPOSURES).rows(("canary_id", "variant", "loss", "loss_released"))
    scores = {
        row["canary_id"]: row["loss_released"] - row["loss"] for row in rows if row["variant"] == _ATTACKED_VARIANT
    }
    coins = {
        row["canary_id"]: row["is_included"]
        for row in ctx.input("audit_model").table(CANARIES).rows(("canary_id", "variant", "is_included"))
        if row["variant"] == _ATTACKED_VARIANT
    }
    return hashlib.sha256("\n".join(sorted(coins)).encode()).hexdigest(), Trials.joined(scores, coins)


def _games_on_steps(ctx: StageContext, rng: np.random.Generator) -> tuple[list[AuditedGame], str | None]:
    """Plays the games on the method's noised steps (`pipelines.stages.audit.steps`); says why one was not played."""
    config: AuditConfig = ctx.configs["audit"]
    delta = ctx.input("audit_model").json("events.json")["target_delta"]
    games, not_played = played_games(ctx)
    audited = []
    for game, played in games:
        found = {estimate.estimator: estimate for estimate in played.estimates(delta, config.confidence, rng)}
        tests = played.p_values(rng)
        p_value = combined(tests.values())
        audited.append(
            AuditedGame(
                name=game.name,
                identifier=rng.bytes(32).hex(),
                claimed=played.claimed(delta),
                estimates=[estimate.document() for estimate in found.values()],
                p_value=p_value,
                person=None
                if game.person_records is None
                else person_document(game, played, found[ESTIMATOR].document(), delta),
                attacked={
                    "game": game.name,
                    "method": game.method,
                    "code": game.path,
                    "noise_multiplier": game.noise_multiplier,
                    "sample_rate": game.sample_rate,
                    "num_processes": ctx.runtime.num_processes,
                    "p_value": p_value,
                    "tests": [{"name": name, "p_value": value} for name, value in tests.items()],
                },
            )
        )
    return audited, not_played
