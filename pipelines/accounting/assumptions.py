"""What claims rest on, in words. Each list is short, so that people read it."""

from __future__ import annotations

from pipelines.accounting.run_facts import CorpusFacts, TrainingFacts
from pipelines.miss_rate.rates import Delta2


def voids(training: TrainingFacts) -> list[str]:
    """Facts that take the promise out of every claim, whatever its numbers."""
    found = []
    if training.insecure_test_seed:
        found.append("insecure_test_seed is set: samples and noise can be repeated by anyone who knows the seed")
    if training.tokenizer_trained_on not in ("public", "none"):
        found.append(
            f"the tokenizer was trained on {training.tokenizer_trained_on} text: its vocabulary alone can give a "
            "secret away, and epsilon does not cover it"
        )
    if training.public_order != "content_hash":
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
        "epsilons of all releases first, then give credit for redaction once",
        "validation and test folds are public",
        "hyper-parameters were not chosen by looking at private data",
        "the models that redaction uses were pre-trained on other, public data",
    ]
    if training.tokenizer_trained_on == "public":
        found.append("the tokenizer was trained on the public set only")
    return [*found, *(note for note in training.notes if note not in found)]


def about_corpus(corpus: CorpusFacts, training: TrainingFacts, on: str) -> list[str]:
    """What ties a claim to the corpus before, or after, deduplication."""
    if on == "deduplicated":
        why = (
            corpus.dedup_reason
            if corpus.dedup_stability is None
            else f"the record is one {training.record}, and the stability of deduplication is known for sentences only"
        )
        found = [
            "the claim is about the corpus *after* deduplication: neighbours are taken there, not in the raw corpus. "
            + why
        ]
    else:
        size = corpus.dedup_stability or 1
        found = [
            f"the claim is about the raw corpus: one replaced sentence changes at most {size} training record"
            f"{'s, which enter as the group size' if size > 1 else ''}. {corpus.dedup_reason}"
        ]
    if corpus.dedup_min_tokens:
        found.append(
            f"sentences of fewer than {corpus.dedup_min_tokens} tokens are not deduplicated: a secret in k copies of "
            "one is a group of k"
        )
    if corpus.couples_rows:
        found.append(
            f"these policies look beyond one sentence and tie rows together: {', '.join(corpus.couples_rows)}; the "
            "claim supposes that a secret does not change what they mask elsewhere"
        )
    return found


def about_caught(corpus: CorpusFacts) -> list[str]:
    """When a masked secret costs nothing."""
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
    if not corpus.has_conservative:
        return ["there is no conservative policy, so every sentence is private and delta2 is 0"]
    if delta2 is None:
        return []
    return [
        f"missed secrets stand in public sentences with probability at most {delta2.upper:.3g} over mu (delta2, "
        f"confidence {delta2.confidence:g}), which is part of delta"
    ]


def about_review(is_census: bool) -> list[str]:
    """What gamma and delta2 rest on."""
    labels = "the labels mark every secret; secrets outside mu, or a mu of another shape, are not covered"
    if is_census:
        return [labels, "every training sentence was reviewed, so mu is exactly the labelled secrets of this corpus"]
    return [labels, "gamma and delta2 are one-sided upper bounds from a random sample, at the stated confidence"]
