"""Every documented command and option is run: by the lines of `support.command_lines`, by a tutorial, or elsewhere."""

from __future__ import annotations

import functools
import json
import re
import shlex
import signal
import subprocess
import sys
from itertools import chain

import pytest
from increment import drive, write_project
from looked_at import EVERYTHING, TRAIN
from support import REPOSITORY
from support.command_lines import ELSEWHERE, PARTS, lines
from support.copies import copied
from support.project import reticent
from support.session import made_once
from support.shared_server import shared_server
from support.steering import NAME, ODD, is_escaped, make_odd, steering
from support.tiny_token_classifier import write_model
from test_flows_commands_doc import shown

from flows.docs.commands import leaves

KEY, NEXT = "9f3a" * 16, "77" * 32
SMALL = {
    f"RETICENT__TRAIN__{name}": value
    for name, value in {
        "NUM_LAYERS": "1", "NUM_HEADS": "2", "EMBEDDING_SIZE": "32", "CONTEXT_LENGTH": "48", "VOCAB_SIZE": "400",
        "EPOCHS": "1", "EXPECTED_BATCH_SIZE": "64",
    }.items()
}  # fmt: skip
TUTORIALS = {"tutorials/nightly.md", "tutorials/comparing.md", "tutorials/auditing.md", "tutorials/chat-logs.md"}
LEAST_ESCAPED = {"looks": 2, "texts": 2, "learns": 1}
"""By part, how many lines must have printed something that was there to escape."""
GOLD = [
    {"text": f"call Mary Jones at 555 010{n}", "spans": [{"start": 5, "end": 15, "label": "PER"}]} for n in range(20)
]


@functools.cache
def commands():
    return {path.removeprefix("reticent "): command for path, command in leaves()}


def name_of(parameter):
    """An option's long name; nothing for an argument."""
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else ""


def documented():
    """Every command, and every option of every command."""
    for name, command in commands().items():
        yield name, ""
        yield from ((name, name_of(p)) for p in command.params if name_of(p) not in ("", "--help"))


def used(words):
    """The command of a line, and the options that it gives."""
    name = next(name for n in (2, 1) if (name := " ".join(words[:n])) in commands())
    context = commands()[name].make_context("reticent", words[name.count(" ") + 1 :])
    given = (p for p in context.command.params if context.get_parameter_source(p.name).name == "COMMANDLINE")
    return {(name, ""), *((name, name_of(p)) for p in given)}


def run_elsewhere():
    """Commands and options that another test runs, in whose text they stand."""
    for line, place in ELSEWHERE.items():
        text = (REPOSITORY / place).read_text("utf-8")
        name, *options = line.split()
        words = ((name,), *((option, f"--no-{option[2:]}") for option in options))
        missing = [names[0] for names in words if not any(f'"{one}"' in text for one in names)]
        assert missing == [], f"{place} does not run them"
        yield from ((name, option) for option in ("", *options))


def never_run():
    tutorials = (words for page, words in shown() if page in TUTORIALS)
    ours = (words for part in PARTS for words, _ in lines(part))
    run = set(run_elsewhere()).union(*map(used, chain(ours, tutorials)))
    return [one for one in documented() if one not in run]


def test_every_command_and_every_option_is_run():
    assert never_run() == [], "add a line to tests/support/command_lines.py"


def test_a_command_that_nothing_runs_is_found(patch):
    patch.item(PARTS, "looks", PARTS["looks"].replace("dedup-stats --top 2", "dedup-stats").replace("schema", ""))
    assert {("schema", ""), ("dedup-stats", "--top")} <= set(never_run())


def finished_odd_run():
    """A project whose corpus holds what steers terminals, in text, names of files and fields, speakers, and labels."""
    return made_once("odd-run", _odd_run) / "project"


def _odd_run(folder):
    config = write_project(folder / "project", 3, 15)
    make_odd(config.parent / "corpus")
    text = config.read_text().replace("replicates = 2\nfraction = 0.5", "replicates = 1\nfraction = 1.0")
    config.write_text(f'{text}{TRAIN}[gate]\nignore = ["SYS", "USR"]\n')  # odd speakers are no speakers, but text
    drive(config, EVERYTHING)


def project(folder, part):
    """The folder in which the lines of a part run."""
    config = copied(finished_odd_run(), folder / "project") / "reticent.toml"
    here = config.parent
    names = here / "names.txt"
    names.write_text("Mary Jones\n")
    (here / "keywords.json").write_text('{"post": ["parcel"]}')
    (here / "mail.jsonl").write_text(
        json.dumps({"id": f"1{NAME}", "text": f"Mary Jones has T-123456 and calls 5550100 {ODD}"}) + "\n"
    )
    (here / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in GOLD))
    domains = [{"text": f"my parcel {n} is late", "domain": ("post", "shop")[n % 2]} for n in range(20)]
    (here / "domains.jsonl").write_text("".join(json.dumps(row) + "\n" for row in domains))
    (here / "counts.csv").write_text("missed,total\n1,200\n0,150\n")
    if part == "learns":
        write_model(here / "base", seed=1)
    if part == "seals":
        config.rename(here / "other.toml")
        config.write_text('[store]\nroot = "sealed"\nkey_env = "KEY"\n[corpus]\ninputs = ["corpus"]\n')
    if part == "damaged":
        (ledger,) = (here / "reticent-store/private/ledger").glob("*.jsonl")
        ledger.write_bytes(ledger.read_bytes()[:-20] + b"\n")
    return config


def environment_of(part, folder):
    """What the settings do not say: keys, a place to mirror to, and for what trains a server and a very small model."""
    found = {"KEY": KEY, "NEXT": NEXT, "RETICENT__STORE__MIRROR_URL": f"file://{folder}/mirror"}
    return found | ({**shared_server(), **SMALL} if part == "runs" else {})


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_the_lines_run(part, tmp_path):
    config, environment = project(tmp_path, part), environment_of(part, tmp_path)
    (model,) = (config.parent / "reticent-store/private/objects/train").iterdir()
    num_escaped = 0
    for words, code in lines(part):
        words = [model.name if word == "{train}" else word for word in words]
        done = reticent(*words, cwd=config.parent, **environment)
        line = f"reticent {shlex.join(words)}"
        assert done.returncode == code, f"{line} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        assert not re.search("Traceback|unexpected", done.stderr), f"{line}:\n{done.stderr}"
        assert steering(done.stdout + done.stderr) == [], line
        num_escaped += is_escaped(done.stdout + done.stderr)
        if "--json" in words and words[0] != "redact":
            assert json.loads(done.stdout.splitlines()[-1])["schema_version"] >= 1, line
    assert num_escaped >= LEAST_ESCAPED.get(part, 0)


@pytest.mark.slow
def test_the_review_page_is_served_until_ctrl_c(tmp_path):
    config = project(tmp_path, "measures")
    page = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "review", "--adjudicate", "--port", "0", "--no-browser"],
        cwd=config.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert any("http://127.0.0.1:" in line for line in page.stderr)
        page.send_signal(signal.SIGINT)
        said, _ = page.communicate(timeout=60)
    finally:
        page.kill()
    assert page.returncode == 0
    assert "sentences are reviewed" in said
