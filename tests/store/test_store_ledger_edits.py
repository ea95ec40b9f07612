"""Any single edit of what a store keeps of its releases changes nothing, or is noticed; none makes them cheaper."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.toy import publishing
from test_store_ledger import DELTA, EVENT, ledger

from flows.running.auditing import clear_alarm, sequential_test_of
from pipelines.accounting.ledger import composed_epsilon
from pipelines.errors import ConfigError, PrivacyGateError, ReticentError
from pipelines.store.ledger.check import check_releases
from pipelines.store.ledger.ledger import StoreLedger, read_ledger
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.objects.ledger_lines import append, ledger_dir, locked, read_documents
from pipelines.store.objects.publish import quarantine
from pipelines.store.place import versions
from pipelines.store.place.identity import key_of_ingredients
from pipelines.store.place.ledger_file import AUDITED, FILE, LedgerError
from pipelines.store.place.roots import Roots, open_roots, private_umask
from pipelines.store.upkeep.maintenance import gc

LOUD = {"type": "poisson_sampled", "sample_rate": 1.0, "event": {"type": "gaussian", "noise_multiplier": 2.0}}


def events(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "method": "dpsgd",
        "record": "sentence",
        "num_private_records": 10,
        "num_public_records": 0,
        "event": event,
        "target_delta": DELTA,
        "target_epsilon": None,
        "insecure_test_seed": False,
        "tokenizer": {"trained_on": "none"},
        "public_order": "none",
    }


def key_of(roots: Roots, number: int) -> str:
    return key_of_ingredients({"number": number}, roots.secret)


def make_release(roots: Roots, number: int, event: dict[str, Any] = EVENT) -> StoreLedger:
    """A model that is trained and published, as the store does it."""
    key = key_of(roots, number)
    lineage: dict[str, Any] = {"ingredients": {"number": number}, "inputs": {}}
    with publishing(roots, "train", key, lineage) as folders:
        made = ledger(roots, key, {"a": "a"}, scratch=f"{key}/scratch")
        made.reserve(event, DELTA)
        (folders["private"] / "events.json").write_text(json.dumps(events(event)))
        (folders["public"] / "weights").write_text("w")
        made.commit()
        lineage["ledger"] = made.anchor.to_json()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with three releases on one file, one of which was removed since."""
    (tmp_path / "store").mkdir()
    roots = reopen(tmp_path / "store")
    for number, event in enumerate((EVENT, LOUD, EVENT)):
        make_release(roots, number, event)
    with private_umask():
        quarantine(roots, "train", key_of(roots, 0))
        shutil.rmtree(roots.public / "quarantine")
    return tmp_path / "store"


def reopen(folder: Path, **options: Any) -> Roots:
    return open_roots(folder / "private", folder / "public", **options)


def cost(folder: Path) -> float:
    roots = reopen(folder)
    releases = read_ledger(roots)
    check_releases(roots, releases)
    return composed_epsilon([r for r in releases if r.state == "published"], DELTA)


def bookkeeping(folder: Path) -> list[Path]:
    files = [p for p in (folder / "private").rglob("*") if p.is_file() and p.suffix in (".json", ".jsonl", "")]
    files += (folder / "public").rglob("manifest.json")
    return [p for p in files if p.stat().st_size and p.name != "weights" and "locks" not in p.parts]


def outcome(folder: Path) -> float | str:
    try:
        return cost(folder)
    except ReticentError as error:
        assert error.exit_code in (4, 5)
        return "noticed"


@pytest.mark.parametrize("per_file", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_a_flipped_bit_anywhere_is_noticed_or_changes_nothing(folder: Path, per_file: int) -> None:
    """Guards the last byte that turned a published release into one that costs 0, and all others."""
    before = cost(folder)
    num_noticed = 0
    for path in bookkeeping(folder):
        data = path.read_bytes()
        step = max(1, len(data) // per_file)
        for at in sorted({*range(0, len(data), step), len(data) - 1}):
            for bit in (0x01, 0x20):
                path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
                found = outcome(folder)
                num_noticed += found == "noticed"
                assert found == "noticed" or found >= before * (1 - 1e-9), (path.name, at)
        path.write_bytes(data)
    assert cost(folder) == before
    assert num_noticed > 5 * per_file


def _edits(lines: list[bytes]) -> Iterator[list[bytes]]:
    for n in range(len(lines)):
        yield lines[:n] + lines[n + 1 :]  # taken out
        yield lines[: n + 1] + lines[n:]  # put in twice
        yield lines[:n]  # cut
        if n:
            yield [*lines[: n - 1], lines[n], lines[n - 1], *lines[n + 1 :]]


def test_lines_that_are_taken_out_moved_doubled_or_cut_are_noticed(folder: Path) -> None:
    path = folder / "private/ledger" / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 6
    for edited in _edits(lines):
        path.write_bytes(b"".join(edited))
        with pytest.raises(LedgerError):
            cost(folder)


def test_a_value_that_is_edited_by_hand_is_not_believed(folder: Path) -> None:
    """Guards an edited noise multiplier that was believed although the line's own epsilon said otherwise."""
    path = folder / "private/ledger" / FILE
    path.write_bytes(path.read_bytes().replace(b'"noise_multiplier":2.0', b'"noise_multiplier":9.0'))
    with pytest.raises(LedgerError, match="its seal does not fit"):
        cost(folder)


@pytest.mark.parametrize("keep", ["store.json", "manifests", "public"])
def test_an_older_copy_of_the_ledger_is_noticed_by_each_of_the_others(folder: Path, keep: str, tmp_path: Path) -> None:
    """Guards a restored backup: the length stands in store.json and in the manifests on both sides."""
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    roots = reopen(folder)
    make_release(roots, 7)
    shutil.copy(older / "private/ledger" / FILE, folder / "private/ledger" / FILE)
    if keep != "store.json":
        shutil.copy(older / "private/store.json", folder / "private/store.json")
    if keep == "public":
        roots.manifest_path("train", key_of(roots, 7)).unlink()
    if keep == "manifests":
        shutil.rmtree(folder / "public/objects/train" / key_of(roots, 7))
    with pytest.raises(LedgerError, match="had 8"):
        cost(folder)


def test_a_deleted_ledger_is_noticed_even_when_the_models_are_gone(folder: Path) -> None:
    """Guards a ledger that forgets: deleted after gc took the models."""
    roots = reopen(folder)
    gc(roots, keep_runs=1, dry_run=False)
    assert not list((folder / "public/objects/train").glob("*"))
    before = cost(folder)
    path = folder / "private/ledger" / FILE
    data = path.read_bytes()
    path.unlink()
    for remove in ("", "private/store.json"):
        if remove:
            (folder / remove).unlink()
        with pytest.raises(LedgerError, match="has 0 lines"):
            cost(folder)
    path.write_bytes(data)
    assert cost(folder) == before


def test_another_secret_is_refused_and_not_a_fresh_start(folder: Path) -> None:
    """Guards a changed or deleted secret, which began a new group, so that a budget was spent twice."""
    path = folder / "private/secret"
    secret = path.read_bytes()
    path.write_bytes(b"00" * 32 + b"\n")
    with pytest.raises(PrivacyGateError, match="is not the one that the store was made with"):
        reopen(folder)
    path.unlink()
    with pytest.raises(PrivacyGateError, match="is missing"):
        reopen(folder)
    assert not path.exists()
    (folder / "private/store.json").unlink()  # even without it, the artifacts' keys tell
    path.write_bytes(b"00" * 32 + b"\n")
    with pytest.raises(PrivacyGateError, match="is not the one that the store was made with"):
        reopen(folder)
    path.write_bytes(secret)
    assert cost(folder) > 0
    other = folder / "other"
    other.write_text("11" * 32)
    with pytest.raises(PrivacyGateError, match="is not the one"):
        reopen(folder, secret_file=other)


def test_a_mark_that_names_another_training_does_not_make_one_free(folder: Path) -> None:
    """Guards a training that goes on under the entry of another one, at no cost."""
    roots = reopen(folder)
    before = cost(folder)
    paid = read_ledger(roots)[0].release_id
    key = key_of(roots, 8)
    made = ledger(roots, key, {"a": "a"}, scratch=f"{key}/scratch")
    made.reserve(LOUD, DELTA)
    mark = made.scratch_dir / "release.json"
    for forged in ({"release_id": paid}, {"schema_version": 1, "release_id": paid, "key": key}):
        mark.write_text(json.dumps(forged))
        again = ledger(roots, key, {"a": "a"}, scratch=f"{key}/scratch")
        again.reserve(LOUD, DELTA)
        again.commit()
        assert again.release_id != paid
    assert cost(folder) > before


OLD_LINES = [
    {
        "type": "release",
        "release_id": "old",
        "run_id": None,
        "key": "k" * 40,
        "event": EVENT,
        "relation": "replace_one",
        "delta": DELTA,
        "epsilon": 1.993,
        "insecure_test_seed": False,
        "data": None,
        "tokens": ["t"],
        "overlaps": [],
        "num_partitions": 1,
        "schema_version": 1,
    },
    {"type": "published", "release_id": "old", "schema_version": 1},
]


def old_store(tmp_path: Path, *, change: Callable[[bytes], bytes] = lambda data: data) -> Path:
    """A store as version 0.1.0 wrote it: no fingerprint, no seals."""
    folder = tmp_path / "old"
    reopen(folder)
    (folder / "private/store.json").write_text('{"schema_version": 1}')
    (folder / "private/ledger").mkdir()
    data = b"".join(json.dumps(line, sort_keys=True).encode() + b"\n" for line in OLD_LINES)
    (folder / "private/ledger" / FILE).write_bytes(change(data))
    return folder


def test_a_store_of_the_first_version_is_read_and_sealed(tmp_path: Path) -> None:
    folder = old_store(tmp_path)
    before = cost(folder)
    assert before == pytest.approx(1.993, abs=0.01)
    document = json.loads((folder / "private/store.json").read_text())
    assert document["schema_version"] == versions.STORE
    assert document["secret"]
    roots = reopen(folder)
    make_release(roots, 1)
    path = ledger_dir(roots) / FILE
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["type"] for line in lines] == ["release", "published", "older_lines", "release", "published"]
    assert [line["schema_version"] for line in lines] == [1, 1, 2, 2, 2]
    assert cost(folder) > before
    path.write_bytes(path.read_bytes().replace(b'"tokens": ["t"]', b'"tokens": ["u"]'))
    with pytest.raises(LedgerError, match="not those that it seals"):
        cost(folder)


def quieter(data: bytes) -> bytes:
    return data.replace(b'"noise_multiplier": 4.0', b'"noise_multiplier": 40.0')


def test_an_old_line_that_contradicts_its_own_epsilon_is_noticed(tmp_path: Path) -> None:
    """Guards lines from before there were seals: their event must cost what they say."""
    folder = old_store(tmp_path, change=quieter)
    with pytest.raises(LedgerError, match="contradicts itself"):
        cost(folder)
    with pytest.raises(LedgerError, match="contradicts itself"):
        ledger(reopen(folder), "k2", {"a": "1"}).reserve(EVENT, DELTA)


def test_the_ledger_is_compared_with_the_events_of_its_models(tmp_path: Path) -> None:
    folder = old_store(tmp_path)
    roots = reopen(folder)
    with publishing(roots, "train", OLD_LINES[0]["key"]) as folders:
        (folders["private"] / "events.json").write_text(json.dumps(events(LOUD)))
    with pytest.raises(LedgerError, match="has another event for the model"):
        cost(folder)


def damage_line(folder: Path) -> None:
    path = folder / "private/ledger" / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"type": "release"\n', *lines[3:]]))


def test_damage_can_be_acknowledged_and_nothing_gets_cheaper(folder: Path) -> None:
    before = cost(folder)
    damage_line(folder)
    roots = reopen(folder, is_checked=False)
    with pytest.raises(ConfigError, match="needs a reason"):
        acknowledge_damage(roots, " ")
    told = acknowledge_damage(roots, "the disk failed")
    assert (told["num_kept"], told["num_lost"]) == (2, 1)
    assert cost(folder) == math.inf >= before
    lines = (folder / "private/ledger" / FILE).read_text()
    assert "the disk failed" in lines
    assert list((folder / "private/ledger").glob("damaged-*.jsonl"))
    with pytest.raises(ConfigError, match="no damage"):
        acknowledge_damage(reopen(folder), "again")
    damage_line(folder)  # and what comes later is noticed as ever
    with pytest.raises(LedgerError):
        cost(folder)


def test_a_lost_secret_can_be_acknowledged_and_every_release_counts_for_every_file(folder: Path) -> None:
    before = cost(folder)
    (folder / "private/secret").write_text("00" * 32)
    told = acknowledge_damage(reopen(folder, is_checked=False), "the secret was lost")
    assert told["num_lost"] == 0
    assert told["num_unverified"] == 6
    roots = reopen(folder)
    assert {r.tokens for r in read_ledger(roots)} == {None}
    assert cost(folder) == pytest.approx(before)
    with pytest.raises(PrivacyGateError, match="earlier releases"):
        ledger(roots, "new", {"unrelated": "9"}, budget_epsilon=before).reserve(EVENT, DELTA)


def test_a_line_that_contradicts_itself_counts_as_one_without_noise(tmp_path: Path) -> None:
    folder = old_store(tmp_path, change=quieter)
    acknowledge_damage(reopen(folder, is_checked=False), "edited by hand")
    assert cost(folder) == math.inf


@pytest.mark.parametrize(("p_value", "replaced"), [(1e-9, None), (0.5, None), (1e-9, b'"p_value":0.9')])
def test_acknowledged_damage_takes_no_alarm_of_an_audit_away(
    folder: Path, p_value: float, replaced: bytes | None
) -> None:
    """An alarm stays, evidence that was none stays none, and a line that was edited counts as a refutation."""
    roots = reopen(folder)
    with locked(roots) as path:
        read_documents(roots, path)
        append(roots, path, [{"type": AUDITED, "audit": "a", "run_id": None, "p_value": p_value}])
    path = folder / "private/ledger" / FILE
    if replaced is not None:
        edited = path.read_bytes().replace(b'"p_value":1e-09', replaced)
        assert replaced in edited
        path.write_bytes(edited)
    damage_line(folder)
    acknowledge_damage(reopen(folder, is_checked=False), "the disk failed")
    roots = reopen(folder)
    with locked(roots) as path:
        kept = sequential_test_of(read_documents(roots, path))
    assert kept.audits == ("a",)
    assert kept.is_alarm == (p_value < 0.5)
    if kept.is_alarm:
        clear_alarm(roots, "looked into")
        damage_line(folder)
        acknowledge_damage(reopen(folder, is_checked=False), "the disk failed again")
        roots = reopen(folder)
        with locked(roots) as path:
            assert not sequential_test_of(read_documents(roots, path)).is_alarm
