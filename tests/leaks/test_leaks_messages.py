"""Messages, log records and warnings quote no text."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

from pipelines.processes import withhold_library_messages
from pipelines.store.building.plan import explain


def test_the_ignore_list_is_never_printed() -> None:
    base: dict[str, Any] = {"code": {}, "seed": 0, "environment": {"packages": {}, "python": "", "machine": ""}}
    then, now = ({**base, "config": {"gate": {"ignore": names, "min_characters": 3}}} for names in ([], ["Zebulon"]))
    assert explain(then, now, None) == ["config.gate.ignore changed"]


def test_libraries_cannot_quote_text(capsys: pytest.CaptureFixture[str]) -> None:
    factory, show = logging.getLogRecordFactory(), warnings.showwarning
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        withhold_library_messages()
        withhold_library_messages()
        try:
            raise ValueError("Zebulon")
        except ValueError:
            logging.getLogger("spacy").exception("sentence %s", "Zebulon")
        logging.getLogger("reticent.test").warning("ours: %s", "kept")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            withhold_library_messages()
            warnings.warn("Zebulon", stacklevel=1)
    finally:
        root.removeHandler(handler)
        logging.setLogRecordFactory(factory)
        warnings.showwarning = show
    told = [logging.Formatter().format(record) for record in records]
    assert len(told) == 2
    assert "Zebulon" not in "".join(told)
    assert told[1] == "ours: kept"
    assert "Zebulon" not in capsys.readouterr().err
