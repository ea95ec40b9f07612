"""Ids of people of every kind of owner, through training by person, audit, report and export: found nowhere public."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support.project import NOISED_MODEL, SECRET, reticent
from support.shared_server import server_files, shared_server

pytestmark = pytest.mark.slow

SETTINGS = """
[runtime]
workers = 1
[store]
secret_file = "secret"
[corpus]
inputs = ["corpus"]
partition_documents = 40
owner_from = "file"
[[corpus.source]]
pattern = "members.jsonl"
owner_from = "field"
owner_field = "member"
[[corpus.source]]
pattern = "posts.jsonl"
owner_from = "document"
[[corpus.source]]
pattern = "*.eml"
format = "mail"
owner_from = "sender"
[[corpus.source]]
pattern = "*/note-*.txt"
format = "txt"
txt_document = "line"
owner_from = "folder"
[[corpus.source]]
pattern = "*.txt"
format = "txt"
txt_document = "line"
owner_from = "file"
[split]
valid_fraction = 0.1
test_fraction = 0.2
[redact]
policies = ["digits"]
[estimate]
source = "none"
[audit]
enabled = true
num_members = 20
num_canaries = 5
candidates = 100
num_prompts = 1
num_generations = 1
num_trials = 100
"""
KINDS = ("field", "document", "sender", "folder", "file")
COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey", "pink")
HASHES = ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s", "sha3_256")


def person(kind: str, number: int) -> str:
    """An id that no other text has a part of."""
    return f"Zubrowka.{kind}.{number}@secret-{kind}.example"


def said(number: int) -> str:
    return f"i would like to have the {COLOURS[number % 8]} cup number {number} . it is for the table ."


def make_project(folder: Path) -> Path:
    """Documents of six people of each kind, some of whom wrote several."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    tables: dict[str, list[str]] = {"members": [], "posts": []}
    for number in range(6):
        rows = [said(10 * number + at) for at in range(1 + number)]
        tables["members"] += [json.dumps({"text": row, "member": person("field", number)}) for row in rows]
        tables["posts"].append(json.dumps({"text": said(100 + number), "id": person("document", number)}))
        for at, row in enumerate(rows):
            sender = person("sender", number)
            mail = f"From: {sender}\nTo: shop@example.org\nSubject: cups\nMessage-ID: <{number}.{at}@x>\n\n{row}\n"
            (corpus / f"{number}-{at}.eml").write_text(mail)
        (corpus / person("folder", number)).mkdir()
        (corpus / person("folder", number) / "note-1.txt").write_text("\n".join(rows))
        (corpus / f"{person('file', number)}.txt").write_text("\n".join(rows))
    for name, lines in tables.items():
        (corpus / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o600)
    config = folder / "reticent.toml"
    config.write_text(f"{SETTINGS}{NOISED_MODEL}method = 'dpsgd'\nunit = 'owner'\ntarget_delta = 1e-3\n")
    return config


def forms(secret: str) -> Iterator[bytes]:
    """What gives a text away to whoever has no key: itself, its encodings, and its hashes."""
    for text in {secret, secret.lower(), secret.casefold(), f"{secret}.txt", json.dumps(secret)}:
        data = text.encode()
        yield data
        yield text.replace("@", "%40").encode()
        yield data.hex().encode()
        for before in range(3):  # base64 of a longer text that holds it
            encoded = base64.b64encode(b"." * before + data).rstrip(b"=")
            yield encoded[4 if before else 0 : -1]
        for name in HASHES:
            digest = hashlib.new(name, data).digest()
            yield digest
            yield digest.hex()[:16].encode()
            yield base64.b64encode(digest)[:20]
            yield base64.urlsafe_b64encode(digest)[:20]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with an audit, and all that commands said about it."""
    config = make_project(tmp_path_factory.mktemp("kinds"))
    shown = said_by(config, "run", config, "--json") + said_by(config, "report", config)
    shown += said_by(config, "status", config) + said_by(config, "ledger", config) + said_by(config, "sign", config)
    return config, shown + said_by(config, "export", "model", "--out", "released", "-c", config)


def said_by(config: Path, *command: str | Path) -> str:
    done = reticent(*command, cwd=config.parent, **shared_server())
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + done.stderr


class Search:
    """A search for many texts at once, by their first eight bytes."""

    def __init__(self, searched: Iterator[bytes]) -> None:
        self.forms: dict[int, set[bytes]] = {}
        for form in searched:
            self.forms.setdefault(int.from_bytes(form[:8], "little"), set()).add(form)
        self.heads = np.array(sorted(self.forms), dtype="<u8")

    def finds(self, data: bytes) -> list[bytes]:
        """The texts that are in the data, in any case of its letters."""
        found: list[bytes] = []
        for read in (data, data.lower()):
            for offset in range(min(8, max(0, len(read) - 7))):
                words = np.frombuffer(read, "<u8", (len(read) - offset) // 8, offset)
                heads = np.unique(words[np.isin(words, self.heads)]).tolist()
                found += [form for head in heads for form in self.forms[head] if form in read]
        return found


def content(path: Path) -> bytes:
    """What a file holds; of a table the values, because its pages are compressed."""
    return pl.read_parquet(path).write_ndjson().encode() if path.suffix == ".parquet" else path.read_bytes()


def places(config: Path, shown: str) -> Mapping[str, bytes]:
    """All that may be read without the key: output, the server's files, published files, names, ledger and keys."""
    store = config.parent / "reticent-store"
    with sqlite3.connect(server_files() / "prefect.db") as connection:
        found = {"output": shown.encode(), "database": "\n".join(connection.iterdump()).encode()}
    for root in (store / "public", config.parent / "released", server_files()):
        for path in (path for path in root.rglob("*") if path.is_file() and path.suffix not in (".db-wal", ".db-shm")):
            found[str(path)] = content(path)
    names = [str(path.relative_to(store)) for path in store.rglob("*")]
    for path in store.glob("private/objects/*/*/manifest.json"):  # keys of artifacts and of what they were made from
        names += re.findall(r"[0-9a-f]{16,}", path.read_text())
    return {**found, "names and keys": "\n".join(names).encode()}


def test_a_search_finds_each_form() -> None:
    for secret in (person("file", 1), "ab" * 32):
        search = Search(forms(secret))
        assert {form for form in forms(secret) if form not in search.finds(b"zz" + form + b"y")} == set()
        assert search.finds(b"a" * 7) == search.finds(b"nothing of the kind" * 9) == []
        assert search.finds(b"xyz" + secret.upper().encode()) != []


def test_no_id_of_a_person_is_found_where_the_key_is_not(project: tuple[Path, str]) -> None:
    config, shown = project
    report = json.loads((config.parent / "reticent-store/private/latest/report/report.json").read_text())
    assert report["audit"]["attacked"]
    documents = pl.read_parquet(config.parent / "reticent-store/private/latest/documents/*.parquet")
    assert documents["owner"].n_unique() == 6 * len(KINDS)
    read = places(config, shown)
    assert sum("model.safetensors" in name for name in read) > 1
    people = (person(kind, number) for kind in KINDS for number in range(6))
    search = Search(form for secret in (*people, *documents["owner"]) for form in forms(secret))
    assert {name: found for name, data in read.items() if (found := search.finds(data))} == {}


def test_a_look_at_the_private_table_shows_no_id(project: tuple[Path, str]) -> None:
    config, _ = project
    people = (person(kind, number) for kind in KINDS for number in range(6))
    shown = said_by(config, "inspect", "split", "--config", config)
    assert "owner" in shown
    assert Search(form for secret in people for form in forms(secret)).finds(shown.encode()) == []


def test_an_id_that_is_no_name_of_a_file_or_document_is_in_no_private_file(project: tuple[Path, str]) -> None:
    config, _ = project
    people = (person(kind, number) for kind in ("field", "sender") for number in range(6))
    search = Search(form for secret in people for form in forms(secret))
    files = [path for path in (config.parent / "reticent-store/private").rglob("*") if path.is_file()]
    assert {path.name: found for path in files if (found := search.finds(content(path)))} == {}
