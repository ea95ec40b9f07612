"""Reads text with the entity recogniser of a spaCy pipeline in a folder, e.g. one of `reticent train-detector`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import spacy

from pipelines.errors import ConfigError
from pipelines.language import make_doc
from pipelines.policies.detectors.token_labels import group_classes
from pipelines.policies.protocol import Sentence


class SpacyReader:
    """An entity recogniser and the components of its pipeline that it reads.

    Args:
        folder: folder that ``nlp.to_disk`` wrote.
        labels: our label by the model's label.

    Raises:
        ConfigError: the pipeline cannot be loaded, or has no entity recogniser.
    """

    def __init__(self, folder: Path, labels: Mapping[str, str]) -> None:
        try:
            self._nlp = spacy.load(folder)
        except Exception as error:
            raise ConfigError(
                f"redact.token_classifier: the spaCy pipeline cannot be loaded ({type(error).__name__}); name what "
                "nlp.to_disk wrote"
            ) from None
        if "ner" not in self._nlp.pipe_names:
            raise ConfigError("redact.token_classifier: the spaCy pipeline has no component 'ner'")
        keep = {"tok2vec", "transformer", "ner"}
        self._nlp.select_pipes(enable=[name for name in self._nlp.pipe_names if name in keep])
        ner: Any = self._nlp.get_pipe("ner")
        classes = {-1: "O", **dict(enumerate(ner.labels))}
        groups = group_classes(classes, labels)
        self._ours = {classes[index]: label for label, indices in groups.items() for index in indices}
        self.labels = frozenset(groups)

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Does nothing, because spaCy reads single sentences fast."""

    def find(self, sentence: Sentence) -> list[tuple[int, int, str, float]]:
        """Returns the entities. Their score is 1 because spaCy gives no confidence."""
        with self._nlp.memory_zone():
            doc = make_doc(self._nlp, sentence.text, sentence.starts, sentence.ends)
            for _, component in self._nlp.pipeline:
                doc = component(doc)
            return [(e.start, e.end, self._ours[e.label_], 1.0) for e in doc.ents if e.label_ in self._ours]
