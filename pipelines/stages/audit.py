"""Audit: what the attacks found, and lower bounds on epsilon beside what the accountant says of the same training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipelines.context import StageContext
from pipelines.stages.audit_config import AuditConfig

if TYPE_CHECKING:
    import numpy as np

    from pipelines.attacks.epsilon_trials import Trials

SCHEMA_VERSION: Final = 1
ESTIMATOR: Final = "f_dp"
"""The estimator whose bound is shown first: it supposes nothing but fair coins. Fixed, whatever the others give."""
_ATTACKED_VARIANT: Final = "missed"


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``audit.json``: figures of all attacks, bounds on epsilon, and whether they refute the claim. Private."""
    import numpy as np

    from pipelines.accounting.events import from_json, is_silent
    from pipelines.attacks.nights import Nights
    from pipelines.attacks.summary import ACROSS_DOMAINS, LEFT_OPEN, extraction_summary, membership_summary

    # Coins of the game on the engine are fresh, or what several nights say together would count one coin twice.
    rng = np.random.default_rng(ctx.seed if ctx.configs["train"].insecure_test_seed else None)
    found = {
        name: ctx.input(f"audit_{stage}").json(f"{name}.json")
        for name, stage in (("membership", "membership"), ("extraction", "extraction"), ("exposure", "canaries"))
    }
    not_attacked = {name: document["not_attacked"] for name, document in found.items() if "not_attacked" in document}
    domains = ctx.input("audit_domains").json("domains.json") if "audit_domains" in ctx.inputs else None
    if domains is None:
        not_attacked["domains"] = "audit.domains is off; it trains one more model for each domain"
    bounds: Mapping[str, Any] = {}
    if "exposure" in not_attacked:
        not_attacked["epsilon"] = not_attacked["exposure"]
    elif is_silent(from_json(ctx.input("audit_model").json("events.json")["event"])):
        not_attacked["epsilon"] = "the training touched no private record"
    else:
        bounds = _bounds(ctx, rng)
    p_value = bounds.get("p_value")
    # What several nights say together, the ledger keeps (`flows.running.auditing`).
    alarm = p_value is not None and Nights().after(ctx.stage, p_value).is_alarm
    document = {
        "schema_version": SCHEMA_VERSION,
        "exposure": None if "exposure" in not_attacked else found["exposure"],
        "membership": None if "membership" in not_attacked else membership_summary(found["membership"]),
        "extraction": None if "extraction" in not_attacked else extraction_summary(found["extraction"]),
        "domains": domains,
        "epsilon_lower": None,
        "epsilon_claimed": None,
        "estimates": [],
        "p_value": None,
        **bounds,
        "alarm": alarm,
        "not_attacked": not_attacked,
        "left_open": [*LEFT_OPEN, *((ACROSS_DOMAINS,) if domains is None else ())],
    }
    ctx.out.json("audit.json", document)
    lower = document["epsilon_lower"]
    return {"epsilon_lower": lower["value"] if lower else None, "epsilon_claimed": document["epsilon_claimed"]}


def _bounds(ctx: StageContext, rng: np.random.Generator) -> dict[str, Any]:
    """Of the audit's own training, and of a game on the engine with its noise."""
    from pipelines.accounting.accountants import epsilon
    from pipelines.accounting.events import NeighboringRelation, adds_no_noise, from_json
    from pipelines.attacks.epsilon_comparison import ClaimedProfile, claim_p_value
    from pipelines.attacks.epsilon_estimates import epsilon_estimates
    from pipelines.attacks.summary import estimates_shown

    config: AuditConfig = ctx.configs["audit"]
    events = ctx.input("audit_model").json("events.json")
    event, delta, relation = from_json(events["event"]), events["target_delta"], NeighboringRelation.ADD_OR_REMOVE_ONE
    trials = _trials(ctx)
    made = epsilon_estimates(trials, delta=delta, confidence=config.confidence, rng=rng, group_size=config.copies)
    estimates = [made[ESTIMATOR], *(estimate for name, estimate in made.items() if name != ESTIMATOR)]
    p_value = None
    # An epsilon of single records says nothing of a coin that adds several.
    is_claimed = config.copies == 1 and not adds_no_noise(event)
    claimed = epsilon(event, delta, relation) if is_claimed else None
    games = [("the audit's model", claimed, [estimate.document() for estimate in estimates])]
    if is_claimed:
        p_value = claim_p_value(trials, ClaimedProfile.of(event, relation), rng=rng)
        played = _play(ctx, events, rng)
        if played is not None:
            games.append(("the engine, every step seen", played["epsilon_claimed"], played["estimates"]))
            p_value = min(1.0, 2 * min(p_value, played["p_value"]))
    first = estimates[0].document()
    keys = ("value", "confidence", "delta", "relation", "estimator", "ceiling")
    return {
        "epsilon_lower": {name: first[name] for name in keys},
        "epsilon_claimed": claimed,
        "estimates": estimates_shown(games),
        "p_value": p_value,
    }


def _trials(ctx: StageContext) -> Trials:
    """The canaries that no policy found, and what each is scored: how much less the audit's model loses on it."""
    from pipelines.attacks.epsilon_trials import Trials
    from pipelines.stages.audit_canaries import EXPOSURES
    from pipelines.stages.audit_canary_table import CANARIES

    rows = ctx.input("audit_canaries").table(EXPOSURES).rows(("canary_id", "variant", "loss", "loss_released"))
    scores = {
        row["canary_id"]: row["loss_released"] - row["loss"] for row in rows if row["variant"] == _ATTACKED_VARIANT
    }
    coins = {
        row["canary_id"]: row["is_included"]
        for row in ctx.input("audit_model").table(CANARIES).rows(("canary_id", "variant", "is_included"))
        if row["variant"] == _ATTACKED_VARIANT
    }
    return Trials.joined(scores, coins)


def _play(ctx: StageContext, events: Mapping[str, Any], rng: np.random.Generator) -> Mapping[str, Any] | None:
    """The white-box game on the engine with the noise, rate and steps of this training; None where it has no such."""
    from pipelines.attacks.epsilon_comparison import claim_p_value
    from pipelines.attacks.epsilon_estimates import epsilon_estimates
    from pipelines.attacks.white_box import Game, play

    config: AuditConfig = ctx.configs["audit"]
    figures, delta = ctx.input("audit_model").json("figures.json"), events["target_delta"]
    noise, rate, steps = (figures.get(name) for name in ("noise_multiplier", "sample_rate", "num_steps"))
    if not noise or not rate or not steps:
        return None
    ctx.run.progress(0, None, "playing against the engine")
    batch = max(1, round(rate * config.num_trials))
    game = Game(
        num_canaries=config.num_trials,
        expected_batch_size=batch,
        epochs=max(1, round(steps * batch / config.num_trials)),
        noise_multiplier=noise,
        max_grad_norm=events["max_grad_norm"],
    )
    trials = play(game, rng).trials
    made = epsilon_estimates(trials, delta=delta, confidence=config.confidence, rng=rng)
    return {
        "epsilon_claimed": game.claimed(delta).epsilon,
        "estimates": [estimate.document() for estimate in made.values()],
        "p_value": claim_p_value(trials, game.claimed_profile(), rng=rng),
    }
