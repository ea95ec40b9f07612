"""The README of a model folder: how the model was trained, how you load it, and what it reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pipelines.accounting.facts import PERSON, is_from_private_text
from pipelines.dp.language import base_of, has_prefix
from pipelines.filled_in import fill, join, ours
from pipelines.methods import registry as methods
from pipelines.numbers import real, upper_bound
from pipelines.printable import markdown_code
from pipelines.training.data.control import RESERVED
from pipelines.training.models.recurrent import RecurrentLanguageModel
from pipelines.training.tasks import registry as tasks

if TYPE_CHECKING:
    from pipelines.training.finished import FinishedTraining

_AUTO: Final = "Load it with `{}.from_pretrained(FOLDER)` and `AutoTokenizer.from_pretrained(FOLDER)`."
_HEADS: Final[Mapping[str, tuple[str, str]]] = {
    "causal": ("AutoModelForCausalLM", "text-generation"),
    "masked": ("AutoModelForMaskedLM", "fill-mask"),
    "classification": ("AutoModelForSequenceClassification", "text-classification"),
}
"""Loader of a model, and the hub's name for its use."""
_WITH_PREFIX: Final = " Then add its prefix: `peft.PeftModel.from_pretrained(model, FOLDER + '/prefix')`."
_RECURRENT: Final = "Load it with `reticent.open_trained(FOLDER)`."
_VOCABULARIES: Final[Mapping[str, str]] = {
    "bpe_public": "The vocabulary was learnt on public text only.",
    "bytes": "The vocabulary is plain bytes.",
    "pretrained": "The vocabulary is that of the base model; what was added to it are control tokens.",
}


_ABOUT_MASKS: Final = "* {masks} stands for a redacted run of text. The model read it and {learnt}.\n"
_ABOUT_CONVERSATIONS: Final = "* {first} follows {begin} where a conversation begins; {last} stands where one ends."


def _listed(names: Mapping[str, int], other: int | None, code: Callable[[int], str]) -> str:
    """Control tokens of speakers or domains."""
    known = join(", ", map(code, names.values())) or ours("none")
    return (
        fill("{known}.", known=known)
        if other is None
        else fill("{known}. Any other: {other}.", known=known, other=code(other))
    )


def _cost(run: FinishedTraining) -> str:
    """Returns the training's cost, first together with earlier releases. Empty if there is no bound."""
    config, spent = run.config, run.spent
    if not config["target_epsilon"] or not run.planned_steps:
        return ""
    alone = f"The noise of this training is calibrated for ε = {config['target_epsilon']:g} at δ = "
    replaced = "one person's private text" if run.unit == PERSON else "one private record"
    alone += f"{real(config['target_delta'])} ({replaced} replaced). "
    if methods.rule_of(config["method"], run.account.variant).is_unnoised:
        alone += "That is not all: a part of the private records' text was read without noise. "
    if spent is None or not spent.num_earlier:
        return alone
    rate = run.account.light_noise_miss_rate
    if is_from_private_text(rate):
        return alone  # the sum would reveal a rate that was counted on private text
    others = f"{spent.num_earlier} earlier release{'s' if spent.num_earlier > 1 else ''} on files that it shares"
    if not math.isfinite(spent.epsilon):
        return f"Together with {others} there is no bound on what the models tell of a record. {alone}"
    whole = f"ε = {upper_bound(spent.epsilon)} at δ = {upper_bound(spent.delta)} (one private record replaced)"
    return f"Together with {others}, and before later ones, it costs {whole}, composed and unamplified. {alone}"


_CARD: Final = """---
library_name: transformers
pipeline_tag: {use}
---
# A language model trained with Reticent

A {kind}, {origin} with the method `{method}`: {described}. {cost}What this promises, and under which
assumptions, is stated in the report; a model that is trained on the same files later adds to what is given
away, and the newest report says what all of them cost together.

{loading}

* {about_record} The tokenizer need not add any of these
  by itself.
{about_names}
{about_masks}* At most {context_length} tokens.
* {vocabulary}
"""


def model_card(run: FinishedTraining) -> str:
    """Returns the README of the model folder, with marks around what is filled in (`pipelines.filled_in`).

    It is published, so it states settings only, nothing that was counted.
    """
    config, vocabulary = run.config, run.corpus.vocabulary
    method = config["method"]
    is_recurrent = isinstance(run.network, RecurrentLanguageModel)
    kind = run.network.kind.upper() if is_recurrent else type(base_of(run.network)).__name__
    origin = "trained from scratch"
    if run.base is not None:
        origin = fill("fine-tuned from {base} (adaptation: {kind})", base=run.base, kind=config["adaptation"])

    def code(number: int | None) -> str:
        token: str = vocabulary.tokenizer.convert_ids_to_tokens(number)
        return ours(markdown_code(token)) if token in RESERVED else markdown_code(token)

    control = vocabulary.control
    begin, end = code(control.bos), code(control.eos)
    masks = join(", ", map(code, control.masks.values()))
    learnt = "was trained to write it" if control.asks_for_mask else "was never trained to write it"
    about_masks = fill(_ABOUT_MASKS, masks=masks, learnt=learnt) if masks else ""
    marks = "the speaker's token" if control.other_domain is None else "the domain's token and the speaker's"
    names = [fill("* Speakers: {names}", names=_listed(control.speakers, control.other_speaker, code))]
    if control.other_domain is not None:
        names.append(fill("* Domains: {names}", names=_listed(control.domains, control.other_domain, code)))
    if control.conversation_start is not None:
        first, last = code(control.conversation_start), code(control.conversation_end)
        names.append(fill(_ABOUT_CONVERSATIONS, first=first, begin=begin, last=last))
    auto, use = _HEADS[run.head]
    return fill(
        _CARD,
        use=ours(use),
        kind=kind,
        origin=origin,
        method=method,
        described=methods.method(method).described(config.get("optimizer", "adamw")),
        cost=_cost(run),
        loading=(_RECURRENT if is_recurrent else _AUTO.format(auto))
        + (_WITH_PREFIX if has_prefix(run.network) else ""),
        about_record=fill(tasks.task(config["task"]).layout, begin=begin, end=end, marks=marks, **run.task.words()),
        about_names=join("\n", names),
        about_masks=about_masks,
        context_length=run.context_length,
        vocabulary=_VOCABULARIES[vocabulary.kind],
    )
