"""Runs a token classifier from an ONNX file, on the CPU and with one thread."""

from __future__ import annotations

import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch

from pipelines.errors import ConfigError

_WEIGHTS: Final = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*")

_WHOLE_BATCH: Final = tuple(b"\x22%c%b" % (len(name), name) for name in (b"DynamicQuantizeLinear", b"MoE", b"QMoE"))
"""Operators whose result for one row depends on the other rows of a batch, as the field ``op_type`` of a node."""


def onnx_file(folder: Path, named: str | None) -> Path | None:
    """Returns the ONNX file that runs: the named one, or the only one of a folder without weights of another kind.

    Raises:
        ConfigError: there is no such file, or a folder without other weights holds several.
    """
    if named is not None:
        if not (folder / named).is_file():
            raise ConfigError("redact.token_classifier_onnx: the model's folder holds no such file")
        return folder / named
    if any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        return None
    files = sorted(folder.rglob("*.onnx"))
    if len(files) > 1:
        raise ConfigError(
            "redact.token_classifier: the model has several ONNX files and no other weights; name one in "
            "token_classifier_onnx"
        )
    return files[0] if files else None


class OnnxModel:
    """A graph with inputs ``(rows, pieces)`` of 64-bit integers and logits ``(rows, pieces, classes)``.

    Args:
        file: the ONNX file.
        config: configuration of the model, whose ``id2label`` names the classes.

    Attributes:
        reads_alone: true if a row's result depends on the other rows, so that rows must be evaluated one at a time.

    Raises:
        ConfigError: onnxruntime is not installed, or the file holds no token classifier.
    """

    def __init__(self, file: Path, config: Any) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ConfigError("redact.token_classifier: to run an ONNX file, `pip install reticent[onnx]`") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # its messages quote inputs
        try:
            self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            self._inputs = frozenset(given.name for given in self._session.get_inputs())
            outputs = {output.name: output.shape for output in self._session.get_outputs()}
            self._output = "logits" if "logits" in outputs else next(iter(outputs))
            classes = outputs[self._output][2]  # a name if the exporter left it open
        except Exception as error:
            raise ConfigError(
                f"redact.token_classifier: the ONNX file cannot be loaded ({type(error).__name__}); it must be an "
                "export of a token classifier"
            ) from None
        readable = "input_ids" in self._inputs and self._inputs <= {"input_ids", "attention_mask", "token_type_ids"}
        if not readable or (isinstance(classes, int) and classes != len(config.id2label)):
            raise ConfigError(
                "redact.token_classifier: the ONNX file is no export of a token classifier with the labels of its "
                "config.json"
            )
        self.config = config
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as graph:
            self.reads_alone = any(graph.find(operator) >= 0 for operator in _WHOLE_BATCH)

    def __call__(self, *, input_ids: Any, attention_mask: Any) -> SimpleNamespace:
        """Returns the logits, as a model of transformers does."""
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": torch.zeros_like(input_ids),
        }
        feed = {name: given[name].numpy() for name in self._inputs}
        (logits,) = self._session.run([self._output], feed)
        return SimpleNamespace(logits=torch.from_numpy(logits))
