"""Any GLiNER model as a policy. The settings name kinds of secrets, which the model finds without training on them.

U. Zaratiana et al., *GLiNER: Generalist Model for Named Entity Recognition using Bidirectional Transformer*
(NAACL 2024).

The model reads overlapping windows of tokens, one at a time and by one thread, so that a find depends on the sentence
alone. The library itself cuts off text that is too long, and drops scores that are not finite. This policy halves a
window until the model reads all of it, and fails the row if a score is not finite.
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
from pipelines.policies.protocol import NamedPolicy, Sentence, Span
from pipelines.quiet import quiet_transformers

_TOKENS: Final = 96
_OVERLAP: Final = 24
_SPARE: Final = 8
"""Word pieces of a window that are reserved for special tokens."""


class GlinerPolicy(NamedPolicy):
    """Masks every span whose probability reaches the threshold. The probability is the score.

    Raises:
        ConfigError: the settings name no folder, the package is missing, or the folder holds no GLiNER model.
    """

    reads_context: ClassVar[bool] = SPECS["gliner"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.gliner is None:
            raise ConfigError("policy 'gliner' needs a model: set redact.gliner to the folder of one")
        super().__init__(options)
        self._threshold = options.gliner_threshold
        self._our_labels = dict(options.gliner_labels)
        self._model = _load(Path(options.gliner))
        self._tokenizer: Any = self._model.data_processor.transformer_tokenizer
        named = list(self._our_labels)
        self._max_pieces = _readable_pieces(self._model) - len(self._pieces(named)) - 2 * len(named) - _SPARE
        if self._max_pieces < _SPARE:
            raise ConfigError("redact.gliner_labels: the model cannot read so many labels and text besides; name fewer")
        self._model.model.register_forward_hook(_refuse_nonfinite)

    @property
    def labels(self) -> frozenset[str]:
        """The labels that the policy can find."""
        return frozenset({*self._our_labels.values(), UNREAD} - {OUTSIDE})

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the spans that reach the threshold, and the tokens that are too long to read.

        Raises:
            ValueError: the model returned a value that is not a finite number.
        """
        spans = set()
        for first, last in self._readable(sentence):
            base, end = sentence.starts[first], sentence.ends[last - 1]
            if not self._fits(sentence.text[base:end]):
                spans.add(Span(first, last, UNREAD, self._name))
                continue
            with one_thread("cpu"):
                answers = self._model.predict_entities(
                    sentence.text[base:end],
                    list(self._our_labels),
                    threshold=self._threshold,
                    flat_ner=False,
                    multi_label=True,
                )
            for answer in answers:
                label = self._our_labels[answer["label"]]
                if label == OUTSIDE:
                    continue
                tokens = sentence.widen(base + answer["start"], base + answer["end"])
                if tokens is not None:
                    score = min(1.0, round(float(answer["score"]), 6))
                    spans.add(Span(*tokens, label, self._name, score))
        return sorted(spans)

    def _readable(self, sentence: Sentence) -> Iterator[tuple[int, int]]:
        """Yields runs of tokens that the model can read whole, and single tokens of any length."""
        pending = windows(sentence.num_tokens, _TOKENS, _OVERLAP)
        while pending:
            first, last = pending.pop()
            if last - first == 1 or self._fits(sentence.text[sentence.starts[first] : sentence.ends[last - 1]]):
                yield first, last
            else:
                middle = (first + last) // 2
                pending += [(first, middle), (middle, last)]

    def _fits(self, text: str) -> bool:
        words = [word for word, *_ in self._model.data_processor.words_splitter(text)]
        return len(words) <= self._model.config.max_len and len(self._pieces(words)) <= self._max_pieces

    def _pieces(self, words: list[str]) -> list[int]:
        pieces: list[int] = self._tokenizer(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
        return pieces


def _refuse_nonfinite(model: Any, inputs: Any, output: Mapping[str, Any]) -> None:
    """Raises an error if a logit is not finite. The library would compare it with the threshold and find nothing."""
    del model, inputs
    if not bool(output["logits"].isfinite().all()):
        raise ValueError("the GLiNER model gave something that is no number")


def _readable_pieces(model: Any) -> int:
    encoder = model.config.encoder_config
    positions = getattr(encoder, "max_position_embeddings", None) or model.config.max_len
    return int(min(positions, model.data_processor.transformer_tokenizer.model_max_length))


def _load(folder: Path) -> Any:
    try:
        from gliner import GLiNER
    except ImportError:
        raise ConfigError("policy 'gliner': run 'pip install reticent[gliner]'") from None
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
            "tokenizer and the configuration of its encoder, because no network is used"
        ) from None
    return model.eval()
