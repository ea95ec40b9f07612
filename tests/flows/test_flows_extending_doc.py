"""The plug-ins that the documentation shows work as they stand there."""

import json
import tomllib

import pytest
from support.extending import blocks

from flows.commands.redact import redact_lines, redactor_spec
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import ConfigError
from pipelines.policies import registry
from pipelines.settings.loading import load_settings


def redacted(folder, options):
    lines = redact_lines(str(folder / "in.txt"), redactor_spec(options.pop("policies"), options), check_language=False)
    return [json.loads(line)["redacted_text"] for line in lines]


def test_the_policy_of_the_documentation(tmp_path, monkeypatch):
    (code,) = blocks("A policy", "python")
    settings, package = (tomllib.loads(text) for text in blocks("A policy", "toml"))
    (tmp_path / "shouting.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "in.txt").write_text("Ask NASA for a USB key by 5.\n", "utf-8")
    assert redacted(tmp_path, dict(settings["redact"])) == ["Ask <MASK> for a USB key by <MASK>."]
    assert redacted(tmp_path, {"policies": ["shouting:Capitals"]}) == ["Ask <MASK> for a <MASK> key by 5."]
    ((name, reference),) = package["project"]["entry-points"]["reticent.policies"].items()
    assert registry.spec(reference).name == name


def test_a_wrong_option_is_told_with_the_nearest_one(tmp_path, monkeypatch):
    (tmp_path / "shouting.py").write_text(blocks("A policy", "python")[0], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = blocks("A policy", "toml")[0].replace("keep =", "kept =")
    (tmp_path / "reticent.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=r"shouting:Capitals\.kept: unknown option; did you mean 'keep'"):
        load_settings(tmp_path / "reticent.toml", {})


MAIL = b"""From a@example.com Mon Jan  1 00:00:00 2024
Message-ID: <1@example.com>
To: sales
Subject: My order

Where is it?
From b@example.com Mon Jan  1 00:00:00 2024
Message-ID: <2@example.com>
Content-Type: text/html

<p>Hello</p>
"""


def test_the_reader_of_the_documentation(tmp_path, monkeypatch):
    (tmp_path / "mailboxes.py").write_text(blocks("A reader", "python")[0], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "reticent.toml").write_text(blocks("A reader", "toml")[0], "utf-8")
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "inbox.mbox").write_bytes(MAIL)
    corpus = load_settings(tmp_path / "reticent.toml", {}).stages["corpus"]
    options = corpus.read_options()
    (partition,) = scan(corpus.inputs, base_dir=tmp_path, format=corpus.format, options=options, secret=b"s")
    document, rejected = read_documents(partition.pieces[0], options)
    assert (document.row, document.source_id, document.domain) == (1, "<1@example.com>", "sales")
    assert document.text == "Where is it?\n"
    assert (rejected.row, rejected.reason) == (2, "missing_text")
