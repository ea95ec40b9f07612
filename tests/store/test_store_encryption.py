"""Encrypted stores: one key opens one, from its beginning; reruns, damage and rotation are those of any store."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.patches import Patch
from support.toy import Toy, drive, ran, states

from pipelines.encryption import places
from pipelines.encryption.ring import FILE, WrongKeyError
from pipelines.encryption.sealed import MAGIC
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, StageError, StoreError
from pipelines.files import read_file, read_json, write_atomic
from pipelines.miss_rate.review_log import Decision, DecisionLog, read_decisions
from pipelines.settings.loading import load_settings
from pipelines.store.ledger.sign_offs import enter_signature, page_path, page_state, signatures
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.reviews import review_state, reviews_path
from pipelines.store.objects.session import Session, child_of, make_session, open_session, read_session, save_spec
from pipelines.store.place import unlocking
from pipelines.store.place.ledger_file import LedgerError, append, readable_lines, whole_lines
from pipelines.store.place.location import is_here, location_of, record_location
from pipelines.store.place.roots import Roots, open_roots
from pipelines.store.place.rotation import rotate
from pipelines.store.upkeep.maintenance import verify

KEY, OTHER = "ab" * 32, "cd" * 32
DECISION = Decision(id="1", at="2026-01-01T00:00:00Z", reviewer="a", key="k")
READ = r'(a|a\.public|ctx\.input\("\w+"\))\.blob\(("[a-z.]+")\)\.read_text\(\)'


@pytest.fixture(autouse=True)
def _nothing_is_open() -> Iterator[None]:
    """Each test is a process that has opened no store."""
    forget()
    yield
    forget()
    for name in [name for name in sys.modules if name.split(".")[0] == "toyproject"]:
        del sys.modules[name]


def forget() -> None:
    places._places.clear()
    unlocking._opened.clear()
    read_session.cache_clear()


@pytest.fixture
def key(tmp_path: Path) -> KeySource:
    return source(tmp_path, KEY)


def source(folder: Path, text: str) -> KeySource:
    path = folder / f"key-{text[:2]}"
    path.write_text(text + "\n")
    return KeySource(file=str(path))


@pytest.fixture
def sealed(toy: Toy) -> Toy:
    """The toy's stages as ours are: they write by ``ctx.out``."""
    for name in ("letters", "upper", "count", "join"):
        path = toy.code / f"{name}.py"
        text = re.sub(r'\(ctx\.out\.folder / ("[a-z.]+")\)\.write_text\(', r"ctx.out.text(\1, ", path.read_text())
        text = text.replace('(ctx.out.public_folder / "public.txt").write_text(', 'ctx.out.public.text("public.txt", ')
        path.write_text(re.sub(READ, r'b"".join(\1.lines(\2)).decode()', text))
    return toy


def run(toy: Toy, key: KeySource | None, **changes: Any) -> Session:
    forget()
    session = toy.session(store_key=key, **changes)
    drive(session)
    return session


def private_files(toy: Toy) -> list[Path]:
    found = [path for path in (toy.folder / "private").rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in found if path.stat().st_size and path.name != FILE]


def plaintexts(toy: Toy, root: str) -> dict[str, list[bytes]]:
    """What stands in the data files, by stage and name."""
    found: dict[str, list[bytes]] = {}
    for path in sorted((toy.folder / root / "objects").glob("*/*/*")):
        if path.name != manifests.MANIFEST:
            found.setdefault(f"{path.parent.parent.name}/{path.name}", []).append(read_file(path))
    return {name: sorted(texts) for name, texts in found.items()}


def test_every_file_is_sealed_and_the_public_root_is_not(sealed: Toy, key: KeySource) -> None:
    session = run(sealed, key)
    save_spec(session)
    session.stat_cache.save()
    files = private_files(sealed)
    assert len(files) > 20
    assert all(path.read_bytes().startswith(MAGIC) for path in files)
    assert KEY not in (sealed.folder / "private" / FILE).read_text()
    shown = [path.read_text() for path in (sealed.folder / "public/objects").rglob("public.txt")]
    assert sorted(shown) == ["ATEB", "ET AHPLA", "ET AMMAG"]
    assert KEY not in str(session.spec.to_json())


def test_plaintexts_equal_a_plain_stores_and_cutoff_works(sealed: Toy, key: KeySource, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("5e" * 32)
    found = {}
    for name, store_key in (("plain", None), ("one", key), ("two", key)):
        run(sealed, store_key, secret_file=str(tmp_path / "secret"))
        found[name] = (plaintexts(sealed, "private"), plaintexts(sealed, "public"))
        if name == "one":
            sealed.edit("helper", "VERSION = 0", "VERSION = 1")  # code that changes no byte
            again = run(sealed, store_key, secret_file=str(tmp_path / "secret"))
            done = states(again.outcomes)
            assert ran(again.outcomes) == {"upper/p-a", "upper/p-b", "upper/p-c"}
            assert done["join"] == done["letters/p-a"] == "cached"
            sealed.edit("helper", "VERSION = 1", "VERSION = 0")
        shutil.move(sealed.folder / "private", tmp_path / f"private-{name}")
        shutil.rmtree(sealed.folder / "public")
    assert found["plain"] == found["two"]


def test_what_a_comparison_kept_sealed_is_published_in_plain(sealed: Toy, key: KeySource) -> None:
    parent = run(sealed, key)
    sealed.run_number += 1
    changes = {"upper": {"suffix": "!"}}
    child = make_session(child_of(parent.spec, f"run-{sealed.run_number:04d}", purpose="comparison", changes=changes))
    drive(child)
    kept = [path for path in private_files(sealed) if path.parent.name == manifests.UNPUBLISHED]
    assert len(kept) == 3
    assert all(path.read_bytes().startswith(MAGIC) for path in kept)
    sealed.settings = changes
    release = run(sealed, key)
    assert ran(release.outcomes) == set()
    shown = [path.read_text() for path in (sealed.folder / "public/objects").rglob("public.txt")]
    assert sorted(text for text in shown if "!" in text) == ["!ATEB", "!ET AHPLA", "!ET AMMAG"]
    assert not [c for c in verify(release.roots) if c.problem]


def test_digests_in_manifests_cannot_be_guessed(sealed: Toy, key: KeySource, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("5e" * 32)
    digests = []
    for store_key in (None, key, key):
        session = run(sealed, store_key, secret_file=str(tmp_path / "secret"))
        (path,) = (sealed.folder / "private/manifests/count").glob("*.json")
        manifest = manifests.load(session.roots, "count", path.stem)
        assert manifest is not None
        digests.append(manifest.files["private/count.txt"])
        shutil.rmtree(sealed.folder / "private")
        shutil.rmtree(sealed.folder / "public")
    plain, one, two = digests
    assert plain["sha256"] != one["sha256"] == two["sha256"]
    assert plain["size"] == one["size"]


def test_a_wrong_or_missing_key_ends_before_anything_is_written(sealed: Toy, key: KeySource) -> None:
    run(sealed, key)
    store = sealed.folder / "private"
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    for wrong, kind, words in (
        (source(sealed.folder, OTHER), WrongKeyError, "not the one that encrypts this store"),
        (None, ConfigError, "is encrypted; name where its key is"),
        (KeySource(env="NO_SUCH_VARIABLE_HERE"), ConfigError, "Nobody can read this store without it"),
    ):
        forget()
        with pytest.raises(kind, match=words) as caught:
            sealed.session(store_key=wrong)
        assert caught.value.exit_code == 2
        assert KEY not in str(caught.value)
        assert OTHER not in str(caught.value)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_a_plain_store_is_not_turned_into_an_encrypted_one(sealed: Toy, key: KeySource) -> None:
    run(sealed, None)
    forget()
    with pytest.raises(ConfigError, match="is not encrypted, and a key is named"):
        sealed.session(store_key=key)
    assert not (sealed.folder / "private" / FILE).exists()


def test_a_lost_ring_is_told_from_a_plain_store(sealed: Toy, key: KeySource) -> None:
    run(sealed, key)
    (sealed.folder / "private" / FILE).unlink()
    for named in (key, None):
        forget()
        with pytest.raises(StoreError, match=r"ring of keys .* is missing"):
            sealed.session(store_key=named)


def test_a_new_store_is_not_begun_without_its_key(sealed: Toy) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        sealed.session(store_key=KeySource(file=str(sealed.folder / "none")))
    assert not (sealed.folder / "private/secret").exists()


def test_a_worker_opens_the_store_by_where_the_key_is(sealed: Toy, key: KeySource) -> None:
    path = str(save_spec(run(sealed, key)))
    forget()
    with pytest.raises(ConfigError, match="name where its key is"):
        open_session(path)
    assert open_session(path, key).spec.store_key == key
    read_session.cache_clear()
    assert open_session(path).spec.store_key == key  # this process has opened it


@pytest.mark.parametrize("damage", ["flipped", "cut", "plain", "swapped"])
def test_a_damaged_file_is_quarantined_and_made_anew(sealed: Toy, key: KeySource, damage: str) -> None:
    session = run(sealed, key)
    before = plaintexts(sealed, "private")
    paths = sorted((sealed.folder / "private/objects/letters").glob("*/letters.txt"))
    raw = [path.read_bytes() for path in paths]
    made = {
        "flipped": raw[0][:-1] + bytes([raw[0][-1] ^ 1]),
        "cut": raw[0][:-3],
        "plain": b"alpha te",
        "swapped": raw[1],
    }
    paths[0].write_bytes(made[damage])
    assert [c.stage for c in verify(session.roots) if c.problem] == ["letters"]
    again = run(sealed, key)
    assert [name.partition("/")[0] for name in ran(again.outcomes)] == ["letters"]
    assert plaintexts(sealed, "private") == before
    assert not [c for c in verify(again.roots) if c.problem]


def test_what_a_stage_writes_in_plain_is_not_published(toy: Toy, key: KeySource) -> None:
    session = toy.session(store_key=key)
    with pytest.raises(StageError, match=r"wrote private/[a-z]+\.txt in plain into an encrypted store"):
        drive(session)
    left = [path for path in private_files(toy) if not path.read_bytes().startswith(MAGIC)]
    assert left == []


def roots_of(folder: Path, key: KeySource) -> Roots:
    forget()
    return open_roots(folder / "private", folder / "public", store_key=key)


def test_a_damaged_ledger_or_log_of_reviews_is_refused(tmp_path: Path, key: KeySource) -> None:
    roots = roots_of(tmp_path, key)
    ledger = roots.private / "ledger.jsonl"
    append(ledger, roots.secret, [{"type": "release"}])
    one = ledger.stat().st_size
    append(ledger, roots.secret, [{"type": "published"}])
    assert len(whole_lines(ledger)) == 2
    raw = bytearray(ledger.read_bytes())
    raw[one + 30] ^= 1
    ledger.write_bytes(raw)
    with pytest.raises(LedgerError, match="cannot be decrypted"):
        whole_lines(ledger)
    assert len(readable_lines(ledger)) == 1
    reviews_path(roots).parent.mkdir()
    reviews_path(roots).write_bytes(b'{"plain": 1}\n')
    for use in (lambda: review_state(roots), lambda: read_decisions(reviews_path(roots))):
        with pytest.raises(StoreError, match="damaged"):
            use()
    with pytest.raises(StoreError, match="damaged"):
        DecisionLog(reviews_path(roots)).append([DECISION])


@pytest.mark.parametrize("reencrypt", [False, True])
def test_a_rotated_key_opens_and_the_old_one_does_not(sealed: Toy, key: KeySource, reencrypt: bool) -> None:
    session = run(sealed, key)
    record_location(session.roots)
    home = location_of(session.roots)
    before, times = plaintexts(sealed, "private"), {p: p.stat().st_mtime_ns for p in private_files(sealed)}
    raw = {path: path.read_bytes() for path in private_files(sealed)}
    new = source(sealed.folder, OTHER)
    done = rotate(session.roots, key, new, reencrypt=reencrypt)
    assert done["num_files"] == (len(raw) if reencrypt else 0)
    assert all((path.read_bytes() == old) != reencrypt for path, old in raw.items())
    assert {p: p.stat().st_mtime_ns for p in times if p.name != "home"} == {
        p: t for p, t in times.items() if p.name != "home"
    }
    forget()
    with pytest.raises(WrongKeyError):
        sealed.session(store_key=key)
    again = run(sealed, new)
    assert ran(again.outcomes) == set()
    assert plaintexts(sealed, "private") == before
    assert home is not None
    assert is_here(again.roots, home)
    assert len(read_json(sealed.folder / "private" / FILE)["keys"]) == 1


def test_a_rotation_that_was_killed_is_ended_by_another(sealed: Toy, key: KeySource, patch: Patch) -> None:
    session = run(sealed, key)
    before, new = plaintexts(sealed, "private"), source(sealed.folder, OTHER)
    from pipelines.store.place import rotation

    real, calls = rotation._seal_again, []

    def killed(path: Path, private: Path) -> bool:
        calls.append(path)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return real(path, private)

    patch(rotation, "_seal_again", killed)
    with pytest.raises(KeyboardInterrupt):
        rotate(session.roots, key, new, reencrypt=True)
    patch.undo()
    forget()
    session = sealed.session(store_key=new)
    assert plaintexts(sealed, "private") == before
    assert rotate(session.roots, new, new, reencrypt=True)["num_files"] == len(private_files(sealed))
    assert not [c for c in verify(roots_of(sealed.folder, new)) if c.problem]


def test_a_store_in_use_or_without_encryption_is_not_rotated(sealed: Toy, key: KeySource) -> None:
    from pipelines.store.place.locks import store_lock

    session = run(sealed, key)
    with store_lock(session.roots.private), pytest.raises(StoreError, match="in use"):
        rotate(session.roots, key, source(sealed.folder, OTHER))
    with pytest.raises(ConfigError, match="not encrypted"):
        rotate(replace(session.roots, private=sealed.folder / "other"), key, key)
    with pytest.raises(ConfigError, match="not encrypted"):
        rotate(session.roots, None, key)


def test_what_stages_can_make_again_is_not_kept(sealed: Toy, key: KeySource) -> None:
    """Libraries would open it by its path (`pipelines.store.building.execute`)."""
    sealed.edit("count", "def run(ctx):", "def run(ctx):\n    assert ctx.out.cache is None")
    run(sealed, key)


def test_one_place_for_the_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "reticent.toml").write_text('[store]\nkey_file = "a"\nkey_env = "B"\n')
    with pytest.raises(ConfigError, match="name one of key_file, key_command and key_env"):
        load_settings(tmp_path / "reticent.toml", {})
    (tmp_path / "reticent.toml").write_text('[store]\nkey_command = ["cat", "key"]\n')
    assert load_settings(tmp_path / "reticent.toml", {}).store_key() == KeySource(command=("cat", "key"))
    named = load_settings(
        tmp_path / "reticent.toml", {"RETICENT__STORE__KEY_COMMAND": "", "RETICENT__STORE__KEY_ENV": "B"}
    )
    assert named.store_key() == KeySource(env="B")


def test_a_page_that_was_signed_is_sealed_and_known_again(tmp_path: Path, key: KeySource) -> None:
    roots = open_roots(tmp_path / "private", tmp_path / "public", store_key=key)
    page = page_path(roots, "20261123T090000.000Z-abc123")
    page.parent.mkdir(mode=0o700)
    write_atomic(page, b"what was read")
    digest = hashlib.sha256(b"what was read").hexdigest()
    signed = enter_signature(roots, name="Ada Example", run_id=page.stem, digest=digest, report="k")
    assert page.read_bytes().startswith(MAGIC)
    assert b"Ada Example" not in (roots.private / "ledger" / "releases.jsonl").read_bytes()
    assert signatures(roots) == [signed]
    assert page_state(roots, signed) == "as signed"
    page.write_bytes(page.read_bytes()[:-1] + b"!")
    assert page_state(roots, signed) == "gone"  # damaged: what it said cannot be read
