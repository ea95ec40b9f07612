"""A finished project and a model folder, for examples and tests of the public API."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.old_stores import BEFORE, unpack
from support.tiny import CONTROL, SHAPE, TOKENIZER, tiny_model

from pipelines.files import write_json
from pipelines.training.data.tokenizer import loadable
from pipelines.training.description import describe
from pipelines.training.models.saving import save_model


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was run; only to be read."""
    return unpack(BEFORE, tmp_path_factory.mktemp("project")) / "crt.toml"


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model, as a training writes it."""
    folder = tmp_path_factory.mktemp("model") / "model"
    save_model(tiny_model(), loadable(TOKENIZER), folder, context_length=SHAPE.context_length)
    vocabulary = SimpleNamespace(control=CONTROL, kind="bytes", trained_on="none")
    trained = SimpleNamespace(
        corpus=SimpleNamespace(vocabulary=vocabulary),
        config={"method": "crt", "task": "language_modelling"},
        context_length=SHAPE.context_length,
    )
    write_json(folder / "reticent.json", describe(trained))
    return folder
