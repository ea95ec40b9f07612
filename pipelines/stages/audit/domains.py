"""Audit, domains: text of one domain in what the released model writes about another (Kabra and Elenberg 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.attacks import domains as attacked
from pipelines.attacks.domain_scores import document
from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.errors import ConfigError
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.texts import TextJudge
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.domain_choice import judging_policies
from pipelines.stages.audit.domain_models import REFERENCES
from pipelines.stages.audit.opening import open_audited, open_reference
from pipelines.stages.audit.other_recipe import note_of_other_recipe
from pipelines.stages.audit.records import HELD_OUT

if TYPE_CHECKING:
    from pipelines.training.trained import TrainedModel

_ANY_FIND: Final = 0.0
"""The threshold z: all that the run's own policy would mask is a leak. The classifier has its own threshold."""
_ENDS: Final = 2
"""Number of tokens after a text: the end of a turn, and of a conversation."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``domains.json``: rates, likelihood ratios and C of every ordered pair of domains, without any text.

    Raises:
        ConfigError: no held-out conversation of some domain can be continued.
    """
    config: AuditConfig = ctx.configs["audit"]
    rng = np.random.default_rng(ctx.seed)
    model = open_audited(ctx, "train")
    listed = ctx.input("audit_domain_models").table(REFERENCES).rows(("domain", "folder"))
    references = {row["domain"]: open_reference(ctx, "audit_domain_models", row["folder"]) for row in listed}
    ctx.run.progress(0, None, "choosing prompts")
    prompts = {domain: _prompts(ctx, domain, rng, [model, *references.values()]) for domain in references}
    decoding = replace(attacked.PAPER_DECODING, num=config.domain_generations, max_new_tokens=config.max_new_tokens)
    with Redactor.from_spec(_judging_spec(ctx)) as redactor:
        policies = attacked.LabelledPolicies(TextJudge(redactor, ctx.configs["split"].language), tuple(references))
        ctx.run.progress(0, None, "attacking the model")
        targets = attacked.attack(model, prompts, policies, decoding, rng, references=references)
        ctx.run.progress(0, None, "asking the references")
        unseen = attacked.attack_references(references, prompts, policies, decoding, rng)
    num_prompts = {domain: len(of_domain.records) for domain, of_domain in prompts.items()}
    rates = document(targets, unseen, _ANY_FIND, confidence=config.confidence)
    asked = {"num_prompts": num_prompts, "num_texts_a_prompt": decoding.num, "max_new_tokens": decoding.max_new_tokens}
    note = note_of_other_recipe(ctx, "audit_domain_models", "the models without a domain")
    other_recipe = {} if note is None else {"other_recipe": note}
    found = {"policies": list(judging_policies(ctx.configs["redact"])), **asked, **rates, **other_recipe}
    ctx.out.json("domains.json", found)
    return {"num_pairs": len(targets), "num_prompts": sum(num_prompts.values())}


def _prompts(ctx: StageContext, domain: str, rng: Any, models: list[TrainedModel]) -> attacked.Prompts:
    """Returns beginnings of held-out conversations of one domain, from as many conversations as possible."""
    config: AuditConfig = ctx.configs["audit"]
    most = config.domain_prompts
    if ctx.configs["train"].record_unit().kind == "sentence":
        drawn = attacked.sentence_prompts(_held_out_rows(ctx), domain, rng, num=most)
    else:
        drawn = attacked.dialogue_prompts(_held_out_rows(ctx), domain, rng, num_conversations=most).spread(most)
    if not drawn.records:
        raise ConfigError(
            "audit.domains: a domain has no held-out conversation that a model could continue; raise "
            "split.test_fraction, or put conversations of the domain into the fold test"
        )
    return drawn.fitted(config.max_new_tokens + _ENDS, *models)


def _held_out_rows(ctx: StageContext) -> Iterator[dict[str, Any]]:
    for artifact in ctx.inputs["split"]:
        for row in artifact.table(SENTENCES).rows(("doc_id", "text", "speaker", "domain", "fold")):
            if row["fold"] in HELD_OUT:
                yield row


def _judging_spec(ctx: StageContext) -> RedactorSpec:
    """Returns the run's own policies whose labels are domains."""
    redact = ctx.configs["redact"]
    spec: RedactorSpec = redact.redactor_spec()
    return replace(spec, policies=judging_policies(redact), conservative=None, observed=(), own={})
