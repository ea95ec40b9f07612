"""Lower bounds on epsilon from the final weights alone, by losses of canaries, at epsilon 4.

Run by ``audit_tightness.py --black-box``. A small GPT-2 trains from scratch by DP-AdamW, with the engine and defaults
of `dpsgd` (batch of 256, step size 2e-3, eight epochs), on short sentences of the simulator and 1,000 canaries, each
included by a fair coin. The rate, the noise and the claim are those of the records that are there. Canaries are a new
token each (``{rare:1}``, added to the vocabulary), or a beginning of the corpus that goes on with words at random. The
score is the loss before training less the loss after it: the initial weights are public.

Two models are one trained with all canaries and one with none, of the same noise multiplier.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Composed, dp_sgd
from pipelines.attacks.canaries import Canary, draw_canaries, draw_text_canaries, flip_coins
from pipelines.attacks.epsilon_estimates import EpsilonEstimate, epsilon_estimates, two_model_estimates
from pipelines.attacks.epsilon_trials import Trials
from pipelines.attacks.patterns import Pattern
from pipelines.attacks.white_box import RELATION
from pipelines.corpus.customersim import simulate
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.privacy import PrivacyEngine
from pipelines.dp.sampling import plan_private_steps
from pipelines.training.data.control import USUAL_TOKENS
from pipelines.training.data.tokenizer import loadable, train_bpe
from pipelines.training.data.vocabulary import Vocabulary, vocabulary_of
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import PRESETS
from pipelines.training.trained import TrainedModel

NUM_CANARIES, MOST_TOKENS = 1_000, 16
EPOCHS, BATCH, STEP_SIZE, MAX_GRAD_NORM = 8, 256, 2e-3, 0.1
FORMS = ("new token", "text")
IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of an attack; everything else is as in `dpsgd`.

    Attributes:
        form: form of the canaries, one of `FORMS`.
        step_size: step size of AdamW.
        max_grad_norm: bound of clipping.
    """

    form: str
    step_size: float = STEP_SIZE
    max_grad_norm: float = MAX_GRAD_NORM


def corpus(num: int) -> list[str]:
    """Returns distinct turns of simulated dialogues."""
    found: dict[str, None] = {}
    for row in simulate(num, 0):
        for line in row["text"].splitlines():
            found.setdefault(line.partition(": ")[2] or line)
    texts = sorted(text for text in found if len(text.split()) >= 4)
    random.Random(0).shuffle(texts)
    return texts


def canaries_of(form: str, texts: Sequence[str], rng: np.random.Generator) -> list[Canary]:
    """Draws a thousand canaries of one form; texts are public here."""
    if form == "new token":
        return draw_canaries(rng, Pattern.parse("{rare:1}"), NUM_CANARIES, variant="missed")
    words = sorted({word for text in texts for word in text.split() if word.isalpha()})
    prefixes = [" ".join(text.split()[:3]) for text in texts[:NUM_CANARIES]]
    return draw_text_canaries(rng, prefixes, words, num_words=4)


class Attack:
    """An attack that trains models with and without canaries, and scores the canaries.

    Args:
        setting: setting of the attack.
        epsilon: epsilon of the claim, add-or-remove.
        delta: delta of the claim.
        seed: seed of canaries, coins and initial weights; noise and samples are the engine's own, secret ones.
    """

    def __init__(self, setting: Setting, epsilon: float, delta: float, seed: int) -> None:
        self.setting, self.epsilon, self.delta = setting, epsilon, delta
        self.rng = np.random.default_rng(seed)
        texts = corpus(300)
        public = texts[:NUM_CANARIES]
        self.canaries = canaries_of(setting.form, public, self.rng)
        tokenizer = train_bpe(public, 1_000, USUAL_TOKENS)
        if setting.form == "new token":
            tokenizer.add_tokens([canary.text for canary in self.canaries])
        self.vocabulary = vocabulary_of(loadable(tokenizer), USUAL_TOKENS, kind="bpe_public", trained_on="public")
        encode = self.vocabulary.backend.encode
        self.others = [text for text in texts[NUM_CANARIES:] if len(encode(text).ids) <= MOST_TOKENS]
        self.seed = seed
        self.before = self._losses(self._model())

    def one_run(self) -> tuple[float, dict[str, EpsilonEstimate]]:
        """Returns the claim and all estimates of one training with coins."""
        coins = flip_coins(self.rng, self.canaries)
        plan = plan_private_steps(len(self.others) + sum(coins.values()), BATCH, EPOCHS)
        noise = self._noise(plan)
        after = self._losses(self._trained([c for c in self.canaries if coins[c.id]], noise))
        trials = Trials.joined(self._scores(after), coins)
        found = epsilon_estimates(trials, delta=self.delta, confidence=0.95, rng=self.rng)
        return self._claim(plan, noise), dict(found)

    def two_models(self) -> tuple[float, dict[str, EpsilonEstimate]]:
        """Returns the larger claim of the two, and all estimates that need no coins."""
        scores, claims = [], []
        noise = self._noise(plan_private_steps(len(self.others), BATCH, EPOCHS))  # fewer records have a higher rate
        for added in (self.canaries, []):
            plan = plan_private_steps(len(self.others) + len(added), BATCH, EPOCHS)
            after = self._losses(self._trained(added, noise))
            scores.append(self._scores(after))
            claims.append(self._claim(plan, noise))
        found = two_model_estimates(*scores, delta=self.delta, confidence=0.95, rng=self.rng)
        return max(claims), dict(found)

    def _claim(self, plan: Any, noise: float) -> float:
        step = dp_sgd(noise_multiplier=noise, sample_rate=plan.sample_rate, num_steps=plan.num_steps)
        return epsilon(Composed(events=(step,)), self.delta, RELATION)

    def _noise(self, plan: Any) -> float:
        return calibrate_noise_multiplier(
            target_epsilon=self.epsilon, target_delta=self.delta, sample_rate=plan.sample_rate,
            num_steps=plan.num_steps, relation=RELATION,
        )  # fmt: skip

    def _model(self) -> nn.Module:
        vocabulary = self.vocabulary
        return build_model(PRESETS["tiny"], vocabulary.backend.get_vocab_size(), vocabulary.control, self.seed)

    def _trained(self, added: Sequence[Canary], noise: float) -> nn.Module:
        model = self._model()
        records = Encoded(as_trained(model, self.vocabulary), [*self.others, *(canary.text for canary in added)])
        engine = PrivacyEngine(relation=RELATION)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.setting.step_size)
        _, private, loader = engine.make_private(
            module=model,
            optimizer=optimizer,
            data_loader=torch.utils.data.DataLoader(records, batch_size=BATCH),
            noise_multiplier=noise,
            max_grad_norm=self.setting.max_grad_norm,
        )
        for _ in range(EPOCHS):
            for ids, labels in loader:
                private.backward(causal_lm_losses(model, ids, labels))
                private.step()
        return model

    def _losses(self, model: nn.Module) -> Mapping[str, float]:
        """Returns the loss of each record, or of its new token after the beginning of a text, in nats."""
        texts = [canary.text for canary in self.canaries]
        records = Encoded(as_trained(model, self.vocabulary), texts)
        if self.setting.form == "new token":
            records.keep_first_target()
        model.eval()
        with torch.no_grad():
            parts = [
                causal_lm_losses(model, *(torch.stack(column) for column in zip(*rows, strict=True)))
                for rows in batches([records[at] for at in range(len(records))], BATCH)
            ]
        return dict(zip((canary.id for canary in self.canaries), torch.cat(parts).tolist(), strict=True))

    def _scores(self, after: Mapping[str, float]) -> dict[str, float]:
        """Returns the loss of each canary before the training less that after it.

        Training changes the hidden state after the beginning of a text. A new token with the initial row e gains or
        loses by that linearly in e. The initial weights are public: the part that is linear in e is subtracted, by
        least squares and without the coins.
        """
        found = {name: self.before[name] - loss for name, loss in after.items()}
        if self.setting.form != "new token":
            return found
        rows = self._model().get_input_embeddings().weight.detach().double().numpy()
        tokens = [self.vocabulary.backend.token_to_id(canary.text) for canary in self.canaries]
        known = np.column_stack([rows[tokens], np.ones(len(tokens))])
        gains = np.array([found[canary.id] for canary in self.canaries])
        residuals = gains - known @ np.linalg.lstsq(known, gains, rcond=None)[0]
        return dict(zip((canary.id for canary in self.canaries), residuals.tolist(), strict=True))


class Encoded(torch.utils.data.Dataset[Any]):
    """A data set of records as (ids, labels), padded to the longest."""

    def __init__(self, model: TrainedModel, texts: Sequence[str]) -> None:
        encoded = model.encode(texts)
        length = int(np.diff(encoded.offsets).max())
        self._ids = torch.zeros(len(encoded), length, dtype=torch.int64)
        self._labels = torch.full((len(encoded), length), IGNORED)
        for at, (start, end) in enumerate(zip(encoded.offsets[:-1], encoded.offsets[1:], strict=True)):
            ids = torch.from_numpy(encoded.ids[start:end].astype(np.int64))
            self._ids[at, : end - start] = ids
            asked = torch.from_numpy(encoded.is_target[start:end])
            self._labels[at, : end - start] = torch.where(asked, ids, IGNORED)

    def keep_first_target(self) -> None:
        is_asked = self._labels != IGNORED
        self._labels[is_asked.cumsum(dim=1) > 1] = IGNORED

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._ids[index], self._labels[index]


def as_trained(model: nn.Module, vocabulary: Vocabulary) -> TrainedModel:
    """Returns a network with the encoding of `dpsgd`."""
    length = PRESETS["tiny"].context_length
    described = {"method": "dpsgd", "task": "language_modelling", "context_length": length, "marks_tokens": False}
    return TrainedModel(model, vocabulary, described)


def batches(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
