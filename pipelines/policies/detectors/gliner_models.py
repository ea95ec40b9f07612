"""Models of the libraries GLiNER and GLiNER2, which the policy ``gliner`` asks for kinds of secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import torch

from pipelines.errors import ConfigError
from pipelines.quiet import quiet_transformers

_SPARE: Final = 16
"""Word pieces that are reserved for special tokens."""


class Answer(NamedTuple):
    """A find: half-open character offsets in the text, the label that was asked for, and its probability."""

    start: int
    end: int
    label: str
    score: float


class GlinerModel(Protocol):
    """A model that answers where in a text the asked kinds of secrets are."""

    def size_of(self, text: str) -> tuple[int, int]:
        """Returns the numbers of words and of word pieces of a text."""

    def room(self, labels: Sequence[str]) -> tuple[int, int]:
        """Returns the numbers of words and of word pieces that the model reads besides these labels."""

    def ask(self, texts: Sequence[str], labels: Sequence[str], threshold: float) -> list[list[Answer]]:
        """Returns for each text the finds above the threshold, with finds inside others.

        Args:
            texts: texts that are read in one batch.
            labels: kinds of secrets.
            threshold: probability.

        Raises:
            ValueError: the model returned a value that is not a finite number.
        """


def open_model(folder: Path) -> GlinerModel:
    """Loads the model of a folder, without network access.

    Raises:
        ConfigError: the package is missing, or the folder holds no such model.
    """
    if (folder / "gliner_config.json").is_file():
        return _Gliner(folder)
    try:
        if json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type") == "extractor":
            return _Gliner2(folder)
    except (OSError, ValueError, AttributeError):
        pass
    raise ConfigError(
        "redact.gliner: its folder holds no gliner_config.json and no config.json of GLiNER2; fetch a model once, e.g. "
        "with `hf download OWNER/NAME --local-dir FOLDER`"
    )


class _Gliner:
    def __init__(self, folder: Path) -> None:
        try:
            from gliner import GLiNER
        except ImportError:
            raise ConfigError("policy 'gliner': run 'pip install reticent[gliner]'") from None
        self.model: Any = _load(GLiNER, folder)
        self._tokenizer: Any = self.model.data_processor.transformer_tokenizer
        self.model.model.register_forward_hook(_refuse_nonfinite)

    def size_of(self, text: str) -> tuple[int, int]:
        words = [word for word, *_ in self.model.data_processor.words_splitter(text)]
        return len(words), self._pieces(words)

    def room(self, labels: Sequence[str]) -> tuple[int, int]:
        positions = getattr(self.model.config.encoder_config, "max_position_embeddings", None)
        reads = min(positions or self.model.config.max_len, self._tokenizer.model_max_length)
        return self.model.config.max_len, int(reads) - self._pieces(labels) - 2 * len(labels) - _SPARE // 2

    def ask(self, texts: Sequence[str], labels: Sequence[str], threshold: float) -> list[list[Answer]]:
        found = self.model.inference(
            list(texts), list(labels), threshold=threshold, flat_ner=False, multi_label=True, batch_size=len(texts)
        )
        return [[Answer(f["start"], f["end"], f["label"], float(f["score"])) for f in finds] for finds in found]

    def _pieces(self, words: Sequence[str]) -> int:
        return len(self._tokenizer(list(words), is_split_into_words=True, add_special_tokens=False)["input_ids"])


class _Gliner2:
    def __init__(self, folder: Path) -> None:
        try:
            from gliner2 import GLiNER2
        except ImportError:
            raise ConfigError(
                "redact.gliner: its model is one of GLiNER2: run 'pip install reticent[gliner2]'"
            ) from None
        self.model: Any = _load(GLiNER2, folder)
        self._processor: Any = self.model.processor
        for _, part in self.model.named_children():
            part.register_forward_hook(_refuse_nonfinite)

    def size_of(self, text: str) -> tuple[int, int]:
        words = [word for word, *_ in self._processor.word_splitter(text)]
        return len(words), self._pieces(words)

    def room(self, labels: Sequence[str]) -> tuple[int, int]:
        positions = getattr(self.model.encoder.config, "max_position_embeddings", None) or 512
        return int(positions), int(positions) - self._pieces(labels) - len(labels) - _SPARE

    def ask(self, texts: Sequence[str], labels: Sequence[str], threshold: float) -> list[list[Answer]]:
        found = self.model.batch_extract_entities(
            list(texts),
            list(labels),
            batch_size=len(texts),
            threshold=threshold,
            include_confidence=True,
            include_spans=True,
            overlap_policy="allow",
        )
        # The library adds a full stop to a text without one, and may find it.
        return [
            [
                Answer(find["start"], min(find["end"], len(text)), label, float(find["confidence"]))
                for label, finds in answer.get("entities", {}).items()
                for find in finds
                if find["start"] < len(text)
            ]
            for text, answer in zip(texts, found, strict=True)
        ]

    def _pieces(self, words: Sequence[str]) -> int:
        return sum(len(self._processor.tokenizer.tokenize(word)) for word in words)


def _load(library: Any, folder: Path) -> Any:
    try:
        with quiet_transformers():
            model = library.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ConfigError(
            f"redact.gliner: the model cannot be loaded ({type(error).__name__}); its folder must also hold the "
            "tokenizer and the configuration of its encoder, because no network is used"
        ) from None
    return model.eval()


def _refuse_nonfinite(model: Any, inputs: Any, output: Any) -> None:
    """Raises an error if a result is not finite. The libraries would compare it with the threshold and find nothing."""
    del model, inputs
    parts = (
        output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else (output,)
    )
    for part in parts:
        if isinstance(part, torch.Tensor) and part.is_floating_point() and not bool(part.isfinite().all()):
            raise ValueError("the GLiNER model gave something that is no number")
