"""Description of the encoding of a trained model: ids and names of Reticent, no text of anybody.

``reticent.json`` lies beside weights and tokenizer. It marks a model that Reticent trained. With the tokenizer, it
restores how records became ids (`pipelines.training.trained.open_trained`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipelines.errors import ConfigError
from pipelines.mask import MASK
from pipelines.methods import registry
from pipelines.training.data.control import (
    CONVERSATION_START,
    OTHER_DOMAIN,
    OTHER_SPEAKER,
    RESERVED,
    AddedTokens,
    ControlTokens,
)
from pipelines.training.data.vocabulary import control_tokens_of
from pipelines.training.models.sources import MARKER

if TYPE_CHECKING:
    from pipelines.training.finished import FinishedTraining

VERSION: Final = 2
"""Version of the document. Version 1, of release 0.1.0, held the method and nothing else."""
_NAME: Final = re.compile(r"<([^<>]+)>")
_TYPED: Final = re.compile(r"<[A-Z][A-Z0-9_]*>")
_SINGLE: Final = (
    "pad",
    "bos",
    "eos",
    "mask",
    "other_speaker",
    "other_domain",
    "conversation_start",
    "conversation_end",
)
_NAMED: Final = ("speakers", "domains", "typed_masks")


class UntoldEncodingError(ConfigError):
    """A folder of version 1 whose encoding is unknown: neither the folder nor its tokenizer shows it."""


def describe(run: FinishedTraining) -> dict[str, Any]:
    """Returns the description of a finished training."""
    vocabulary = run.corpus.vocabulary
    control = vocabulary.control
    return {
        "schema_version": VERSION,
        "method": run.config["method"],
        "task": run.config["task"],
        "context_length": run.context_length,
        "marks_tokens": registry.method(run.config["method"]).view.marks_tokens,
        "asks_for_mask": control.asks_for_mask,
        "vocabulary": vocabulary.kind,
        "trained_on": vocabulary.trained_on,
        "control": {name: getattr(control, name) for name in _SINGLE}
        | {name: sorted(getattr(control, name).values()) for name in _NAMED},
    }


def read_description(folder: Path, tokenizer: Any, task: str | None = None) -> tuple[dict[str, Any], ControlTokens]:
    """Returns the description of a model folder, and the control tokens of its vocabulary.

    Args:
        folder: model folder.
        tokenizer: tokenizer of the model, of ``transformers``.
        task: task that the model was trained for. Needed only if the folder does not say it.

    Raises:
        ConfigError: the folder holds no model that Reticent trained, or does not say how records were encoded.
    """
    try:
        document = json.loads((folder / MARKER).read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"the folder holds no model that Reticent trained: it has no {MARKER}") from None
    except ValueError:
        document = None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version == 1:
        document = _completed(document, tokenizer, task)
        return document, _inferred_from_order(tokenizer, document["asks_for_mask"])
    if version != VERSION:
        raise ConfigError(f"{MARKER} is damaged, or its version is unknown to this version of Reticent")
    if task not in (None, document["task"]):
        raise ConfigError(f"the model was trained for the task {document['task']!r}, not for {task!r}")

    def named(name: str) -> dict[str, int]:
        ids = document["control"][name]
        texts = tokenizer.convert_ids_to_tokens(ids)
        return dict(zip(texts if name == "typed_masks" else [text[1:-1] for text in texts], ids, strict=True))

    ids: dict[str, Any] = {name: document["control"][name] for name in _SINGLE}
    ids |= {name: named(name) for name in _NAMED}
    return document, ControlTokens(**ids, asks_for_mask=document["asks_for_mask"])


def _completed(document: Mapping[str, Any], tokenizer: Any, task: str | None) -> dict[str, Any]:
    if task is None:
        raise ConfigError(
            "the model was written by version 0.1.0, which did not record its task: pass the value of "
            "train.task as the task"
        )
    view = registry.method(document["method"]).view
    return {
        **document,
        "task": task,
        "context_length": tokenizer.model_max_length,
        "marks_tokens": view.marks_tokens,
        "asks_for_mask": view.asks_for_masks,
        "vocabulary": "unknown",
        "trained_on": "unknown",
    }


def _inferred_from_order(tokenizer: Any, asks_for_mask: bool) -> ControlTokens:
    """Infers the control tokens of version 1 from the order in which they were added (`AddedTokens.names`)."""
    vocabulary = tokenizer.get_vocab()
    border = vocabulary.get(OTHER_SPEAKER)
    special = {token.content: n for n, token in tokenizer.added_tokens_decoder.items() if token.content not in RESERVED}
    own = [text for text, number in special.items() if border is not None and number > border]
    typed = [text for text, number in special.items() if (border is None or number < border) and _TYPED.fullmatch(text)]
    if OTHER_DOMAIN in vocabulary or typed:
        raise UntoldEncodingError(
            "the model was written by version 0.1.0, which did not record which control tokens are speakers, and "
            "which are domains or masks. Train it again to open it"
        )
    added = AddedTokens(
        masks=(MASK,) if tokenizer.mask_token is not None else (),
        has_speakers=border is not None,
        has_conversations=CONVERSATION_START in vocabulary,
        speakers=tuple(sorted(name[1] for text in own if (name := _NAME.fullmatch(text)))),
    )
    control = control_tokens_of(tokenizer, added)
    return ControlTokens(**{**vars(control), "asks_for_mask": asks_for_mask})
