"""Prompts, continuations that models write, and their losses under another model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from pipelines.errors import ConfigError
from pipelines.training.encoded import FloatArray, IntArray, Record
from pipelines.training.models.recurrent import RecurrentLanguageModel

if TYPE_CHECKING:
    from pipelines.training.trained import TrainedModel

EMPTY: Final = Record(texts=[""])
"""Empty prompt."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """The decoding by which a model writes.

    Attributes:
        kind: ``greedy`` (takes the likeliest token each time), ``beams`` (searches) or ``sampling`` (draws).
        num: number of texts for each prompt; more than one only by ``sampling``.
        max_new_tokens: longest text, in tokens.
        temperature, top_k, top_p: settings of a draw; see `pipelines.training.trained.TrainedModel.generate`.
        num_beams: number of beams of a search.
        batch_size: number of texts at a time.
    """

    kind: Literal["greedy", "sampling", "beams"] = "sampling"
    num: int = 1
    max_new_tokens: int = 64
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    num_beams: int = 5
    batch_size: int = 64

    def __post_init__(self) -> None:
        if self.kind != "sampling" and self.num != 1:
            raise ConfigError(f"decoding by {self.kind} gives one text a prompt")

    def suits(self, *models: TrainedModel) -> bool:
        """Returns true if all models have this decoding: LSTM and GRU have no beam search."""
        return self.kind != "beams" or not any(isinstance(model.model, RecurrentLanguageModel) for model in models)

    def write(self, model: TrainedModel, prompts: Sequence[Record], rng: np.random.Generator) -> list[list[str]]:
        """Writes ``num`` texts for each prompt, in the model's own encoding, without control tokens and masks.

        Raises:
            ConfigError: a prompt leaves no room (see `fitted`), or the model lacks this decoding.
        """
        seed = int(rng.integers(2**62))
        if self.kind == "beams":
            return model.generate(
                prompts,
                max_new_tokens=self.max_new_tokens,
                num_beams=self.num_beams,
                batch_size=self.batch_size,
                seed=seed,
            )
        is_greedy = self.kind == "greedy"
        return model.generate(
            prompts,
            num=self.num,
            max_new_tokens=self.max_new_tokens,
            seed=seed,
            temperature=0.0 if is_greedy else self.temperature,
            top_k=0 if is_greedy else self.top_k,
            top_p=1.0 if is_greedy else self.top_p,
            batch_size=self.batch_size,
        )


def fitted(prompt: Record, room: int, *models: TrainedModel) -> Record:
    """Drops the earliest turns of a prompt, then words, until ``room`` more tokens fit into every model's context.

    Raises:
        ConfigError: not even an empty prompt leaves that room.
    """
    while any(int(model.encode([prompt]).lengths[0]) > model.context_length - room for model in models):
        words = prompt.texts[0].split()
        if len(prompt.texts) > 1:
            prompt = replace(
                prompt,
                texts=prompt.texts[1:],
                speakers=prompt.speakers[1:],
                domains=prompt.domains[1:],
                private_chars=prompt.private_chars[1:],
                starts=False,
            )
        elif words:
            prompt = replace(prompt, texts=[" ".join(words[(len(words) + 1) // 2 :])], private_chars=())
        else:
            raise ConfigError(f"a context leaves no room for {room} more tokens; generate shorter texts")
    return prompt


def completed(prompt: Record, text: str) -> Record:
    """Returns the record of a prompt and its continuation."""
    last = prompt.texts[-1]
    return replace(prompt, texts=[*prompt.texts[:-1], f"{last} {text}" if last else text])


@dataclass(frozen=True, kw_only=True)
class ContinuationLosses:
    """The losses of a model on texts after their prompts.

    Attributes:
        mean: (N,) nats a token of the text alone, without its end: log PPL(text | prompt). NaN without a token.
        num_tokens: (N,) number of tokens.
    """

    mean: FloatArray
    num_tokens: IntArray


def continuation_losses(model: TrainedModel, prompts: Sequence[Record], texts: Sequence[str]) -> ContinuationLosses:
    """Scores each text given its prompt; text number n follows prompt number n.

    A text is encoded with its prompt, as training would encode the record. If it was written in other tokens (it
    continued a word of the prompt), the figure is that of the usual tokens.
    """
    if not texts:
        return ContinuationLosses(mean=np.zeros(0), num_tokens=np.zeros(0, dtype=np.int64))
    losses = model.losses([completed(prompt, text) for prompt, text in zip(prompts, texts, strict=True)])
    whole, given = losses.records, model.encode(prompts)
    is_text = whole.is_target & ~np.isin(whole.ids, list(model.control.ends))
    mean, num_tokens = np.full(len(texts), np.nan), np.zeros(len(texts), dtype=np.int64)
    for number in range(len(texts)):
        row = slice(int(whole.offsets[number]), int(whole.offsets[number + 1]))
        before = given.ids[given.offsets[number] : given.offsets[number + 1]]
        shared = min(len(before), row.stop - row.start)
        differs = np.flatnonzero(before[:shared] != whole.ids[row][:shared])
        first = row.start + (int(differs[0]) if len(differs) else shared)
        asked = is_text[first : row.stop]
        num_tokens[number] = asked.sum()
        if num_tokens[number]:
            mean[number] = losses.per_token[first : row.stop][asked].mean()
    return ContinuationLosses(mean=mean, num_tokens=num_tokens)
