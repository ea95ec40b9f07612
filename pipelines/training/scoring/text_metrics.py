"""Scores of generated text against references: BLEU, ROUGE, NIST, METEOR, CIDEr-D, F1, and BERTScore.

Figures in papers come from older scripts (e2e-metrics, GEM-metrics) with their own tokenisation. Our figures are close
to them but not equal, and may be compared with each other. If a library is missing, its score is None, with the reason.
BERTScore is asked for by a setting, so that a missing library is an error.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pipelines.errors import ConfigError, InputError
from pipelines.pretrained import hub_folder, is_hub_name
from pipelines.training.scoring.ngrams import cider_d, nist, word_f1

_WORD: Final = re.compile(r"\w+|[^\w\s]")
ADVICE: Final = "install it with: pip install 'reticent[metrics]'"
MATCHING: Final = ("exact, stem and synonym", "exact and stem")
"""Word matching of METEOR, with and without WordNet's data."""


@dataclass(frozen=True, kw_only=True)
class TextScores:
    """Scores of outputs. A score is None if ``missing`` has its reason.

    Attributes:
        bleu: corpus BLEU-4 of sacrebleu (13a, ignoring case), 0 to 100. Extra references of single sentences count.
        rouge_1, rouge_2, rouge_l: mean over sentences of the best ROUGE F1 (rouge-score, no stemming), 0 to 100: of
            words, of pairs of words, and of the longest common subsequence.
        nist: NIST-5, 0 or more.
        meteor: mean METEOR of nltk (alpha 0.9, beta 3, gamma 0.5), 0 to 1.
        meteor_matching: ``exact, stem and synonym``, or ``exact and stem`` if WordNet's data is not installed.
        cider: CIDEr-D, 0 to 10.
        f1: mean of the best word F1, 0 to 1.
        num_outputs: number of scored outputs.
        missing: reason for each score that is None, by its name.
    """

    bleu: float | None
    rouge_1: float | None
    rouge_2: float | None
    rouge_l: float | None
    nist: float
    meteor: float | None
    meteor_matching: str | None
    cider: float
    f1: float
    num_outputs: int
    missing: dict[str, str]


def words_of(text: str) -> list[str]:
    """Returns lower-case words and punctuation marks, which NIST, METEOR and CIDEr-D count."""
    return _WORD.findall(text.lower())


def score_texts(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> TextScores:
    """Scores outputs against one or more references each.

    Raises:
        InputError: there are no outputs, or an output has no reference.
    """
    if not outputs or len(outputs) != len(references) or not all(references):
        raise InputError("metrics: every output needs a reference, and there must be an output")
    missing: dict[str, str] = {}

    def attempt(name: str, score: Callable[[], float]) -> float | None:
        try:
            return score()
        except ImportError as error:
            missing[name] = f"{error.name or 'a library'} is not installed; {ADVICE}"
            return None

    ours = [words_of(text) for text in outputs]
    theirs = [[words_of(text) for text in group] for group in references]
    matching: list[str] = []
    meteor = attempt("meteor", lambda: _meteor(ours, theirs, matching))
    return TextScores(
        bleu=attempt("bleu", lambda: bleu(outputs, references)),
        rouge_1=attempt("rouge_1", lambda: rouge("rouge1", outputs, references)),
        rouge_2=attempt("rouge_2", lambda: rouge("rouge2", outputs, references)),
        rouge_l=attempt("rouge_l", lambda: rouge("rougeL", outputs, references)),
        nist=nist(ours, theirs),
        meteor=meteor,
        meteor_matching=matching[0] if matching else None,
        cider=cider_d(ours, theirs),
        f1=sum(map(word_f1, outputs, references)) / len(outputs),
        num_outputs=len(outputs),
        missing=missing,
    )


def bleu(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Returns corpus BLEU (Papineni et al. 2002) by sacrebleu, tokenised as in mteval-13a, ignoring case."""
    from sacrebleu.metrics.bleu import BLEU

    most = max(map(len, references))
    streams: list[Any] = [[group[at] if at < len(group) else None for group in references] for at in range(most)]
    return float(BLEU(lowercase=True).corpus_score(list(outputs), streams).score)


def rouge(
    kind: Literal["rouge1", "rouge2", "rougeL"], outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Returns the mean of the best ROUGE F1 (Lin 2004), times 100."""
    from rouge_score import rouge_scorer

    scorer = rouge_scorer.RougeScorer([kind])
    best: list[float] = [
        max(scorer.score(reference, output)[kind].fmeasure for reference in group)
        for output, group in zip(outputs, references, strict=True)
    ]
    return 100 * sum(best) / len(best)


class _NoSynonyms:
    """A replacement of WordNet, if its data is missing: no word has a synonym."""

    @staticmethod
    def synsets(word: str) -> list[Any]:
        """Returns no synonyms."""
        del word
        return []


def _meteor(outputs: list[list[str]], references: list[list[list[str]]], matching: list[str]) -> float:
    from nltk.corpus import wordnet
    from nltk.translate.meteor_score import meteor_score

    synonyms: Any = wordnet
    try:
        wordnet.ensure_loaded()
        matching.append(MATCHING[0])
    except LookupError:
        synonyms = _NoSynonyms()
        matching.append(MATCHING[1])
    scores = [meteor_score(group, output, wordnet=synonyms) for output, group in zip(outputs, references, strict=True)]
    return float(sum(scores)) / len(scores)


def check_bert_score(model: str) -> Path:
    """Checks that BERTScore can be measured. Imports neither the package nor the model.

    Args:
        model: name of an encoder on the hub.

    Returns:
        The folder of the model in the local Hugging Face cache.

    Raises:
        ConfigError: ``bert-score`` is not installed, or the cache lacks the model.
    """
    if importlib.util.find_spec("bert_score") is None:
        raise ConfigError(
            "train.bert_score_model needs the package bert-score. Install it with: pip install 'reticent[bert-score]', "
            "or leave the setting out"
        )
    folder = hub_folder(model, None) if is_hub_name(model) else None
    if folder is None:
        raise ConfigError(
            f"train.bert_score_model: {model if is_hub_name(model) else 'the name'} is no model in the local Hugging "
            "Face cache. Name one of the hub, and fetch it once with `hf download OWNER/NAME`"
        )
    return folder


def bert_score(outputs: Sequence[str], references: Sequence[Sequence[str]], model: str) -> dict[str, Any]:
    """Returns the mean of the best BERTScore F1 over each output's references, without idf weights and rescaling.

    The layer is the one that bert-score prefers for the model, or the last one of a model that it does not know. An
    output without text scores 0, as bert-score documents it (with transformers 5 it stops at such a text).

    Args:
        outputs: texts of a model, at least one.
        references: references of each output.
        model: name of an encoder on the hub, which lies in the local cache.

    Returns:
        ``bert_score``, at most 1, and ``bert_score_layer``.

    Raises:
        ConfigError: ``bert-score`` or the model is missing (`check_bert_score`).
    """
    folder = str(check_bert_score(model))
    from bert_score import score
    from bert_score.utils import model2layers
    from transformers import AutoConfig

    last = AutoConfig.from_pretrained(folder, local_files_only=True).num_hidden_layers
    layer = int(model2layers.get(model, model2layers.get(model.rpartition("/")[2], last)))
    groups = [[text for text in group if text.strip()] for group in references]
    scored = [pair for pair in zip(outputs, groups, strict=True) if pair[0].strip() and pair[1]]
    total = 0.0
    if scored:
        texts, their = map(list, zip(*scored, strict=True))
        _, _, best = score(texts, their, model_type=folder, num_layers=layer)
        total = float(best.double().sum())
    return {"bert_score": total / len(outputs), "bert_score_layer": layer}
