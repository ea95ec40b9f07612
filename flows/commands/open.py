"""``reticent open``: opens the last run's report in a browser."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.commands.plan import last_run
from pipelines.errors import InputError
from pipelines.store.place.unlocking import is_encrypted, private_root_of


def open_document(config: Path, environ: Mapping[str, str], *, public: bool, browser: bool) -> dict[str, Any]:
    """Opens the report of the last run.

    Raises:
        InputError: there is no such report, or its store is encrypted.
    """
    name = "public_report" if public else "report"
    place = last_run(config, environ)["outputs"].get(name)
    if place is None or not Path(place).is_file():
        raise InputError(f"the last run made no {name.replace('_', ' ')}; `reticent run` makes one")
    path = Path(place)
    if not public and is_encrypted(private_root_of(path)):
        raise InputError("the store is encrypted: `reticent export report --out PLACE` writes the report unencrypted")
    opened = browser and webbrowser.open(path.absolute().as_uri())
    return {"report": str(path), "opened": bool(opened)}
