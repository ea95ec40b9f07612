"""The cards of a released model and of a released data set: Markdown, made of the public report.

Beside the claims stands what nobody measured or what is withheld, so that silence does not pass for a good result.
Rates and figures of audits are in a public report only where the settings publish them (`report.publish_counts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pipelines.methods.registry import method
from pipelines.numbers import count, percent, plain, real, upper_bound
from pipelines.printable import printable
from pipelines.report.claims import (
    can_be_claimed,
    cannot_be_claimed,
    not_together,
    numbers_of,
    only_together,
)
from pipelines.report.people import person_sentences, protected_sentences
from pipelines.report.sentences import given_away, meaning_of
from pipelines.report.words import CORPORA, RELATIONS, SOURCES

_KINDS: Final = {"issued": "Guarantee", "estimate": "Estimate, not a guarantee", "refused": "Refused"}
_COUNTED: Final = (
    "These figures were counted on private text and published without noise (`report.publish_counts`). Every guarantee "
    "above is about the model alone, and neither about this card nor about the report."
)
_WITHHELD_RATES: Final = (
    "How much redaction missed (m, γ, δ₂). If it was measured, the figures stay where the private text is: they were "
    "counted on it, and ε does not cover them."
)
_WITHHELD_AUDIT: Final = (
    "Attacks. If somebody attacked this model, what they found stays where the private text is. A guarantee bounds "
    "attacks; it does not measure them."
)
NEVER: Final = (
    "Secrets of kinds that no policy looks for, and that nobody labelled.",
    "What several units say together about one person or one fact: the unit of each claim is named above.",
    "What the models that this one began with, or that redaction uses, had learnt elsewhere.",
    "Fitness for any task, bias and harm.",
)
"""What nobody measures in any run."""
EXAMPLE: Final = (
    "I am Mary Jones, and my order is 118-20443-9917. Call 555 0143.",
    "I am <MASK>, and my order is <MASK>. Call <MASK>.",
)
"""Made-up text before and after redaction by the policies `addresses` and `identifiers`."""
_TASKS: Final[Mapping[str, str]] = {
    "language_modelling": "writes, completes and scores text of the kind that it was trained on",
    "dialogue": "writes the next turns of dialogues of the kind that it was trained on",
    "response": "replies in dialogues of the kind that it was trained on",
    "table_to_text": "describes tables of the kind that it was trained on",
    "classification": "classifies text of the kind that it was trained on",
}
_NOT_FOR: Final = (
    "Do not use it where an answer must be true, or to decide about people. Nobody measured that.",
    "Names and numbers that it writes may be made up, may stand in the base model's text, or may be secrets that "
    "redaction missed.",
    "It is no evidence that text is anonymous. What is promised stands below.",
)
_LOAD: Final = """```python
import reticent

model = reticent.open_trained(".")  # this folder; needs the package reticent
print(model.generate(["hello"], num=3, max_new_tokens=20, seed=1))
print(model.losses(["my parcel is late"]).per_record)  # nats
```"""
_LOAD_PLAINLY: Final = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForCausalLM.from_pretrained(".")
ids = tokenizer("hello", return_tensors="pt", add_special_tokens=False)
print(tokenizer.decode(model.generate(**ids, max_new_tokens=20, do_sample=False)[0]))
```"""


def model_card_sections(report: Mapping[str, Any]) -> str:
    """Returns the sections of a model card that follow what `pipelines.training.model_card` writes.

    Args:
        report: result of `pipelines.report.public.public_version`.
    """
    training = report["training"]
    figures = [
        ("Perplexity per token on held-out text", real(training.get("perplexity"))),
        ("The same before training", real(training.get("perplexity_at_initialisation"))),
        ("Bits per byte", real(training.get("bits_per_byte"))),
        ("Next-token accuracy", percent(training.get("next_token_accuracy"))),
        ("Accuracy", percent(training.get("accuracy"))),
    ]
    return _joined(
        *_use(report),
        *_claims(report),
        "## Held-out text",
        f"Evaluated on {training['evaluated_on']}." if training.get("evaluated_on") else "",
        _table(("figure", "value"), [row for row in figures if row[1] != real(None)]),
        *_measured(report),
        *_checking(report),
    )


def data_card(report: Mapping[str, Any]) -> str:
    """Returns the text of a data set card.

    Args:
        report: result of `pipelines.report.public.public_version`.
    """
    redaction, dedup = report["redaction"], report["dedup"]
    conservative = redaction.get("conservative")
    return _joined(
        "# Text released with Reticent",
        "`public`: rows of the corpus in which the policies found nothing, after deduplication. They are published as "
        "they were written and are not protected at all: they are here because the rules below let them pass. Their "
        "order is that of a content hash, and their ids say nothing of where they stood. `synthetic`, where there is "
        "such a table: text that the released model wrote.",
        "## How rows were chosen",
        _list(
            [
                f"Masked by: {plain(', '.join(redaction['policies']) or 'nothing')}. A row with a mask is not here.",
                f"Left out on suspicion by: {plain(conservative or 'nothing')}.",
                f"Duplicates: {plain(dedup.get('mode') or 'not stated')}.",
            ]
        ),
        *_claims(report),
        *_measured(report),
        *_checking(report),
    )


def synthetic_section(told: Mapping[str, Any]) -> str:
    """Returns the section of a data set card on the synthetic table.

    Args:
        told: its ``synthetic.json`` (`pipelines.accounting.synthetic_text.claim_of_text`).
    """
    rows = f"{count(told['num_rows'])} rows that the model wrote; {count(told['num_filtered'])} more were dropped by "
    claim = [f"No guarantee: {_sentence('; '.join(told['not_guaranteed_because']))}"]
    if told["is_guarantee"]:
        numbers = f"ε = {upper_bound(told['epsilon'])}, δ = {upper_bound(told['delta'])}"
        claim = [f"Guarantee (`{told['notion']}`): {numbers} for one {told['unit']}. {told['statement']}"]
        claim += ["It supposes:", _list(told["assumptions"])]
    return "\n" + _joined("## The synthetic table", f"{rows}policies that know nothing of the corpus.", *claim)


def _use(report: Mapping[str, Any]) -> Iterable[str]:
    """Yields what the model is for, how to load it, and an example of what it read."""
    training, settings = report["training"], report["settings"].get("train", {})
    task, name = training.get("task"), training.get("method")
    yield "## Intended use"
    if task in _TASKS:
        yield f"This model {_TASKS[task]}. It is for research and for products whose text may be wrong."
    yield _list(_NOT_FOR)
    if task != "classification":
        yield "## How to load it"
        yield _LOAD
        is_recurrent = settings.get("model") in ("lstm", "gru") or (name is not None and method(name).needs_lstm)
        if not is_recurrent and settings.get("adaptation") != "prefix":
            yield "The same without Reticent:"
            yield _LOAD_PLAINLY
    before, after = EXAMPLE
    if report["redaction"]["policies"] and name is not None and not method(name).view.reads_original:
        yield "## What it read"
        yield "It read private rows as redaction left them. This example is made up:"
        yield f"```text\nbefore  {before}\nafter   {after}\n```"


def _claims(report: Mapping[str, Any]) -> Iterable[str]:
    claims = report["claims"]
    yield "## What is promised"
    yield f"**What is open as it was written.** {given_away(report)}"
    yield f"**What can be claimed.** {can_be_claimed(claims)} {meaning_of(claims)}"
    yield f"**What cannot.** {cannot_be_claimed(claims)}"
    if protected := protected_sentences(report):
        yield f"**Who is protected.** {' '.join(protected)}"
    if person := person_sentences(report.get("person")):
        yield f"**For a person.** {' '.join(person)}"
    stated = [claim["assumptions"] for claim in claims if claim["status"] != "refused"]
    shared = [text for text in stated[0] if all(text in others for others in stated)] if len(stated) > 1 else []
    if shared:
        yield "Every claim with numbers supposes that:"
        yield _list(shared)
    for claim in claims:
        yield from _claim(claim, shared)


def _claim(claim: Mapping[str, Any], shared: Sequence[str]) -> Iterable[str]:
    size = claim["group_size"]
    yield f"### {claim['title']}{f' ({size} secrets)' if size and size > 1 else ''}"
    is_refused = claim["status"] == "refused"
    numbers = "" if is_refused else f": {numbers_of(claim)}"
    why = f" Why: {_sentence(claim['reason'])}" if claim["reason"] else ""
    kind = "Not stated in this version" if claim["is_withheld"] else _KINDS[claim["status"]]
    yield f"{kind}{numbers}.{why}"
    if is_refused:
        return
    whole = only_together(claim)
    yield claim["statement"] or ""
    if whole["statement"]:
        yield f"For all releases together: {whole['statement']}"
    if reason := not_together(claim):
        yield f"Why it does not hold for all releases together: {_sentence(reason)}"
    if claim["beside"]:
        yield f"Not covered, and published too: {_sentence('; '.join(claim['beside']))}"
    rows = [
        ("notion", f"`{claim['notion']}`"),
        ("about", claim["covers"]),
        ("theorem", claim["theorem"]),
        ("unit", claim["unit"] and f"one {claim['unit']}"),
        ("relation", f"{RELATIONS.get(claim['relation'], claim['relation'])} (`{claim['relation']}`)"),
        ("corpus", CORPORA.get(claim["corpus"], claim["corpus"])),
        ("μ", claim["mu"]),
        ("confidence", percent(claim["confidence"]) if claim["confidence"] not in (None, 1, 1.0) else None),
    ]
    yield _table(("", ""), [(name, str(value)) for name, value in rows if value])
    own = [text for text in claim["assumptions"] if text not in shared]
    together = [f"(for all releases together) {text}" for text in whole["assumptions"] if text not in shared]
    if own or together:
        yield "It also supposes:" if shared else "It supposes:"
        yield _list([*own, *together])


def _measured(report: Mapping[str, Any]) -> Iterable[str]:
    missing = []
    if report["publishes_counts"]:
        yield "## Counted on private text"
        yield _COUNTED
        yield from _rates(report["miss_rate"])
        yield from _audit(report.get("audit"))
        if not _is_measured(report["miss_rate"]):
            missing.append("How much redaction missed: nobody looked.")
        if not report.get("audit"):
            missing.append("Attacks: nobody attacked this model. A guarantee bounds attacks; it does not measure them.")
    else:
        missing += [_WITHHELD_RATES, _WITHHELD_AUDIT]
    yield "## What was not measured, or is not told"
    yield _list([*missing, *NEVER])


def _is_measured(rates: Mapping[str, Any]) -> bool:
    return rates.get("source") not in (None, "not_measured")


def _rates(rates: Mapping[str, Any]) -> Iterable[str]:
    if not _is_measured(rates):
        return
    rows = []
    for name, key in (
        ("γ, share of secrets that redaction missed", "false_negative_rate"),
        ("δ₂, chance that a secret is missed and its sentence is public", "delta2"),
    ):
        found = rates.get(key) or {}
        value, most = (percent(found.get(part), upper=True) for part in ("value", "upper"))
        rows.append((name, f"{value}, at most {most}"))
    yield _table(("rate", "value"), rows)
    yield f"Who said what was missed: {_sentence(SOURCES.get(rates['source'], rates['source']))}"


def _audit(audit: Mapping[str, Any] | None) -> Iterable[str]:
    if not audit:
        return
    lower, best = audit["epsilon_lower"], audit["membership_auc"]
    rows = [
        ("ε that attacks showed, at least", real(lower, 3, lower=True) if lower is not None else None),
        *(
            (
                f"ε of a made-up person with {game['num_records']} records that attacks showed, at least",
                f"{real(game['epsilon_lower'], 3, lower=True)} (stated: {_stated(game['claims'])})",
            )
            for game in audit.get("person") or ()
        ),
        ("best membership attack, AUC", real(best, 3) if best is not None else None),
        ("largest exposure of a canary, bits", real(audit["exposure"], 3) if audit["exposure"] is not None else None),
    ]
    yield _table(("attack", "value"), [(name, value) for name, value in rows if value is not None])


def _stated(claims: Sequence[Mapping[str, Any]]) -> str:
    figures = [(c["whose"], upper_bound(c["epsilon"]) if c["epsilon"] else "no useful limit") for c in claims]
    return "; ".join(f"{whose}, {figure}" for whose, figure in figures)


def _checking(report: Mapping[str, Any]) -> Iterable[str]:
    yield "## How to check this folder"
    yield (
        "`reticent verify-release FOLDER --key FINGERPRINT` compares every file with `release.json`, that with its "
        "signature, and the key with the fingerprint. It needs no account, no network and nothing of the store. A "
        "signature cannot say whose key it is, and somebody may have forged this folder: ask the publisher for the "
        "fingerprint."
    )
    if report.get("signed_by"):
        yield f"Fingerprint of the key, as the report has it: `{report['signed_by']}`"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"* {_plain(text)}" for text in texts)


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    cells = [head, ("---", "---"), *rows]
    return "\n".join("| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in row) + " |" for row in cells)


def _plain(text: str) -> str:
    """Text in which no tag is read; code stays as it is, unless a backtick of it has no partner."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return text.replace("<", "&lt;").replace("`", "\\`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def _joined(*blocks: str) -> str:
    return printable("\n\n".join(block for block in blocks if block)) + "\n"
