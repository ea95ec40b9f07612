"""Files are renamed and cut otherwise: the ledger still knows the text, and a second training is a second release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from looked_at import EVERYTHING, drive, finished_run
from support.copies import copied

from flows.commands.ledger import ledger_document
from flows.running.spec import open_store
from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import Composed
from pipelines.errors import PrivacyGateError
from pipelines.settings.loading import load_settings
from pipelines.store.ledger.ledger import read_ledger


@pytest.mark.slow
def test_renamed_files_in_other_partitions_are_the_same_records(tmp_path: Path) -> None:
    """With `partition_documents` 15 → 7 no piece of a file is one that the ledger knows; the forms change as well."""
    config = copied(finished_run().parent, tmp_path / "project") / "reticent.toml"
    (first,) = ledger_document(config, {})["groups"]
    assert first["epsilon"] == pytest.approx(3, abs=0.01)
    corpus = config.parent / "corpus"
    for path in sorted(corpus.iterdir()):
        rows = [line for line in path.read_text().splitlines() if line.startswith("{")]
        dumped = [json.dumps(json.loads(row), indent=None, sort_keys=True, ensure_ascii=True) for row in reversed(rows)]
        (corpus / f"export-{path.name}").write_bytes("\r\n".join(dumped).encode())
        path.unlink()
    other = {"RETICENT__CORPUS__PARTITION_DOCUMENTS": "7"}
    with pytest.raises(PrivacyGateError, match="1 earlier release on this data already spent epsilon") as refused:
        drive(config, EVERYTHING, **other, RETICENT__GUARANTEE__BUDGET_EPSILON="3.5")
    assert refused.value.exit_code == 4
    drive(config, EVERYTHING, **other, RETICENT__GUARANTEE__BUDGET_EPSILON="5.5")
    (group,) = ledger_document(config, {})["groups"]
    assert group["num_releases"] == 2
    events = [release.event for release in read_ledger(open_store(load_settings(config, {})))]
    assert group["epsilon"] == pytest.approx(epsilon(Composed(events=tuple(events)), group["delta"]))
    assert 4.1 < group["epsilon"] < 4.3
