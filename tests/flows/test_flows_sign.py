"""Signing a run: the page is what was read, the ledger has name, date and digest, and a change is noticed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from increment import drive
from looked_at import EVERYTHING
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.ledger import ledger_document, ledger_text
from flows.commands.sign import sign_document
from flows.running.spec import open_store
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.settings.loading import load_settings
from pipelines.store.ledger.ledger import document_of, published, read_ledger
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.ledger.sign_offs import signatures
from pipelines.store.objects import runs
from pipelines.store.objects.ledger_lines import append, locked
from pipelines.store.place.ledger_file import LedgerError


def signed_by(project: Path, name: str) -> dict[str, Any]:
    """The page written, and then signed."""
    sign_document(project, {}, None)
    return sign_document(project, {}, name)


def test_the_page_is_written_to_be_read_and_signed_as_it_was_read(project: Path) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    shown = sign_document(project, {}, None)
    page = Path(shown["page"])
    assert shown["signed"] is None
    assert hashlib.sha256(page.read_bytes()).hexdigest() == shown["digest"]
    assert (page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert signatures(roots) == []

    done = CliRunner().invoke(app, ["sign", str(project), "--name", " Ada Example ", "--json"])
    assert done.exit_code == 0
    signed = json.loads(done.stdout)["signed"]
    assert (signed["name"], signed["digest"]) == ("Ada Example", shown["digest"])
    assert signatures(roots) == [signed]
    record = runs.latest(roots)
    assert record is not None
    assert (signed["run_id"], signed["report"]) == (record["run_id"], runs.key_in(record, "report"))

    (entry,) = ledger_document(project, {})["signatures"]
    assert entry["page"] == "as signed"
    text = ledger_text(ledger_document(project, {}))
    assert f"run {record['run_id']} was signed by Ada Example, {signed['at']}; its page is as signed" in text
    page.write_bytes(page.read_bytes() + b" ")
    assert ledger_document(project, {})["signatures"][0]["page"] == "another one now"
    page.unlink()
    assert ledger_document(project, {})["signatures"][0]["page"] == "gone"


@pytest.mark.slow
def test_the_next_page_says_what_changed_since(project: Path) -> None:
    first = signed_by(project, "Ada Example")["signed"]
    drive(project, EVERYTHING, RETICENT__GUARANTEE__GROUPS="[3]")
    second = signed_by(project, "Ben Example")
    page = Path(second["page"]).read_text("utf-8")
    assert second["run_id"] != first["run_id"]
    assert f"Last signed: <code>{first['run_id']}</code>, by Ada Example" in page
    assert "setting guarantee.groups: [2, 10] → [3]" in page
    assert "claims about groups of secrets" in page
    again = sign_document(project, {}, "Cem Example")  # two may sign the same page
    assert again["digest"] == second["digest"]
    assert [found["name"] for found in ledger_document(project, {})["signatures"]] == [
        "Ada Example",
        "Ben Example",
        "Cem Example",
    ]


@pytest.mark.slow
def test_a_signed_run_whose_claims_are_gone_is_not_compared(project: Path) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    first = signed_by(project, "Ada Example")["signed"]
    claims = str(runs.key_in(runs.latest(roots), "guarantee"))
    drive(project, EVERYTHING, RETICENT__GUARANTEE__GROUPS="[3]")
    roots.manifest_path("guarantee", claims).unlink()  # as `reticent gc` leaves it
    page = Path(sign_document(project, {}, None)["page"]).read_text("utf-8")
    assert f"Last signed: <code>{first['run_id']}</code>" in page
    assert "nothing can be compared" in page
    assert "not stated" not in page[: page.index('<a class="skip"')]


def test_what_nobody_read_or_what_changed_after_it_was_read_is_not_signed(project: Path) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    with pytest.raises(PrivacyGateError, match=r"no page yet.* read .* then sign"):
        sign_document(project, {}, "Ada Example")
    page = Path(sign_document(project, {}, None)["page"])
    page.write_text("what somebody read instead")
    with pytest.raises(PrivacyGateError, match=r"read .* then sign"):
        sign_document(project, {}, "Ada Example")
    assert signatures(roots) == []
    assert "What is claimed, and for whom" in page.read_text("utf-8")
    assert sign_document(project, {}, "Ada Example")["signed"] is not None
    for name in ("", "  "):
        with pytest.raises(ConfigError, match="name of the person who signs"):
            sign_document(project, {}, name)
    second = replace(read_ledger(roots)[-1], release_id="5e" * 8, key="5e" * 20)
    with locked(roots) as path:
        append(roots, path, [document_of(second), published(second.release_id)])
    with pytest.raises(PrivacyGateError, match="claims that do not hold now"):
        sign_document(project, {}, "Ada Example")


def test_an_edited_signature_is_noticed_and_whole_ones_outlive_damage(project: Path) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    kept = signed_by(project, "Ada Example")["signed"]
    sign_document(project, {}, "Eve Example")
    path = roots.private / "ledger" / "releases.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Eve Example", b"Bob Example"))
    for look in (lambda: signatures(roots), lambda: sign_document(project, {}, "Ada Example")):
        with pytest.raises(LedgerError):
            look()
    acknowledge_damage(roots, "somebody edited a signature")
    assert signatures(roots) == [kept]
