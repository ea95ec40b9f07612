"""The assumptions of claims, as sentences. Each list is short, so that people read it.

*Contradictions.* An assumption may state the value of a named fact ("redaction reads" = "sentence"). Two assumptions of
one claim that state different values of one fact cannot both hold. A claim under both would promise anything at all,
so they are never issued together.

*Masked secrets.* CRT, Proposition 5, gives epsilon 0 for a secret that the policy masks, because both worlds are then
the same once redacted. They are the same only if masking the secret by hand leaves all else as it was: its redaction is
*stable*. Claims state the number of reviewed secrets whose redaction is not stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pipelines.accounting.composition import Publication
from pipelines.accounting.events import SAME_NUMBER, SAME_NUMBER_OF_PEOPLE
from pipelines.accounting.facts import CorpusFacts, TrainingFacts
from pipelines.accounting.replaced_text import about_replaced
from pipelines.methods.rule import MethodRule
from pipelines.miss_rate.rates import Delta2, Stability
from pipelines.numbers import upper_bound

Fact = Literal[
    "redaction reads",  # sentence | document
    "public rows",  # none | some
    "training reads",  # redacted | original | both
    "other releases",  # none | some
    "noise chosen from",  # settings | private text
    "masks show",  # nothing | lengths
]

_NOT_MEASURED: Final = "the number of masked secrets whose redaction is not stable was not measured"
NOT_STATED: Final = (
    "the number of masked secrets whose redaction is not stable is counted on private text, so it is not stated here"
)
TOGETHER: Final = "Every set of secrets of one sentence was masked by hand together, and this changed nothing else"
"""Addition to claims for groups if nothing is missed."""
NOISE_FROM_PRIVATE_TEXT = (
    "the noise of phase 1 was chosen by a rate that was measured on this text, so that in a neighbouring world another "
    "mechanism ran; fix train.jft_miss_rate before the text is measured, or take it from public text, and say so with "
    "train.jft_miss_rate_basis"
)

CHOSEN_BY_PRIVATE_SCORES: Final = (  # Papernot and Steinke 2022, Theorem 2; a name in the text would pass the gate
    "the model was chosen among others by scores on private text (guarantee.chosen_by), and the choice reveals more of "
    "that text than epsilon covers. Theorems that bound the cost of a choice need a random number of candidates, drawn "
    "before any is trained, and scores that are private themselves (`reticent privacy selection`)"
)
_ABOUT_TOKENIZER: Final = {
    "public": "the tokenizer was trained on the public set only",
    "elsewhere": "the tokenizer was trained elsewhere, on none of the private records",
}
"""Assumptions by the origin of the tokenizer, for trainings whose notes do not say it."""
OF_ALL_LABELS: Final = "of all labels together"
OF_WORST_LABEL: Final = "of the worst label"
IN_EVERY_RELEASE: Final = "in rows that are private in every release"
OTHERS_ROWS: Final = (
    "only rows that are private in every release are covered. A release trained without noise on rows that another "
    "redaction took for public, or published such rows, and these are the same in both worlds"
)
"""An assumption of claims about the private set beside such a release."""


class Assumption(str):
    """A sentence that states an assumption of a claim.

    Attributes:
        facts: assumed value of each fact, by name of the fact.
    """

    __slots__ = ("facts",)

    facts: dict[str, str]

    def __new__(cls, text: str, facts: dict[Fact, str] | None = None) -> Assumption:
        """Makes an assumption of its text and the facts that it assumes."""
        made = super().__new__(cls, text)
        made.facts = {str(name): value for name, value in (facts or {}).items()}
        return made


def contradictions(assumptions: Iterable[str]) -> list[str]:
    """Returns the names of the facts on which assumptions disagree, sorted. Plain strings assume no fact."""
    known: dict[str, set[str]] = {}
    for assumption in assumptions:
        if isinstance(assumption, Assumption):
            for name, value in assumption.facts.items():
                known.setdefault(name, set()).add(value)
    return sorted(name for name, values in known.items() if len(values) > 1)


def voids(training: TrainingFacts, rule: MethodRule) -> list[str]:
    """Returns the reasons why no claim of the run is a guarantee, whatever its numbers."""
    found = []
    if training.insecure_test_seed:
        found.append("insecure_test_seed is set: samples and noise can be repeated by anyone who knows the seed")
    if not training.is_compared:
        found.append(
            "whether the gradient of one record depends on others was not compared before the first private step, so "
            "clipping may not bound what one record does; run train again"
        )
    if training.is_noise_from_private_text:
        found.append(NOISE_FROM_PRIVATE_TEXT)
    if training.is_chosen_by_private_scores:
        found.append(CHOSEN_BY_PRIVATE_SCORES)
    if training.tokenizer_trained_on not in ("public", "none", "elsewhere"):
        found.append(
            f"the tokenizer was trained on {training.tokenizer_trained_on} text: its vocabulary alone can reveal a "
            "secret, and epsilon does not cover it"
        )
    if training.tokenizer_trained_on == "public" and not rule.has_public_set:
        found.append(
            "the vocabulary was learnt, without noise, on public rows, which this method counts among the records that "
            "it protects; set train.tokenizer = 'bytes', or train a pretrained model"
        )
    if training.public_order not in ("content_hash", "none"):  # none: nothing was trained on without noise
        found.append(
            f"public rows were trained on in the order {training.public_order}: the public pass has no noise, so a "
            "mere change of order shows"
        )
    return found


def common(
    training: TrainingFacts, rule: MethodRule, publication: Publication, num_others: int, has_public_rows: bool
) -> list[str]:
    """Returns the assumptions of every claim of a run."""
    found: list[str] = [
        "the unit of privacy is one person. A fact may be spread over many people, and is then protected less"
        if training.by_owner
        else f"the unit of privacy is one {training.record}. A person or a fact may be spread over many of them, and "
        "is then protected less",
        SAME_NUMBER_OF_PEOPLE if training.by_owner else SAME_NUMBER,
        "the trusted side keeps to itself what is not published: learning curves, figures, audits, the full report "
        "and checkpoints. Each would be a release of its own, which epsilon does not cover",
        about_others(num_others, by_owner=training.by_owner),
        "validation and test folds are public",
        _about_settings(training),
        "the models that redaction uses were pre-trained on other, public data",
        "speaker, domain and label of a row are not redacted, and none of them holds a secret. "
        "The speaker is trained on"
        + (". Domain and label set the order of public rows" if has_public_rows else "")
        + (". The public rows are published with them" if publication.publishes_rows else ""),
    ]
    if training.num_compared:
        found.append(
            f"models that were compared with this one, and may have been chosen in its place: {training.num_compared}. "
            "They were compared by figures on held-out text, which is public. So the choice depends on these models, "
            "and on nothing else that is private. The figures of all models together cover the choice, because it is "
            "post-processing of their composition. The figures of this model alone do not"
        )
    if publication.has_copy:
        found.append(
            "the store was copied, and only the copy's own ledger knows what the copy released. Epsilon counts what "
            "this store released. The claim supposes that the copy released nothing trained on the same records"
        )
    if rule.plugins:
        found.append(
            f"the training method is code of another package: {', '.join(rule.plugins)}. Nobody can check from here "
            "what it does to private records. The claim supposes that it does what it says, and nothing else"
        )
    tokenizer = _ABOUT_TOKENIZER.get(training.tokenizer_trained_on)
    if tokenizer is not None and not any(note.startswith("the tokenizer ") for note in training.notes):
        found.append(tokenizer)
    return [*found, *(note for note in training.notes if note not in found)]


def _about_settings(training: TrainingFacts) -> Assumption:
    plain = "hyper-parameters were not chosen by looking at private data"
    if training.is_bound_measured:
        plain += ", except guarantee.owner_bound, which was measured on it"
    if training.is_noise_from_private_text:
        return Assumption(f"{plain}, except for the noise of phase 1", {"noise chosen from": "private text"})
    if training.light_noise_miss_rate is None:
        return Assumption(plain, {"noise chosen from": "settings"})
    where = {
        "fixed_beforehand": "was fixed before this text was measured",
        "public_text": "was measured on other, public text",
    }
    rate = training.light_noise_miss_rate.upper
    return Assumption(
        f"{plain}. The noise of phase 1 was chosen with the miss rate {rate:g}. According to the settings, this rate "
        f"{where.get(training.noise_basis or '', 'is of unknown origin')}",
        {"noise chosen from": "settings"},
    )


_ON_PEOPLE: Final = (
    ". Releases on the same people from other files share no record with this one. They count in the figures of a "
    "person for all releases together"
)


def about_others(num_others: int, *, by_owner: bool = False) -> Assumption:
    """Returns the assumption about other releases on the same records, or (``by_owner``) on the same people."""
    people = _ON_PEOPLE if by_owner else ""
    if num_others:
        return Assumption(
            f"{num_others} other release{'s' if num_others > 1 else ''} of this store may share records with this one. "
            "So the figures of this model alone do not state the whole loss. The figures of all releases together do: "
            f"the releases are composed first, and credit for redaction is given once (`reticent ledger`){people}",
            {"other releases": "some"},
        )
    return Assumption(
        "no other release of this store shares an input file, or a document with the same text, with this one, "
        "according to its privacy ledger. The ledger takes an edited document in another file for a new one. "
        "A release that is made later, or elsewhere, on the same records adds to epsilon" + people,
        {"other releases": "none"},
    )


def about_corpus(corpus: CorpusFacts, training: TrainingFacts, on: str) -> list[str]:
    """Returns the assumptions that tie a claim to the corpus before or after deduplication."""
    found: list[str]
    if on == "deduplicated":
        why = (
            corpus.dedup_reason
            if corpus.dedup_stability is None
            else f"the record is one {training.record}, and the stability of deduplication is known for sentences only"
        )
        found = [
            "the claim is about the corpus *after* splitting and deduplication. Neighbours differ in that corpus, and "
            "not in the corpus as it was given. " + why
        ]
    else:
        size = corpus.dedup_stability or 1
        found = [
            Assumption(
                f"the claim is about the corpus after splitting into sentences, before deduplication. One replaced "
                f"{training.record if not corpus.reads_redacted else 'sentence'} changes at most {size} training record"
                f"{'s, and epsilon is that of a group of so many records' if size > 1 else ''}. {corpus.dedup_reason}",
                {"redaction reads": "document" if corpus.reads_documents else "sentence"}
                if corpus.reads_redacted
                else {},
            )
        ]
    if corpus.dedup_min_tokens and corpus.reads_redacted:
        found.append(
            f"sentences of fewer than {corpus.dedup_min_tokens} tokens are not deduplicated. A secret in k copies of "
            "such a sentence is a group of k"
        )
    return found


def one_sentence(training: TrainingFacts, who: str = "the secret") -> str:
    """Returns the assumption of a claim about a single secret: the unit of privacy is one sentence."""
    if not training.reads_any_original:
        return f"{who} stands in one kept sentence. A secret that stands in k kept sentences is a group of k"
    return (
        f"{who} stands in one sentence without a copy. Training on original text reads every copy, so a "
        "secret in k copies is a group of k"
    )


def about_caught(corpus: CorpusFacts, unstable: str) -> list[str]:
    """Returns when a masked secret costs nothing. ``unstable`` says for how many that is not so."""
    if not corpus.reads_redacted:
        return [
            Assumption(
                "training reads the original text: redaction gives no credit, and every secret counts as missed",
                {"training reads": "original"},
            )
        ]
    if (replaced := about_replaced(corpus)) is not None:
        return [replaced]
    if not corpus.collapses:
        return [
            "redact.collapse is false, so masks show a secret's length: a masked secret costs as much as a missed one"
        ]
    return [Assumption(_stable_or_missed(unstable), {"masks show": "nothing"})]


def about_public_set(corpus: CorpusFacts, delta2: Delta2 | None, of: str = OF_ALL_LABELS) -> list[str]:
    """Returns how missed secrets are kept out of text that is published, or trained on, without noise.

    Args:
        corpus: facts of the preparation.
        delta2: bound that the claim takes; None if it is unknown.
        of: labels that the bound is about, in words.
    """
    if not corpus.has_public_rows:
        why = (
            "no row is published, and every sentence is trained on as a private record"
            if not corpus.reads_redacted
            else "no row is published, and no row is trained on as a public one (there is no conservative policy, or "
            "the method has no public set)"
        )
        return [Assumption(f"{why}, so delta2 is 0", {"public rows": "none"})]
    if delta2 is None:
        return []
    if delta2.upper == 0:
        return [
            Assumption(
                "no labelled secret of this corpus that the policy misses stands in a public sentence (delta2 is 0)",
                {"public rows": "some"},
            )
        ]
    return [
        Assumption(
            "the probability over mu that the policy misses a secret and the secret's sentence is public is at most "
            f"{upper_bound(delta2.upper)} (delta2 {of}, confidence {delta2.confidence:g}). This probability is "
            "part of delta",
            {"public rows": "some"},
        )
    ]


def about_review(is_census: bool) -> list[str]:
    """Returns the assumptions of gamma and delta2."""
    labels = "the labels mark every secret. Neither a secret that nobody labelled nor a mu of another shape is covered"
    if is_census:
        return [
            labels,
            "every training sentence was reviewed, so the rates are exact for the labelled secrets of this corpus. "
            "They say nothing about another corpus",
        ]
    return [
        labels,
        "gamma and delta2 are one-sided upper bounds from a random sample, at the stated confidence. The policies were "
        "not chosen by what this sample showed",
    ]


def about_mu() -> list[str]:
    """Returns the assumptions of a Bayesian claim about the attacker, beyond Definition 4."""
    return [
        "mu is a distribution over pairs of a sentence and a secret in it. CRT, Definition 4 and Proposition 6, fix "
        "the sentence instead. So the attacker must not know in which sentence the secret stands, nor anything that "
        "tells it (wording, place, length). The claim 'confidentiality' is for an attacker who knows the "
        "sentence and faces its own miss rate, which may be 1",
        "the attacker may know of which kind (label) the secret is, because gamma and delta2 are bounds for the worst "
        "label, and hold for all labels at once",
    ]


def unstable_count(stability: Stability | None) -> str:
    """Returns the number of masked secrets that are not redacted stably, as a clause."""
    if stability is None or stability.num_caught == 0:
        return _NOT_MEASURED
    return (
        f"of the {stability.num_caught:,} masked secrets that were reviewed, the redaction of "
        f"{stability.num_unstable:,} was not stable, and such secrets count as missed"
    )


def epsilon_is(unstable: str, reads_any_original: bool) -> str:
    """Returns for which secrets the stated epsilon is, and for which it is smaller.

    Args:
        unstable: number of masked secrets without a smaller epsilon, in words.
        reads_any_original: true if a part of the training read original text, for which a mask is worth nothing.
    """
    less = "no more than that of the training on original text" if reads_any_original else "0"
    return (
        f"The stated epsilon is for a secret that the policy misses. It is {less} for a secret whose redaction is "
        f"stable: the policy masks it, and masking it by hand leaves all else as it was ({unstable})."
    )


def _stable_or_missed(unstable: str) -> str:
    """Returns the assumption under which a masked secret costs nothing; ``unstable`` as in `epsilon_is`."""
    return (
        "training on redacted text costs nothing for a masked secret only if three conditions hold. First, its "
        f"redaction is stable: masking it by hand leaves all else that is redacted as it was ({unstable}). Second, all "
        "copies of its sentence are changed together (copies after the first are masked whole). Third, no other "
        "sentence of the corpus is what its sentence becomes when it is masked by hand, because deduplication would "
        "then mask one of the two whole. Otherwise a masked secret costs as much as one that the policy misses"
    )


def elsewhere_refusal(stability: Stability | None) -> str | None:
    """Returns why nothing is promised if a secret changes several records, or None if no reviewed secret does."""
    if stability is None or not stability.num_unstable_elsewhere:
        return None
    return (
        f"{stability.num_unstable_elsewhere:,} of {stability.num_caught:,} reviewed secrets that are masked change "
        "what is masked in other sentences of their document, so one secret changes several records, and may move one "
        "to the public set; leave policies that look at whole documents (propagate, speakers) out of redact.policies"
    )


def misses_nothing(stability: Stability | None) -> bool:
    """Returns true if masked secrets are known to be stable in every combination. The caller checks for a census."""
    return stability is not None and stability.num_unstable == 0 and stability.num_unstable_together == 0
