"""A trained model, read from its folder with the encoding that it was trained with.

Records are scored as training and its evaluation scored them: with the same control tokens around the same text, cut at
the same length, with the same targets. Masks, speakers, domains and the first token are inputs, never targets. Losses
are in nats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from pipelines.dp.language import token_losses
from pipelines.errors import ConfigError
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.vocabulary import Vocabulary
from pipelines.training.devices import cpu_threads_for
from pipelines.training.encoded import (
    BoolArray,
    EncodedRecords,
    FloatArray,
    IntArray,
    Losses,
    MemoryEncoder,
    Record,
    padded,
    sums_of,
)
from pipelines.training.model_folder import open_folder
from pipelines.training.models.adaptation import count_parameters
from pipelines.training.models.recurrent import RecurrentLanguageModel
from pipelines.training.models.recurrent_texts import draw_texts
from pipelines.training.scoring.generation import BeamSearch, Sampling, generate_each, never_written, text_of
from pipelines.training.tasks.registry import TASKS

_MOST_TOKENS: Final = 16_384
_FEWEST_TOKENS: Final = 1_024
_MOST_LOGITS: Final = 2**27
"""Largest number of logits at a time: half a gigabyte in float32."""


class TrainedModel:
    """A causal language model that Reticent trained. Made by `open_trained`.

    Attributes:
        model: network in float32 on ``device``, not to be trained further.
        vocabulary: vocabulary of the model.
        method, task: values of ``train.method`` and ``train.task``.
        context_length: longest record, in tokens.
    """

    def __init__(self, model: Any, vocabulary: Vocabulary, description: Mapping[str, Any]) -> None:
        """Makes a model from what `read_description` returns."""
        self.model = model
        self.vocabulary = vocabulary
        self.method: str = description["method"]
        self.task: str = description["task"]
        self.context_length: int = description["context_length"]
        self._num_parameters = count_parameters(model)[1]
        self._encoder = MemoryEncoder(
            vocabulary=vocabulary,
            context_length=self.context_length,
            task=self.task,
            marks_tokens=description["marks_tokens"],
        )

    @property
    def control(self) -> ControlTokens:
        """The ids of the control tokens."""
        return self.vocabulary.control

    @property
    def device(self) -> torch.device:
        """The device that the model computes on."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def encode(self, records: Iterable[str | Record | RecordRows]) -> EncodedRecords:
        """Encodes records as the training did: with control tokens, cut at the context length.

        Args:
            records: records, or texts. A text is a record without a speaker or a domain.

        Raises:
            ConfigError: a record has no text, or its fields have different lengths.
            InputError: a record does not fit the model's task.
        """
        return self._encoder.encode(records)

    def losses(self, records: EncodedRecords | Iterable[str | Record | RecordRows]) -> Losses:
        """Scores each record separately. Batches hold records of similar length, which changes losses by rounding only.

        Epsilon covers the weights. What the weights say about private records, such as these losses, belongs on the
        trusted side.

        Args:
            records: records as for `encode`, or encoded records.

        Raises:
            ConfigError, InputError: `encode` raises them.
        """
        encoded = records if isinstance(records, EncodedRecords) else self.encode(records)
        lengths = encoded.lengths
        per_token, is_likeliest = np.zeros(len(encoded.ids)), np.zeros(len(encoded.ids), dtype=np.bool_)
        num_tokens = sums_of(encoded.is_target, encoded.offsets).astype(np.int64)
        rows = np.flatnonzero(num_tokens)
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        size = max(_FEWEST_TOKENS, min(_MOST_TOKENS, _MOST_LOGITS // self.vocabulary.backend.get_vocab_size()))
        first = 0
        with torch.no_grad(), cpu_threads_for(self._num_parameters):
            while first < len(rows):
                # The longest record of a batch is its last.
                last = first + 1
                while last < len(rows) and (last + 1 - first) * int(lengths[rows[last]]) <= size:
                    last += 1
                self._score(encoded, rows[first:last], per_token, is_likeliest)
                first = last
        per_record = sums_of(per_token, encoded.offsets)
        return Losses(
            per_record=per_record,
            num_tokens=num_tokens,
            per_token=per_token,
            is_likeliest=is_likeliest,
            records=encoded,
        )

    def _score(self, encoded: EncodedRecords, rows: IntArray, losses: FloatArray, is_likeliest: BoolArray) -> None:
        ids, is_asked, at = padded(encoded, rows, self.control.pad)
        inputs = torch.from_numpy(ids[:, :-1].copy()).to(self.device)
        asked = torch.from_numpy(is_asked).to(self.device)
        logits = self.model(input_ids=inputs, use_cache=False).logits[asked]
        labels = torch.from_numpy(ids[:, 1:][is_asked]).to(self.device)
        places = at[:, 1:][is_asked]
        losses[places] = token_losses(logits, labels).double().cpu().numpy()
        is_likeliest[places] = (logits.argmax(dim=-1) == labels).cpu().numpy()

    def generate(
        self,
        prompts: Iterable[str | Record],
        *,
        num: int = 1,
        max_new_tokens: int = 64,
        seed: int | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        num_beams: int | None = None,
        batch_size: int = 64,
    ) -> list[list[str]]:
        """Returns texts that the model writes after each prompt, up to its end token. It never writes a control token.

        Args:
            prompts: texts to continue, or records whose last row is continued. An empty last text asks for a turn of
                its speaker and domain. For ``table_to_text``, the prompt is the table.
            num: number of texts for each prompt.
            max_new_tokens: longest text, in tokens.
            seed: seed of the draw. The same arguments give the same texts on the same machine. None draws afresh.
            temperature: divisor of the logits. 0 takes the likeliest token each time.
            top_k: number of likeliest tokens to draw among. 0 draws among all.
            top_p: total probability of the likeliest tokens to draw among. 1 draws among all.
            num_beams: number of hypotheses of a beam search, in place of a draw. For transformers only, with one text
                per prompt.
            batch_size: number of texts at a time.

        Returns:
            ``num`` texts for each prompt, without white space around them.

        Raises:
            ConfigError: the arguments contradict each other, or a prompt leaves no room for ``max_new_tokens``.
        """
        ids = [self._encoder.prompt(prompt) for prompt in prompts]
        if not ids:
            return []
        longest = max(map(len, ids))
        if longest + max_new_tokens > self.context_length:
            raise ConfigError(
                f"a prompt of {longest} tokens leaves no room for {max_new_tokens} more in a context of "
                f"{self.context_length}. Shorten one of them"
            )
        is_recurrent = isinstance(self.model, RecurrentLanguageModel)
        how: BeamSearch | Sampling
        if num_beams is not None or (temperature == 0 and not is_recurrent):
            if num != 1 or is_recurrent:
                raise ConfigError(
                    "beam search and temperature 0 give one text per prompt, and LSTM and GRU have no beam search"
                )
            how = BeamSearch(num_beams=num_beams or 1, max_new_tokens=max_new_tokens, batch_size=batch_size)
        else:
            how = Sampling(
                num=num,
                temperature=temperature or 1.0,
                top_k=top_k,
                top_p=top_p,
                max_new_tokens=max_new_tokens,
                batch_size=batch_size,
            )
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), cpu_threads_for(self._num_parameters):
            drawn = torch.seed() if seed is None else seed % 2**63
            torch.manual_seed(drawn)
            if isinstance(self.model, RecurrentLanguageModel):
                assert isinstance(how, Sampling)  # noqa: S101  # ruled out above
                return self._from_recurrent(self.model, ids, how, temperature, drawn)
            return generate_each(self.model, self.vocabulary.tokenizer, ids, self.control, how)

    def _from_recurrent(
        self, model: RecurrentLanguageModel, prompts: list[list[int]], how: Sampling, temperature: float, seed: int
    ) -> list[list[str]]:
        generator = torch.Generator(self.device).manual_seed(seed)
        lines = [prompt for prompt in prompts for _ in range(how.num)]
        texts: list[str] = []
        for first in range(0, len(lines), how.batch_size):
            rows = draw_texts(
                model,
                lines[first : first + how.batch_size],
                temperature=temperature,
                top_k=how.top_k,
                top_p=how.top_p,
                max_new_tokens=how.max_new_tokens,
                forbidden=never_written(self.control),
                end=self.control.eos,
                generator=generator,
            )
            texts += [text_of(self.vocabulary.tokenizer, row, self.control.eos) for row in rows]
        return [texts[at : at + how.num] for at in range(0, len(texts), how.num)]


def open_trained(folder: str | Path, *, device: str = "auto", task: str | None = None) -> TrainedModel:
    """Reads a model folder that a run wrote: a transformer, with or without a trained prefix, or an LSTM or GRU.

    Low-rank additions were merged into the weights when the folder was written. Nothing is downloaded.

    Args:
        folder: ``latest/model`` of the public root, ``latest/private_model`` of the private root, or a copy.
        device: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
        task: value of ``train.task``, needed only for folders of version 0.1.0, which do not say it.

    Raises:
        ConfigError: the folder holds no model that Reticent trained, a classifier, a model for a task of another
            package, or a damaged model. Or there is no such device.
    """
    loaded, description = open_folder(Path(folder), device=device, task=task, check=_check_writes_text)
    return TrainedModel(loaded.model, loaded.vocabulary, description)


def _check_writes_text(task: str) -> None:
    if task not in TASKS:
        raise ConfigError(
            "the model was trained for a task of another package, whose options its folder does not hold. Load it with "
            "the Auto classes of transformers"
        )
    if not TASKS[task].writes_text:
        raise ConfigError("the folder holds a classifier. Load it with the Auto classes of transformers")
