"""Reads text with a token classifier of Hugging Face transformers, in overlapping windows of fixed shapes."""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer

from pipelines.errors import ConfigError
from pipelines.policies.detectors.token_compact import load_compact
from pipelines.policies.detectors.token_labels import choose_thresholds, group_classes
from pipelines.policies.detectors.token_onnx import OnnxModel, onnx_file
from pipelines.policies.detectors.trained_folder import COMPACT
from pipelines.policies.protocol import Sentence
from pipelines.pretrained import first_position, hub_folder
from pipelines.quiet import quiet_transformers

MAX_PIECES: Final = 256
"""Word pieces of a window, special tokens included. A model that reads fewer pieces gets shorter windows."""

GPU_WINDOWS: Final = 32
"""Windows in every batch on a GPU."""

UNREAD: Final = "UNREAD"
"""Label of a word that the model's vocabulary does not cover. Its content is unknown to the model."""

CPU_WINDOWS: Final = (8, 2)
"""Windows in a batch on the CPU, if that changes no bit. Otherwise the CPU reads single windows."""

_ANY: Final = ""
"""Key of the probability that a token has any label."""

_SHAPES: Final = (*range(8, 65, 8), 96, 128, 192, MAX_PIECES)

Window = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Ids of word pieces, and the characters ``(start, end)`` of each piece. The range of a special token is empty."""

Probabilities = Mapping[str, list[float]]
"""Probability of each piece of a window, by label."""


class EncoderReader:
    """A token classifier and its tokenizer.

    Args:
        location: folder of the model, or its name on the hub.
        commit: commit of a hub model in the local cache. None for a folder.
        labels: our label by the model's label.
        threshold, thresholds: thresholds of the settings, for all labels and for single labels.
        described: thresholds in the model's folder.
        device: ``cpu``, ``cuda``, or ``auto``.
        onnx: ONNX file in the folder that runs instead of the weights.
        joint: true to mask a token also if all labels together reach the threshold of its most probable label.

    Raises:
        ConfigError: the model cannot be loaded, is no token classifier, or its tokenizer gives no offsets.
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
        onnx: str | None = None,
        joint: bool = False,
    ) -> None:
        self._tokenizer, self._model = _load(location, commit, onnx)
        config = self._model.config
        self._groups = group_classes({int(i): str(name) for i, name in config.id2label.items()}, labels)
        self.labels = frozenset({*self._groups, UNREAD})
        self.thresholds = choose_thresholds(
            frozenset(self._groups), given=threshold, by_label=thresholds, described=described
        )
        if joint:
            self._groups[_ANY] = sorted(index for classes in self._groups.values() for index in classes)
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("redact.token_classifier_device = 'cuda', but torch sees no GPU; set cpu or auto")
        if isinstance(self._model, OnnxModel):
            if device == "cuda":
                raise ConfigError("redact.token_classifier_device = 'cuda', but an ONNX file runs on the CPU")
            self._device, alone = "cpu", self._model.reads_alone
        else:
            self._device = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
            self._model.to(self._device)
            alone = bool(getattr(config, "num_local_experts", None))  # the text decides the sizes of their products
        positions = getattr(config, "max_position_embeddings", None)
        reads = min(MAX_PIECES, positions - first_position(config) if positions else MAX_PIECES)
        self._num_marks = self._tokenizer.num_special_tokens_to_add()
        self._reads = int(min(reads, self._tokenizer.model_max_length))
        if self._reads - self._num_marks < 4:
            raise ConfigError(f"redact.token_classifier: the model reads {self._reads} word pieces; that is too few")
        self._rows = 1 if alone else GPU_WINDOWS if self._device == "cuda" else None
        self._windows: dict[str, list[Window]] = {}
        self._seen: dict[tuple[int, ...], Probabilities] = {}
        self._exact: dict[tuple[int, int, bool], bool] = {}

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Evaluates the windows of these sentences in batches, and forgets the windows of earlier sentences."""
        self._windows, self._seen = {}, {}
        texts = list(dict.fromkeys(s.text for s in sentences if s.text))
        self._windows = dict(zip(texts, self._cut(texts), strict=True))
        self._seen = self._evaluate([ids for windows in self._windows.values() for ids, _ in windows])

    def find(self, sentence: Sentence) -> list[tuple[int, int, str, float]]:
        """Returns runs of tokens ``(start, end, label, probability)`` above the label's threshold.

        Raises:
            ValueError: the model returned a value that is not a finite number.
        """
        scores, unread = self.scores(sentence)
        found = {label: [p if p >= limit else None for p in scores[label]] for label, limit in self.thresholds.items()}
        for token, score in enumerate(scores.get(_ANY, ())):
            likely = max(self.thresholds, key=lambda label: scores[label][token])
            if score >= self.thresholds[likely] and found[likely][token] is None:
                found[likely][token] = score
        runs = [run for label, values in found.items() for run in _runs(values, label)]
        return [*runs, *_runs([1.0 if flag else None for flag in unread], UNREAD)]

    def scores(self, sentence: Sentence) -> tuple[dict[str, list[float]], list[bool]]:
        """Returns the probabilities and the unread flag of every token.

        Returns:
            By label, the highest probability of any piece of each token. And for each token, true if the model cannot
            read it.
        """
        num_tokens = sentence.num_tokens
        scores = {label: [0.0] * num_tokens for label in self._groups}
        known = [False] * num_tokens
        windows = self.windows(sentence.text)
        new = self._evaluate([ids for ids, _ in windows if ids not in self._seen])
        for ids, offsets in windows:
            probabilities = self._seen[ids] if ids in self._seen else new[ids]
            for at, (start, end) in enumerate(offsets):
                covered = sentence.widen(start, end)
                if covered is None:
                    continue
                for token in range(*covered):
                    known[token] = known[token] or ids[at] != self._tokenizer.unk_token_id
                    for label, values in scores.items():
                        values[token] = max(values[token], probabilities[label][at])
        unread = [not k and _has_word_character(token) for k, token in zip(known, sentence.tokens(), strict=True)]
        return scores, unread

    def windows(self, text: str) -> list[Window]:
        """Returns the windows over the word pieces of a text. Neighbours share a quarter of their pieces."""
        return self._windows[text] if text in self._windows else self._cut([text])[0]

    def _cut(self, texts: Sequence[str]) -> list[list[Window]]:
        if not texts:
            return []
        room = self._reads - self._num_marks
        read = self._tokenizer(
            list(texts),
            truncation=True,
            max_length=self._reads,
            stride=room // 4,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        cut: list[list[Window]] = [[] for _ in texts]
        rows = zip(read["input_ids"], read["offset_mapping"], read["overflow_to_sample_mapping"], strict=True)
        for ids, offsets, number in rows:
            if len(ids) > self._num_marks:
                cut[number].append((tuple(ids), tuple(_trimmed(texts[number], *place) for place in offsets)))
        return cut

    def _evaluate(self, windows: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Probabilities]:
        groups: dict[tuple[int, bool], list[tuple[int, ...]]] = {}
        for ids in dict.fromkeys(windows):
            shape = min(next(s for s in _SHAPES if s >= len(ids)), self._reads)
            groups.setdefault((shape, len(ids) == shape), []).append(ids)
        seen: dict[tuple[int, ...], Probabilities] = {}
        for (shape, _), group in sorted(groups.items()):
            for batch in self._batches(group, shape):
                for ids, probabilities in zip(batch, self._probabilities(batch, shape), strict=True):
                    seen[ids] = {
                        label: [
                            min(1.0, round(value, 6)) for value in probabilities[: len(ids), classes].sum(-1).tolist()
                        ]
                        for label, classes in self._groups.items()
                    }
        return seen

    def _batches(self, group: Sequence[tuple[int, ...]], shape: int) -> Iterator[Sequence[tuple[int, ...]]]:
        """Yields batches of windows of one shape that are all full, or all shorter."""
        at = 0
        if self._rows is not None:
            yield from (group[at : at + self._rows] for at in range(0, len(group), self._rows))
            return
        for rows in CPU_WINDOWS:
            while at + rows <= len(group) and self._is_exact(group[at : at + rows], shape):
                yield group[at : at + rows]
                at += rows
        yield from ([ids] for ids in group[at:])

    def _is_exact(self, batch: Sequence[tuple[int, ...]], shape: int) -> bool:
        """Returns true if the CPU computes the same bits for a batch as for its windows one at a time.

        This depends on the kernel and not on the text. So it is tested once per shape in each process.
        """
        case = (len(batch), shape, len(batch[0]) == shape)
        if case not in self._exact:
            alone = torch.cat([self._probabilities([ids], shape) for ids in batch])
            self._exact[case] = torch.equal(alone, self._probabilities(batch, shape))
        return self._exact[case]

    def _probabilities(self, batch: Sequence[tuple[int, ...]], shape: int) -> Any:
        """Computes the softmax ``(windows, shape, classes)``.

        A GPU always gets the same number of rows, so that it runs the same kernel. Some models treat an attention mask
        of ones as no mask and then run another kernel. So the rows that pad a batch are full if its windows are full.
        """
        rows = len(batch) if self._rows is None else self._rows
        ids = torch.full((rows, shape), self._tokenizer.pad_token_id or 0)
        mask = torch.zeros((rows, shape), dtype=torch.long)
        mask[:, : shape if len(batch[0]) == shape else 1] = 1  # a row of padding needs a position to attend to
        for row, window in enumerate(batch):
            ids[row, : len(window)] = torch.tensor(window)
            mask[row, : len(window)] = 1
        with torch.inference_mode(), one_thread(self._device):
            logits = self._model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).logits
            probabilities = torch.softmax(logits.double(), dim=-1)[: len(batch)].cpu()
        if not bool(torch.isfinite(probabilities).all()):
            raise ValueError("the token classifier gave something that is no number")
        return probabilities


@contextlib.contextmanager
def one_thread(device: str) -> Iterator[None]:
    """Makes torch use one CPU thread in the body, because the number of threads changes the last bits of a product."""
    before = torch.get_num_threads()
    if device == "cpu" and before != 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def _load(location: str, commit: str | None, onnx: str | None) -> tuple[Any, Any]:
    if commit is None and (Path(location) / COMPACT).is_file():
        try:
            return load_compact(Path(location))
        except Exception as error:
            raise ConfigError(
                f"redact.token_classifier: the files of the model do not fit together ({type(error).__name__}); copy "
                "it again, or train it anew"
            ) from None
    folder = Path(location) if commit is None else hub_folder(location, commit) or Path(location)
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(location, revision=commit, local_files_only=True)
            tokenizer: Any = AutoTokenizer.from_pretrained(location, revision=commit, local_files_only=True)
            file = onnx_file(folder, onnx)
            if file is not None:
                return _with_offsets(tokenizer), OnnxModel(file, config)
            model, report = AutoModelForTokenClassification.from_pretrained(
                location, config=config, revision=commit, local_files_only=True, output_loading_info=True
            )
    except ConfigError:
        raise
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
    return _with_offsets(tokenizer), model.float().eval()


def _with_offsets(tokenizer: Any) -> Any:
    """Returns the tokenizer. Raises ConfigError if it gives no offsets."""
    if not tokenizer.is_fast:
        raise ConfigError("redact.token_classifier: its tokenizer does not tell offsets; it needs a tokenizer.json")
    return tokenizer


def _runs(scores: Sequence[float | None], label: str) -> list[tuple[int, int, str, float]]:
    """Returns maximal runs of tokens that have a score, each with its highest score."""
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
    """Removes the leading white space that some tokenizers include in a piece."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def _has_word_character(token: str) -> bool:
    """Returns true if a token holds a letter or a number. Emojis, marks and joiners are neither."""
    return any(unicodedata.category(c)[0] in "LN" for c in token)
