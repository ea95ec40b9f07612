"""What claims rest on, in words. Each list is short, so that people read it."""

from __future__ import annotations

from pipelines.accounting.methods import rule_of
from pipelines.accounting.run_facts import CorpusFacts, TrainingFacts
from pipelines.miss_rate.rates import Delta2


def voids(training: TrainingFacts) -> list[str]:
    """Facts that take the promise out of every claim, whatever its numbers."""
    found = []
    if training.insecure_test_seed:
        found.append("insecure_test_seed is set: samples and noise can be repeated by anyone who knows the seed")
    if training.tokenizer_trained_on not in ("public", "none", "elsewhere"):
        found.append(
            f"the tokenizer was trained on {training.tokenizer_trained_on} text: its vocabulary alone can give a "
            "secret away, and epsilon does not cover it"
        )
    if training.tokenizer_trained_on == "public" and not rule_of(training.method, training.variant).has_public_set:
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


def common(training: TrainingFacts) -> list[str]:
    """What every claim of a run rests on."""
    found = [
        f"the unit of privacy is one {training.record}; a person or a fact may be spread over many",
        "neighbours differ by the replacement of one record, so both hold the same number of private records, and "
        "the sampling rate and number of steps may depend on it",
        "epsilon covers the weights only: learning curves, figures, audits and reports are releases of their own",
        "one release: a second model trained on the same records is a second release; compose the unamplified "
        "epsilons of all releases first, then give credit for redaction once (`reticent ledger` does both for the "
        "releases of its store)",
        "validation and test folds are public",
        "hyper-parameters were not chosen by looking at private data",
        "the models that redaction uses were pre-trained on other, public data",
        "speaker, domain and label of a row are not redacted: public rows are published with them, the speaker is "
        "trained on, and domain and label set the order of public rows; none of them holds a secret",
        "a run that stops because a private gradient is not a finite number says so without noise; no run on these "
        "records stopped for that reason",
    ]
    if training.tokenizer_trained_on == "public":
        found.append("the tokenizer was trained on the public set only")
    elif training.tokenizer_trained_on == "elsewhere":
        found.append("the tokenizer was trained elsewhere, on none of the private records")
    return [*found, *(note for note in training.notes if note not in found)]


def about_corpus(corpus: CorpusFacts, training: TrainingFacts, on: str) -> list[str]:
    """What ties a claim to the corpus before, or after, deduplication."""
    splitting = (
        "splitting into sentences came out the same in both: where an over-long sentence is cut, where a sentence "
        "ends, and whether a text is taken for a dialogue are read from the text, and a secret may change them"
    )
    if on == "deduplicated":
        why = (
            corpus.dedup_reason
            if corpus.dedup_stability is None
            else f"the record is one {training.record}, and the stability of deduplication is known for sentences only"
        )
        found = [
            "the claim is about the corpus *after* splitting and deduplication: neighbours are taken there, not in the "
            "corpus as it was given. " + why,
            splitting,
        ]
    else:
        size = corpus.dedup_stability or 1
        found = [
            f"the claim is about the corpus after splitting into sentences, before deduplication: one replaced "
            f"{training.record if not corpus.reads_redacted else 'sentence'} changes at most {size} training record"
            f"{'s, which enter as the group size' if size > 1 else ''}. {corpus.dedup_reason}",
            splitting,
        ]
    if corpus.dedup_min_tokens:
        found.append(
            f"sentences of fewer than {corpus.dedup_min_tokens} tokens are not deduplicated: a secret in k copies of "
            "one is a group of k"
        )
    if corpus.couples_rows:
        found.append(
            f"these policies look beyond one sentence and tie rows together: {', '.join(corpus.couples_rows)}; the "
            "claim supposes that a secret does not change what they mask or flag elsewhere"
        )
    if corpus.plugins:
        found.append(
            f"these policies are plug-ins: {', '.join(corpus.plugins)}; whether they keep a state from one sentence to "
            "the next, or were fitted on this corpus, cannot be known, and the claim supposes that they do neither"
        )
    return found


ONE_SENTENCE = "the secret stands in one kept sentence; one that stands in several is a group of as many"
"""What a claim about a single secret supposes, since the unit of privacy is one sentence."""


def about_caught(corpus: CorpusFacts) -> list[str]:
    """When a masked secret costs nothing."""
    if not corpus.reads_redacted:
        return ["training reads the original text: redaction gives no credit, and every secret counts as missed"]
    if not corpus.collapses:
        return [
            "redact.collapse is false, so masks show a secret's length: a masked secret costs as much as a missed one"
        ]
    return [
        "epsilon is 0 for a masked secret only if every exact copy of its sentence is changed together (copies after "
        "the first are masked whole) and if masking it by hand leaves all else that the policy masks in the sentence "
        "as it was; otherwise it is that of a missed secret",
    ]


def about_public_set(corpus: CorpusFacts, delta2: Delta2 | None) -> list[str]:
    """How missed secrets are kept out of the public set."""
    if not corpus.reads_redacted:
        return ["there is no public set: every sentence is trained on as a private record"]
    if not corpus.has_conservative:
        return [
            "no sentence is trained on as a public one (there is no conservative policy, or the method has no public "
            "set), so delta2 is 0"
        ]
    if delta2 is None:
        return []
    if delta2.upper == 0:
        return ["no labelled secret of this corpus that the policy misses stands in a public sentence (delta2 is 0)"]
    return [
        f"missed secrets stand in public sentences with probability at most {delta2.upper:.3g} over mu (delta2, "
        f"confidence {delta2.confidence:g}), which is part of delta"
    ]


def about_review(is_census: bool) -> list[str]:
    """What gamma and delta2 rest on."""
    labels = "the labels mark every secret: one that nobody labelled is not covered, nor is a mu of another shape"
    if is_census:
        return [
            labels,
            "every training sentence was reviewed, so the rates are exact for the labelled secrets of this corpus; "
            "they say nothing of another corpus",
        ]
    return [labels, "gamma and delta2 are one-sided upper bounds from a random sample, at the stated confidence"]


def about_mu() -> list[str]:
    """What a Bayesian claim supposes of the attacker, beyond Definition 4."""
    return [
        "mu is over pairs of a sentence and a secret in it, while CRT, Definition 4 and Proposition 6, fix the "
        "sentence: the attacker must not know in which sentence the secret stands, nor anything that tells (wording, "
        "place, length). Whoever knows the sentence faces its own miss rate, which may be 1; the claim "
        "'confidentiality' is for that attacker",
        "the attacker may know of which kind (label) the secret is: gamma and delta2 are the bounds of the worst "
        "label, which hold for all labels at once",
    ]
