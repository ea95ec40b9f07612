"""Names of a finished model's figures, in ``figures.json`` of its evaluation and in the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipelines.training.scoring.evaluation import Evaluation

EVALUATED_ON: Final = (
    "original (unredacted) sentences of the held-out fold, which are taken to be public, as in JFT, appendix A.2; "
    "figures on them are no part of the guarantee if they are not"
)


def figures_document(
    evaluation: Evaluation, scores: Mapping[str, Any], *, evaluate_fold: str, num_available: int
) -> dict[str, Any]:
    """Returns the report's figures of an evaluation, of scores of generated text, and of a fold."""
    return {
        "perplexity": evaluation.perplexity,
        "perplexity_per_word": evaluation.perplexity_per_word,
        "bits_per_byte": evaluation.bits_per_byte,
        "perplexity_reason": evaluation.reason,
        "loss_per_token": evaluation.loss,
        "loss_per_token_standard_error": evaluation.loss_standard_error,
        "next_token_accuracy": evaluation.next_token_accuracy,
        "next_word_accuracy": evaluation.next_word_accuracy,
        "accuracy": evaluation.accuracy,
        "accuracy_standard_error": evaluation.accuracy_standard_error,
        "accuracy_by_class": evaluation.accuracy_by_class,
        "scores": dict(scores),
        "evaluate_fold": evaluate_fold,
        "evaluated_on": EVALUATED_ON,
        "num_eval_sentences": evaluation.num_sentences,
        "num_eval_sentences_available": num_available,
        "num_eval_tokens": evaluation.num_tokens,
    }
