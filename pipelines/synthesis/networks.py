"""A network that text teaches: the run's own architecture, trained without noise, and tried on real text.

It begins at the start weights of the run, reads text with the run's tokenizer, which every kind of text shares, and is
trained for a fixed number of steps: nothing is chosen by a score. Private, as `pipelines.synthesis.downstream` is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from pipelines.dp.language import token_losses
from pipelines.gate.strings import words_of
from pipelines.synthesis.downstream import Row, perplexity_of
from pipelines.training.devices import cpu_threads_for
from pipelines.training.encoded import Record, padded
from pipelines.training.models.adaptation import count_parameters
from pipelines.training.trained import TrainedModel

if TYPE_CHECKING:
    from pipelines.training.encoded import EncodedRecords

MOST_WEIGHTS_ON_CPU: Final = 20_000_000
NUM_SEEDS: Final = 3
_BATCH_ROWS: Final = 32
_MOST_NORM: Final = 1.0


def is_affordable(model: TrainedModel) -> bool:
    """Tells if a network is trained nine times: any on a GPU, and on a CPU what a small machine trains in minutes."""
    return model.device.type != "cpu" or count_parameters(model.model)[1] <= MOST_WEIGHTS_ON_CPU


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Trains a network on each kind of text, and tries it.

    Attributes:
        start: the network at its start weights, by seed.
        num_steps: number of AdamW steps, of 32 rows each.
        learning_rate: learning rate of the first step; it falls to 0 linearly.
        seed: first of `NUM_SEEDS` seeds of drawn start weights and of the order of rows; also that of the bootstrap.
        tell: function that takes the number of trainings that are done, and of all.
    """

    start: Callable[[int], TrainedModel]
    num_steps: int
    learning_rate: float
    seed: int = 0
    tell: Callable[[int, int], None] = lambda done, of: None

    def __call__(self, kinds: Mapping[str, Sequence[Row]], test: Sequence[Row]) -> dict[str, Any]:
        """Measures what each kind teaches.

        Args:
            kinds: rows by kind, as many of each.
            test: rows of real text. Those that fill the network's context, where they may be cut, are left out.

        Returns:
            ``num_steps``, ``num_parameters``, ``num_test_rows``, and ``perplexity`` by kind: a word (the end of a row
            counts as one), from the mean loss of the seeds, with ``low`` and ``high`` over clusters, and ``of_seeds``.
        """
        model = self.start(self.seed)
        encoded = model.encode(map(_record, test))
        is_whole = encoded.lengths < model.context_length
        tried = [row for row, whole in zip(test, is_whole, strict=True) if whole]
        words = [len(words_of(row.text)) + 1 for row in tried]
        perplexity = {}
        for number, (name, rows) in enumerate(kinds.items()):
            nats = []
            for at in range(NUM_SEEDS):
                self.tell(number * NUM_SEEDS + at, len(kinds) * NUM_SEEDS)
                taught = self._taught(rows, self.seed + at)
                nats.append(taught.losses(map(_record, tried)).per_record)
            mean = np.mean(nats, axis=0).tolist()
            perplexity[name] = {
                **perplexity_of(tried, list(zip(mean, words, strict=True)), self.seed),
                "of_seeds": [float(np.exp(one.sum() / sum(words))) for one in nats],
            }
        return {
            "num_steps": self.num_steps,
            "num_parameters": count_parameters(model.model)[1],
            "num_test_rows": len(tried),
            "perplexity": perplexity,
        }

    def _taught(self, rows: Sequence[Row], seed: int) -> TrainedModel:
        start = self.start(seed)
        model = TrainedModel(
            copy.deepcopy(start.model).requires_grad_(True),
            start.vocabulary,
            {**{name: getattr(start, name) for name in ("method", "task", "context_length")}, "marks_tokens": False},
        )
        encoded = model.encode(map(_record, rows))
        with torch.random.fork_rng(), cpu_threads_for(count_parameters(model.model)[1]):
            torch.manual_seed(seed % 2**63)
            self._train(model, encoded, np.random.default_rng(seed))
        model.model.requires_grad_(False).eval()
        return model

    def _train(self, model: TrainedModel, encoded: EncodedRecords, generator: np.random.Generator) -> None:
        weights = list(model.model.parameters())
        optimizer = torch.optim.AdamW(weights, lr=self.learning_rate)
        falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / self.num_steps)
        order = np.zeros(0, dtype=np.int64)
        model.model.train()
        for _ in range(self.num_steps):
            if not len(order):
                order = generator.permutation(len(encoded))
            rows, order = order[:_BATCH_ROWS], order[_BATCH_ROWS:]
            ids, is_asked, _ = padded(encoded, rows, model.control.pad)
            if not is_asked.any():
                continue
            inputs = torch.from_numpy(ids[:, :-1].copy()).to(model.device)
            logits = model.model(input_ids=inputs, use_cache=False).logits[torch.from_numpy(is_asked).to(model.device)]
            labels = torch.from_numpy(ids[:, 1:][is_asked]).to(model.device)
            optimizer.zero_grad()
            torch.autograd.backward(token_losses(logits, labels).mean())
            torch.nn.utils.clip_grad_norm_(weights, _MOST_NORM)
            optimizer.step()
            falling.step()


def _record(row: Row) -> Record:
    return Record(texts=[row.text], speakers=[row.speaker], domains=[row.domain])
