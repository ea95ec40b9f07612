"""Recognises chat logs and transcripts, and takes no program's log, table, mail, code or prose for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_logs import best
from format_examples_logs import EXAMPLES, MORE
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus import recognise_logs, recognise_nontext
from pipelines.corpus.format_list_chats import FORMATS_OF_CHATS

BOTH = (*recognise_logs.RECOGNISERS, *recognise_nontext.RECOGNISERS)
OF_LINES = ("whatsapp", "irc", "vtt", "srt", "transcript")
LOGS = {
    "plain": "2024-01-03 10:15:32 INFO server started\n2024-01-03 10:15:33 INFO request: done\n",
    "python": "2024-01-03 10:15:32,123 - root - INFO - started\n2024-01-03 10:15:33,123 - a.b - ERROR - slow: 3 s\n",
    "dashes": "2024-01-03 10:15:32 - root - INFO: started\n2024-01-03 10:15:33 - root - INFO: x\n",
    "laravel": "[2024-01-03 10:15:32] production.ERROR: bad: x\n[2024-01-03 10:15:32] production.INFO: thing\n",
    "bracket": "[2024-01-03 10:15:32] INFO: bad thing: x\n[2024-01-03 10:15:32] ERROR: thing\n",
    "syslog": "Jan  3 10:15:32 host sshd[123]: Accepted password for ann\nJan  3 10:15:33 host kernel: usb 1-1: x\n",
    "access": '1.2.3.4 - - [03/Jan/2024:10:15:32 +0000] "GET / HTTP/1.1" 200 12\n' * 3,
    "tabs": "2024-01-03 10:15:32\tINFO\tserver started\n2024-01-03 10:15:33\tERROR\tx\n",
    "times": "10:15:32 INFO: x started\n10:15:33 INFO: y\n10:15:34 DEBUG: y\n",
    "game": "[10:15:32] [Server thread/INFO]: ann joined\n[10:15:33] [Server thread/INFO]: <ann> hi\n",
    "cloud": "2024-01-03T10:15:32Z app[web.1]: hello\n2024-01-03T10:15:33Z app[web.1]: x\n",
    "trace": "2024-01-03 10:15:32 ERROR x\nTraceback (most recent call last):\n"
    "  File \"a.py\", line 3\nValueError: x\n",
    "json": '{"level": "info", "ts": 1, "msg": "started"}\n{"level": "info", "ts": 2, "msg": "ready"}\n',
}  # fmt: skip
NOT_TEXT = {
    "a.txt": "#!/bin/bash\nset -e\nrm -f a.zip\n\necho \"done building the archive for everybody\"\n",
    "b.txt": "import os\n\n\ndef main(path):\n    for name in os.listdir(path):\n"
    "        print(name)\n\n\nmain('.')\n",
    "c.txt": "#include <stdio.h>\nint main(void) {\n  printf(\"hi\\n\");\n  return 0;\n}\n",
    "d.txt": "const a = require('b');\nfunction f(x) {\n  return a(x) + 1;\n}\nmodule.exports = { f };\n",
    "e.txt": "-- MySQL dump 10.13\nDROP TABLE IF EXISTS `a`;\nCREATE TABLE `a` (`b` int);\n"
    "INSERT INTO `a` VALUES (1,'x');\n",
    "f.txt": "[server]\nport = 80\nhost = example.org\n# a comment\nuser=ann\n",
    "g.txt": "---\nname: x\nsteps:\n  - run: make\n  - run: test\n",
    "h.txt": "QUFB" * 19 + "\n" + "QkJC" * 19 + "\n",
    "i.txt": "0000000 7f45 4c46 0201 0100 0000 0000\n0000010 0300 3e00 0100 0000 0000 0000\n",
    "j.txt": "!function(e,t){" + "var n=e.a;for(var r=0;r<n.length;r++){t(n[r]);}" * 60 + "}(window,0);",
    "k.xml": "<?xml version='1.0'?>\n<beans><bean id='a' class='b.C'/></beans>\n",
    "l.json": json.dumps({"name": "x", "version": "1.0", "scripts": {"test": "make test"}, "private": True}),
    "m.py": "x = 1\n", "n.yaml": "a: 1\n", "Makefile": "all:\n\techo x\n",
    "o.txt": "<rows><row a='1' b='2'/><row a='3' b='4'/><row a='5' b='6'/></rows>\n",
}  # fmt: skip
TEXTS = {
    "prose": "It was late. Ann (the rower) came home; she said: wait!\nThen nobody spoke = silence.\n\nBob left.\n",
    "poem": "Tell me, O muse,\nof that ingenious hero;\nwho travelled far (and wide)\n",
    "form": "Name: Ann Lee\nPhone: 123\nComplaint: the boat leaks\n",
    "dialogue": "Ann: hi\nBob: hello\nAnn: yes\n",
    "mail": "From: ann@example.org\nDate: Wed, 3 Jan 2024 10:15:32 +0000\nSubject: x\n\nHi Bob, at 10:15: bye\n",
    "diary": "12.03.24 Met Ann at 10:15. It was nice: we talked.\n13.03.24 Nothing.\n",
    "schedule": "10:15 Welcome: Ann\n11:00 Talk: Bob\n12:00 Lunch\n",
    "list": "- milk\n- bread (dark)\n- butter; salted\n",
    "tables": "2024-01-03 10:15:32,ann,hello there\n2024-01-03 10:15:33,bob,hi\n",
    "html": "a text with <a href=x>a link</a> in it, and more text around it than tags\n",
}


def test_every_format_of_lines_has_an_example():
    assert set(EXAMPLES) == set(OF_LINES) <= {spec.name for spec in FORMATS_OF_CHATS}


@pytest.mark.parametrize("suffix", [".txt", ".log"])
@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_programs_log_is_no_chat(log, suffix):
    found = best(BOTH, log * 5, f"a{suffix}")
    if log.startswith("{") and suffix == ".txt":
        return  # a reader of JSON looks at it
    assert found.format is None
    assert found.score >= 0.8
    assert "log" in found.what


@pytest.mark.parametrize("name", NOT_TEXT)
def test_code_settings_and_dumps_are_no_text(name):
    found = best(BOTH, NOT_TEXT[name], name)
    assert found is not None
    assert found.format is None


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_prose_and_other_formats_are_claimed_by_nobody(text):
    found = best(BOTH, text, "a.txt")
    assert found is None or found.score <= 0.5


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json", "a.jsonl", "a.eml", "a.md", "a.html", "a.mbox"])
def test_files_of_other_suffixes_are_left_to_their_readers(name):
    for example in (EXAMPLES["whatsapp"], EXAMPLES["irc"], EXAMPLES["transcript"]):
        found = best(recognise_logs.RECOGNISERS, example.data, name)
        assert found is None or (name == "a.md" and found.format == "transcript")


def test_this_project_is_source_code_even_without_suffixes():
    files = [path for path in Path(recognise_logs.__file__).parent.glob("*.py") if path.stat().st_size > 3_000]
    found = [best(BOTH, path.read_bytes(), "a.txt") for path in files]
    assert sum(reading is not None and reading.what == "source code" for reading in found) > 0.8 * len(files)


def test_documentation_is_text():
    pages = [*Path(recognise_logs.__file__).parents[2].glob("docs/*.md")]
    found = [best(BOTH, page.read_bytes(), page.name) for page in pages]
    assert [page.name for page, reading in zip(pages, found, strict=True) if reading is not None] == []


@given(
    st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.sampled_from(["a.txt", "a.log", "a", "a.json"])
)
def test_no_recogniser_fails(data, name):
    best(BOTH, data, name)


@given(st.data())
def test_no_recogniser_fails_on_a_damaged_example(data):
    example = data.draw(st.sampled_from([*EXAMPLES.values(), *(more for _, more in MORE)])).data
    at = data.draw(st.integers(0, len(example)))
    best(BOTH, example[:at] + data.draw(st.binary(max_size=5)) + example[at + 3 :])
