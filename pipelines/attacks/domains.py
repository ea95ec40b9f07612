"""LiRa across domains: an attack that asks a model about one domain and looks for sensitive text of another.

Source: Kabra and Elenberg (2023): prompts of a domain d_i, leakage of every other domain d_j, and for each j a
reference that was trained on D without d_j (section 4); ten texts after each of a hundred prompts (section 6.3).
d_j's policy decides which texts are leaks (section 5.1). Rates and C are in `pipelines.attacks.domain_scores`.

The caller provides the models; `needed_models` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.attacks.domain_scores import FloatArray, Judged, Pair
from pipelines.attacks.prompting import Decoding, continuation_losses, fitted
from pipelines.errors import ConfigError
from pipelines.policies.detectors.keywords import label_of
from pipelines.randomness import sample_of
from pipelines.training.encoded import Record

if TYPE_CHECKING:
    from pipelines.policies.judging.texts import TextJudge
    from pipelines.training.trained import TrainedModel

NUM_CONVERSATIONS: Final = 10
NUM_PROMPTS: Final = 10
"""Number of prompts of each conversation: a hundred in all, as in the paper's code."""
NUM_WORDS: Final = 3
"""Number of words of a prompt that is the beginning of a sentence."""
PAPER_DECODING: Final = Decoding(kind="sampling", num=10, max_new_tokens=256, top_k=40)
"""Decoding of the paper's code."""


@dataclass(frozen=True, kw_only=True)
class NeededModel:
    """A training that a comparison needs.

    Attributes:
        name: name of the model, in tables.
        domains: domains of its training rows.
        method: training method, as in ``train.method``.
        num_steps_factor: number of steps, as a share of those of the other models.
    """

    name: str
    domains: tuple[str, ...]
    method: str = "no_dp"
    num_steps_factor: float = 1.0


def needed_references(domains: Sequence[str]) -> dict[str, NeededModel]:
    """Returns the reference of each domain that may leak: trained without protection on all others.

    Raises:
        ConfigError: there are fewer than two domains, or two of one name.
    """
    if len(domains) < 2 or len(set(domains)) < len(domains):
        raise ConfigError("leakage across domains needs at least two different domains")
    return {
        leaked: NeededModel(name=f"without {leaked}", domains=tuple(d for d in domains if d != leaked))
        for leaked in domains
    }


def needed_domain_only(domains: Sequence[str]) -> dict[str, NeededModel]:
    """Returns the baseline of each domain of prompts, which saw no other domain (section 5.2: DOMAIN_i Only)."""
    return {domain: NeededModel(name=f"{domain} only", domains=(domain,)) for domain in domains}


def needed_models(domains: Sequence[str]) -> dict[str, NeededModel]:
    """Returns the models trained on all domains that the paper compares (sections 5.2 and 6.4), by the paper's names.

    JFT takes two trainings in sequence. With half the steps of each it costs as much as the others.
    """
    everything = tuple(domains)
    methods = {
        "Public": ("no_dp", 1.0),
        "Pub+Redacted": ("redacted", 1.0),
        "Private": ("dpsgd", 1.0),
        "JFT": ("jft", 1.0),
        "JFT, half the steps": ("jft", 0.5),
        "Redaction Schedule": ("redaction_schedule", 1.0),
    }
    return {
        name: NeededModel(name=name, domains=everything, method=method, num_steps_factor=factor)
        for name, (method, factor) in methods.items()
    }


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts of one domain. Private.

    Attributes:
        records: records of the prompts.
        conversations: conversation of each prompt.
    """

    records: Sequence[Record] = field(repr=False)
    conversations: Sequence[Hashable] = field(repr=False)

    def without_domain_tokens(self) -> Prompts:
        """Returns the prompts for models that know no domains (the ablation of appendix E.3)."""
        return replace(self, records=[replace(record, domains=()) for record in self.records])

    def spread(self, num: int) -> Prompts:
        """Returns at most ``num`` prompts, the earliest of every conversation first."""
        seen: Counter[Hashable] = Counter()
        turn = []
        for name in self.conversations:
            turn.append(seen[name])
            seen[name] += 1
        chosen = sorted(sorted(range(len(turn)), key=turn.__getitem__)[:num])
        return replace(
            self,
            records=[self.records[number] for number in chosen],
            conversations=[self.conversations[number] for number in chosen],
        )

    def fitted(self, room: int, *models: TrainedModel) -> Prompts:
        """Returns the prompts shortened by `pipelines.attacks.prompting.fitted`."""
        return replace(self, records=[fitted(record, room, *models) for record in self.records])


def dialogue_prompts(
    rows: Iterable[Mapping[str, Any]],
    domain: str,
    rng: np.random.Generator,
    *,
    num_conversations: int = NUM_CONVERSATIONS,
    num_prompts: int = NUM_PROMPTS,
) -> Prompts:
    """Makes prompts of held-out conversations, each with the next turn still to be written, as in the paper's code.

    Args:
        rows: ``doc_id``, ``text``, ``speaker``, ``domain`` of rows that no model was trained on, conversation by
            conversation, in order.
        domain: domain of the conversations. Conversations of one turn have no next turn and are left out.
        rng: generator that draws the conversations.
        num_conversations: most conversations that are drawn.
        num_prompts: most prompts of each conversation, from its start.
    """
    groups = groupby((row for row in rows if row["domain"] == domain), key=lambda row: row["doc_id"])
    held = ((doc_id, list(islice(group, num_prompts + 1))) for doc_id, group in groups)
    records, conversations = [], []
    for doc_id, turns in sample_of((pair for pair in held if len(pair[1]) > 1), num_conversations, rng):
        for number in range(1, len(turns)):
            given = turns[: number + 1]
            records.append(
                Record(
                    texts=[*(row["text"] for row in given[:-1]), ""],
                    speakers=[row["speaker"] for row in given],
                    domains=[domain] * len(given),
                    starts=True,
                )
            )
            conversations.append(doc_id)
    return Prompts(records=records, conversations=conversations)


def sentence_prompts(
    rows: Iterable[Mapping[str, Any]], domain: str, rng: np.random.Generator, *, num: int = 100
) -> Prompts:
    """Makes prompts of the first words of held-out sentences, for models of single sentences (`dialogue_prompts`)."""
    fitting = (row for row in rows if row["domain"] == domain and len(row["text"].split()) > NUM_WORDS)
    drawn = sample_of(fitting, num, rng)
    return Prompts(
        records=[
            Record(texts=[" ".join(row["text"].split()[:NUM_WORDS])], speakers=[row["speaker"]], domains=[domain])
            for row in drawn
        ],
        conversations=[row["doc_id"] for row in drawn],
    )


class LabelledPolicies:
    """The policies `keywords` and `classifier`, whose labels are the domains (section 5.1).

    Args:
        judge: judge that masks by one of the two. The classifier must have a threshold of 0.5, so that z may be chosen
            afterwards.
        domains: domains, named as in the corpus.

    Raises:
        ConfigError: two domains have one label.
    """

    def __init__(self, judge: TextJudge, domains: Sequence[str]) -> None:
        self._judge = judge
        self._labels = {domain: label_of(domain) for domain in domains}
        if len(set(self._labels.values())) < len(self._labels):
            raise ConfigError("two domains have the same label for policies: rename one")

    def scores(self, texts: Sequence[str]) -> dict[str, FloatArray]:
        """Returns (N,) highest scores of text that is sensitive to each domain: 0 without any, NaN after a failure."""
        judged = self._judge.judge(texts)
        found = {}
        for domain, label in self._labels.items():
            scores = [max((s.score for s in j.spans if s.label == label), default=0.0) for j in judged]
            found[domain] = np.where([j.failed_closed for j in judged], np.nan, scores)
        return found


def attack(
    model: TrainedModel,
    prompts: Mapping[str, Prompts],
    policies: LabelledPolicies,
    decoding: Decoding,
    rng: np.random.Generator,
    *,
    references: Mapping[str, TrainedModel],
) -> dict[Pair, Judged]:
    """Lets a model write after the prompts of each domain, and judges the texts for every other domain.

    Args:
        model: attacked model.
        prompts: prompts of each domain; they must leave room (`Prompts.fitted`).
        policies: policies that find the sensitive text of each domain.
        decoding: decoding of the model.
        rng: generator of the draws.
        references: model trained on all other domains, for each domain that may leak. All use the tokens of ``model``.

    Raises:
        ConfigError: a reference is missing, or reads other tokens.
    """
    judged: dict[Pair, Judged] = {}
    for prompted, given in prompts.items():
        written = _write(model, given, decoding, rng)
        scores = policies.scores(written.texts)
        own = continuation_losses(model, written.prompts, written.texts)
        for leaked in references:
            if leaked == prompted:
                continue
            theirs = continuation_losses(references[leaked], written.prompts, written.texts)
            if not np.array_equal(own.num_tokens, theirs.num_tokens):
                raise ConfigError(
                    "the reference reads other tokens than the model, so their perplexities cannot be compared: train "
                    'both with the same tokenizer (train.tokenizer = "bytes", or that of one pretrained model)'
                )
            judged[prompted, leaked] = written.judged(scores[leaked], own.mean - theirs.mean)
    return judged


def attack_references(
    references: Mapping[str, TrainedModel],
    prompts: Mapping[str, Prompts],
    policies: LabelledPolicies,
    decoding: Decoding,
    rng: np.random.Generator,
) -> dict[Pair, Judged]:
    """Lets the reference without d_j write after the prompts of each d_i, judged for d_j: the right side of C.

    Arguments as `attack`.
    """
    judged: dict[Pair, Judged] = {}
    for leaked, reference in references.items():
        for prompted, given in prompts.items():
            if leaked != prompted:
                written = _write(reference, given, decoding, rng)
                judged[prompted, leaked] = written.judged(policies.scores(written.texts)[leaked], None)
    return judged


@dataclass(frozen=True)
class _Written:
    """Written texts, empty ones included, with their prompts and conversations."""

    prompts: list[Record]
    texts: list[str]
    conversations: list[Hashable]

    def judged(self, scores: FloatArray, lira: FloatArray | None) -> Judged:
        is_empty = np.asarray([not text for text in self.texts], dtype=np.bool_)
        return Judged(
            conversations=self.conversations,
            policy_scores=np.where(is_empty, np.nan, scores),
            num_empty=int(is_empty.sum()),
            num_failed=int((np.isnan(scores) & ~is_empty).sum()),
            lira=lira,
        )


def _write(model: TrainedModel, given: Prompts, decoding: Decoding, rng: np.random.Generator) -> _Written:
    texts = decoding.write(model, given.records, rng)
    pairs = list(zip(given.records, given.conversations, texts, strict=True))
    return _Written(
        prompts=[record for record, _, each in pairs for _ in each],
        texts=[text.strip() for _, _, each in pairs for text in each],
        conversations=[conversation for _, conversation, each in pairs for _ in each],
    )
