"""Reads text by a token classifier of Hugging Face transformers, in overlapping windows of fixed shapes."""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipelines.errors import ConfigError
from pipelines.policies.detectors.token_classifier import DEFAULT_THRESHOLD
from pipelines.policies.detectors.token_compact import COMPACT, load_compact
from pipelines.policies.detectors.token_labels import groups_of, thresholds_of
from pipelines.policies.protocol import Sentence
from pipelines.pretrained import first_position

MAX_PIECES: Final = 256
"""Word pieces of a window, the model's own marks included, where the model reads so many."""

GPU_WINDOWS: Final = 32
"""Windows that a GPU reads at once, always so many."""

UNREAD: Final = "UNREAD"
"""Label of a word that the model's vocabulary cannot tell from others: nobody knows what it is."""

_SHAPES: Final = (16, 32, 64, 128, MAX_PIECES)

Window = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Ids of word pieces, and the characters ``(start, end)`` of each; the model's own marks have none."""


class EncoderReader:
    """A token classifier and its tokenizer.

    Args:
        location: a folder, or a name on the hub.
        commit: of a hub model in the local cache.
        labels: our label by the model's.
        threshold, thresholds: of the settings, for all labels and for single ones.
        described: thresholds that the model's folder names.
        device: ``cpu``, ``cuda``, or ``auto``.

    Raises:
        ConfigError: it cannot be loaded, is no token classifier, or has no tokenizer that tells offsets.
    """

    def __init__(
        self,
        location: str,
        commit: str | None,
        *,
        labels: Mapping[str, str],
        threshold: float | None,
        thresholds: Mapping[str, float],
        described: Mapping[str, float],
        device: str,
    ) -> None:
        import torch

        self._tokenizer, self._model = _load(location, commit)
        config = self._model.config
        self._groups = groups_of({int(i): str(name) for i, name in config.id2label.items()}, labels)
        self.labels = frozenset({*self._groups, UNREAD})
        self.thresholds = thresholds_of(
            frozenset(self._groups),
            default=DEFAULT_THRESHOLD,
            given=threshold,
            by_label=thresholds,
            described=described,
        )
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("redact.token_classifier_device = 'cuda', but torch sees no GPU; set cpu or auto")
        self._device = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
        self._model.to(self._device)
        self._rows = GPU_WINDOWS if self._device == "cuda" else 1
        positions = getattr(config, "max_position_embeddings", None)
        reads = min(MAX_PIECES, positions - first_position(config) if positions else MAX_PIECES)
        self._num_marks = self._tokenizer.num_special_tokens_to_add()
        self._reads = int(min(reads, self._tokenizer.model_max_length))
        if self._reads - self._num_marks < 4:
            raise ConfigError(f"redact.token_classifier: the model reads {self._reads} word pieces; that is too few")
        self._seen: dict[tuple[int, ...], Any] = {}

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """On a GPU, evaluates the windows of these sentences many at once, and forgets those of before."""
        self._seen.clear()
        if self._rows > 1:
            self._evaluate([ids for s in sentences for ids, _ in self.windows(s.text)])

    def find(self, sentence: Sentence) -> list[tuple[int, int, str, float]]:
        """Runs of tokens ``(start, end, label, probability)`` above the label's threshold.

        Raises:
            ValueError: the model gave something that is no number.
        """
        scores, unread = self.scores(sentence)
        runs = []
        for label, threshold in self.thresholds.items():
            runs += _runs([p if p >= threshold else None for p in scores[label]], label)
        return [*runs, *_runs([1.0 if flag else None for flag in unread], UNREAD)]

    def scores(self, sentence: Sentence) -> tuple[dict[str, list[float]], list[bool]]:
        """Of every token: by label the highest probability of a piece of it, and whether the model cannot read it."""
        num_tokens = sentence.num_tokens
        scores = {label: [0.0] * num_tokens for label in self._groups}
        known = [False] * num_tokens
        windows = self.windows(sentence.text)
        self._evaluate([ids for ids, _ in windows])
        for ids, offsets in windows:
            found = self._seen[ids]
            for at, (start, end) in enumerate(offsets):
                covered = sentence.widen(start, end)
                if covered is None:
                    continue
                for token in range(*covered):
                    known[token] = known[token] or ids[at] != self._tokenizer.unk_token_id
                    for label, values in scores.items():
                        values[token] = max(values[token], found[label][at])
        if self._rows == 1:
            self._seen.clear()
        unread = [not k and _says_something(token) for k, token in zip(known, sentence.tokens(), strict=True)]
        return scores, unread

    def windows(self, text: str) -> list[Window]:
        """Windows over the word pieces of a text; neighbours share a quarter."""
        room = self._reads - self._num_marks
        read = self._tokenizer(
            text,
            truncation=True,
            max_length=self._reads,
            stride=room // 4,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        return [
            (tuple(ids), tuple(_trimmed(text, *place) for place in offsets))
            for ids, offsets in zip(read["input_ids"], read["offset_mapping"], strict=True)
            if len(ids) > self._num_marks
        ]

    def _evaluate(self, windows: Sequence[tuple[int, ...]]) -> None:
        """Remembers by label the probabilities ``(pieces,)`` of windows that are not known yet."""
        by_shape: dict[int, list[tuple[int, ...]]] = {}
        for ids in dict.fromkeys(windows):
            if ids not in self._seen:
                by_shape.setdefault(next(s for s in _SHAPES if s >= len(ids)), []).append(ids)
        for shape, group in sorted(by_shape.items()):
            shape = min(shape, self._reads)
            for at in range(0, len(group), self._rows):
                batch = group[at : at + self._rows]
                for ids, probabilities in zip(batch, self._probabilities(batch, shape), strict=False):
                    self._seen[ids] = {
                        label: [min(1.0, round(value, 6)) for value in probabilities[: len(ids), of].sum(-1).tolist()]
                        for label, of in self._groups.items()
                    }

    def _probabilities(self, batch: Sequence[tuple[int, ...]], shape: int) -> Any:
        """Softmax ``(rows, shape, classes)``. Rows and shape are the same whatever the batch, and so is the kernel."""
        import torch

        pad = self._tokenizer.pad_token_id or 0
        ids = torch.full((self._rows, shape), pad)
        mask = torch.zeros((self._rows, shape), dtype=torch.long)
        mask[:, 0] = 1  # a row of padding attends to something
        for row, window in enumerate(batch):
            ids[row, : len(window)] = torch.tensor(window)
            mask[row, : len(window)] = 1
        with torch.inference_mode(), _one_thread(self._device):
            logits = self._model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).logits
            probabilities = torch.softmax(logits.double(), dim=-1).cpu()
        if not bool(torch.isfinite(probabilities[: len(batch)]).all()):
            raise ValueError("the token classifier gave something that is no number")
        return probabilities


@contextlib.contextmanager
def _one_thread(device: str) -> Iterator[None]:
    """One thread inside: how many there are changes the last bits of a product of matrices."""
    import torch

    before = torch.get_num_threads()
    if device == "cpu" and before != 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def _load(location: str, commit: str | None) -> tuple[Any, Any]:
    if commit is None and (Path(location) / COMPACT).is_file():
        try:
            return load_compact(Path(location))
        except Exception as error:
            raise ConfigError(
                f"redact.token_classifier: the files of the model do not fit together ({type(error).__name__}); copy "
                "it again, or train it anew"
            ) from None
    from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer

    from pipelines.quiet import quiet_transformers

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(location, revision=commit, local_files_only=True)
            tokenizer: Any = AutoTokenizer.from_pretrained(location, revision=commit, local_files_only=True)
            model, report = AutoModelForTokenClassification.from_pretrained(
                location, config=config, revision=commit, local_files_only=True, output_loading_info=True
            )
    except Exception as error:
        raise ConfigError(
            f"redact.token_classifier: the model cannot be loaded ({type(error).__name__}); name what save_pretrained "
            "wrote for a token classifier and its tokenizer"
        ) from None
    if report["missing_keys"] or report.get("mismatched_keys"):
        raise ConfigError(
            "redact.token_classifier: the model has no weights for its head, so it is no trained token classifier; "
            "name one that was trained to label tokens"
        )
    if not tokenizer.is_fast:
        raise ConfigError("redact.token_classifier: its tokenizer does not tell offsets; it needs a tokenizer.json")
    return tokenizer, model.float().eval()


def _runs(scores: Sequence[float | None], label: str) -> list[tuple[int, int, str, float]]:
    """Maximal runs of tokens that have a score, with the highest of it."""
    runs: list[tuple[int, int, str, float]] = []
    for token, score in enumerate(scores):
        if score is None:
            continue
        if runs and runs[-1][1] == token:
            runs[-1] = (runs[-1][0], token + 1, label, max(runs[-1][3], score))
        else:
            runs.append((token, token + 1, label, score))
    return runs


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Offsets of a piece without the white space that some tokenizers count to it."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def _says_something(token: str) -> bool:
    """Whether a token holds a letter or a digit; emojis, marks and joiners say nothing of anybody."""
    return any(unicodedata.category(c)[0] in "LN" for c in token)
