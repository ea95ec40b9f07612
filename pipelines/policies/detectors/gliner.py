"""Any GLiNER model as a policy: it is asked for kinds of secrets by name, and was not trained on them.

U. Zaratiana et al., *GLiNER: Generalist Model for Named Entity Recognition using Bidirectional Transformer*
(NAACL 2024).

Text is read in overlapping windows of tokens, one at a time and by one thread, so that a find depends on the sentence
alone. The library cuts off what is too long and drops what is no number; here a window is halved until all of it is
read, and a number that is none fails the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from pipelines.errors import ConfigError
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.token_encoder import UNREAD, one_thread
from pipelines.policies.detectors.windows import windows
from pipelines.policies.options import OUTSIDE, PolicyOptions
from pipelines.policies.protocol import Sentence, Span

_TOKENS: Final = 96
_OVERLAP: Final = 24
_SPARE: Final = 8
"""Word pieces of a window that are left for the model's own marks."""


class GlinerPolicy:
    """Masks every span that the model gives a probability of the threshold or more; that is the score.

    Raises:
        ConfigError: no folder is named, the package is missing, or the folder holds no GLiNER model.
    """

    needs: ClassVar[frozenset[str]] = SPECS["gliner"].components
    reads_context: ClassVar[bool] = SPECS["gliner"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.gliner is None:
            raise ConfigError("policy 'gliner' needs a model: set redact.gliner to the folder of one")
        self._name = options.name
        self._threshold = options.gliner_threshold
        self._ours = dict(options.gliner_labels)
        self._model = _load(Path(options.gliner))
        self._tokenizer: Any = self._model.data_processor.transformer_tokenizer
        self._room = _room(self._model) - len(self._pieces(list(self._ours))) - 2 * len(self._ours) - _SPARE
        if self._room < _SPARE:
            raise ConfigError("redact.gliner_labels: the model cannot read so many labels and text besides; name fewer")
        self._model.model.register_forward_hook(_refuse_no_numbers)

    @property
    def labels(self) -> frozenset[str]:
        """What it may find."""
        return frozenset({*self._ours.values(), UNREAD} - {OUTSIDE})

    def find(self, sentence: Sentence) -> list[Span]:
        """The spans above the threshold, and tokens that are too long to be read.

        Raises:
            ValueError: the model gave something that is no number.
        """
        found = set()
        for first, last in self._readable(sentence):
            base, end = sentence.starts[first], sentence.ends[last - 1]
            if not self._fits(sentence.text[base:end]):
                found.add(Span(first, last, UNREAD, self._name))
                continue
            with one_thread("cpu"):
                answers = self._model.predict_entities(
                    sentence.text[base:end],
                    list(self._ours),
                    threshold=self._threshold,
                    flat_ner=False,
                    multi_label=True,
                )
            for answer in answers:
                label = self._ours[answer["label"]]
                if label == OUTSIDE:
                    continue
                tokens = sentence.widen(base + answer["start"], base + answer["end"])
                if tokens is not None:
                    score = min(1.0, round(float(answer["score"]), 6))
                    found.add(Span(*tokens, label, self._name, score))
        return sorted(found)

    def _readable(self, sentence: Sentence) -> Iterator[tuple[int, int]]:
        """Runs of tokens that the model reads whole, or single tokens."""
        waiting = windows(sentence.num_tokens, _TOKENS, _OVERLAP)
        while waiting:
            first, last = waiting.pop()
            if last - first == 1 or self._fits(sentence.text[sentence.starts[first] : sentence.ends[last - 1]]):
                yield first, last
            else:
                middle = (first + last) // 2
                waiting += [(first, middle), (middle, last)]

    def _fits(self, text: str) -> bool:
        words = [word for word, *_ in self._model.data_processor.words_splitter(text)]
        return len(words) <= self._model.config.max_len and len(self._pieces(words)) <= self._room

    def _pieces(self, words: list[str]) -> list[int]:
        pieces: list[int] = self._tokenizer(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
        return pieces


def _refuse_no_numbers(model: Any, inputs: Any, output: Mapping[str, Any]) -> None:
    """What is no number is above no threshold: the library would find nothing."""
    del model, inputs
    if not bool(output["logits"].isfinite().all()):
        raise ValueError("the GLiNER model gave something that is no number")


def _room(model: Any) -> int:
    """Word pieces that the encoder reads."""
    encoder = model.config.encoder_config
    positions = getattr(encoder, "max_position_embeddings", None) or model.config.max_len
    return int(min(positions, model.data_processor.transformer_tokenizer.model_max_length))


def _load(folder: Path) -> Any:
    try:
        from gliner import GLiNER
    except ImportError:
        raise ConfigError("policy 'gliner': run 'pip install reticent[gliner]'") from None
    from pipelines.quiet import quiet_transformers

    if not (folder / "gliner_config.json").is_file():
        raise ConfigError(
            "redact.gliner: its folder holds no gliner_config.json; fetch a model once, e.g. with `hf download "
            "OWNER/NAME --local-dir FOLDER`"
        )
    try:
        with quiet_transformers():
            model = GLiNER.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ConfigError(
            f"redact.gliner: the model cannot be loaded ({type(error).__name__}); its folder must also hold the "
            "tokenizer and the configuration of its encoder, for the network is not asked"
        ) from None
    return model.eval()
