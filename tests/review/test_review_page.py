"""The review page: who may open it, that it keeps every decision, and that it works by keyboard in a real browser."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import chrome

from flows.review.server import ReviewServer
from flows.review.session import ReviewSession
from pipelines.miss_rate.review_items import Item, Mask, Neighbour
from pipelines.miss_rate.review_log import Decision, DecisionLog, Secret, ballots_of, read_decisions
from pipelines.policies.labels import REVIEW_LABELS
from pipelines.stages.estimate import EstimateConfig

SECRET = "Zebediah"


def make_items(number=24):
    """Sentences `order <n> is for Zebediah Quill`, of which the name's second word is masked."""
    items = []
    for i in range(number):
        text = f"order {i:03} is for {SECRET} Quill"
        starts = [m.start() for m in re.finditer(r"\S+", text)]
        ends = [m.end() for m in re.finditer(r"\S+", text)]
        mask = Mask(starts[5], ends[5], "PERSON")
        near = (Neighbour("SYS", f"what is order {i}"),), (Neighbour(None, "<b>thanks</b>"),)
        items.append(Item(f"{i:032x}", text, tuple(starts), tuple(ends), (mask,), "USR", ("d", i), 0, *near))
    return items


@pytest.fixture
def served(tmp_path):
    log = DecisionLog(tmp_path / "reviews" / "decisions.jsonl")
    session = ReviewSession(make_items(), log, "ana")
    server = ReviewServer(session.api())
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server, log
    server.shutdown()
    server.server_close()


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, None if body is None else json.dumps(body), names)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def enter(server):
    answer, _ = ask(server, "GET", f"/?token={server.token}")
    assert answer.status == 303
    return answer.getheader("Set-Cookie").split(";")[0], answer


def origin(server):
    return f"http://127.0.0.1:{server.server_port}"


def good(server, cookie):
    return {"Cookie": cookie, "Origin": origin(server), "Content_Type": "application/json"}


def test_the_token_opens_the_page_once(served):
    server, _ = served
    url = server.url
    cookie, answer = enter(server)
    assert "HttpOnly" in answer.getheader("Set-Cookie")
    assert "SameSite=Strict" in answer.getheader("Set-Cookie")
    assert answer.getheader("Location") == "/"
    again, text = ask(server, "GET", url.removeprefix(origin(server)))
    assert again.status == 403
    assert "used before" in text
    page, text = ask(server, "GET", "/", Cookie=cookie)
    assert page.status == 200
    assert SECRET not in text


@pytest.mark.parametrize("path", ["/", "/review.js", "/review.css", "/?token=wrong", "/?token="])
def test_nothing_is_shown_without_the_token(served, path):
    server, _ = served
    answer, text = ask(server, "GET", path)
    assert answer.status == 403
    assert SECRET not in text


def test_nothing_is_answered_without_the_cookie_or_from_another_origin(served):
    server, log = served
    cookie, _ = enter(server)
    allowed = good(server, cookie)
    answer, text = ask(server, "POST", "/api/state", {}, **allowed)
    assert answer.status == 200
    assert SECRET in text
    for changed in (
        {"Cookie": ""},
        {"Cookie": f"{server.cookie}=guess"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": f"evil.example:{server.server_port}"},
        {"Content_Type": "text/plain"},
    ):
        answer, text = ask(server, "POST", "/api/state", {}, **{**allowed, **changed})
        assert answer.status in (403, 415, 421), changed
        assert SECRET not in text
    without = {name: value for name, value in allowed.items() if name != "Origin"}
    assert ask(server, "POST", "/api/state", {}, **without)[0].status == 403
    assert ask(server, "GET", "/", Cookie=cookie, Host="evil.example")[0].status == 421
    assert not log.path.exists()


@pytest.mark.parametrize(
    "path", ["/../cli.py", "/page/index.html", "/..%2f..%2fetc/passwd", "/api/state", "//etc/passwd", "/x?y"]
)
def test_paths_outside_the_page_are_refused(served, path):
    server, _ = served
    cookie, _ = enter(server)
    answer, text = ask(server, "GET", path, Cookie=cookie)
    assert answer.status == 404
    assert "root:" not in text


def test_answers_forbid_caching_framing_and_foreign_content(served):
    server, _ = served
    cookie, _ = enter(server)
    for answer in (
        ask(server, "GET", "/", Cookie=cookie)[0],
        ask(server, "POST", "/api/state", {}, **good(server, cookie))[0],
        ask(server, "GET", "/")[0],
    ):
        assert answer.getheader("Cache-Control") == "no-store"
        assert answer.getheader("X-Frame-Options") == "DENY"
        assert answer.getheader("Referrer-Policy") == "no-referrer"
        policy = answer.getheader("Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    for file in (Path("flows") / "review" / "page").iterdir():
        text = file.read_text()
        assert "http://" not in text
        assert "https://" not in text


def test_requests_are_not_logged(served, capfd):
    server, _ = served
    cookie, _ = enter(server)
    ask(server, "POST", "/api/state", {}, **good(server, cookie))
    ask(server, "POST", "/api/decide", {"key": "x"}, **good(server, cookie))
    out = capfd.readouterr()
    assert out.out == out.err == ""


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "12345678", "key": "x", "kind": "judge", "marked": [], "wrong": []},
        {"id": "12345678", "key": f"{0:032x}", "kind": "undo", "marked": [], "wrong": []},
        {"id": "12345678", "key": f"{0:032x}", "kind": "judge", "marked": [[0, 999, "X"]], "wrong": []},
        {"id": "12345678", "key": f"{0:032x}", "kind": "judge", "marked": [[3, 1, "X"]], "wrong": []},
        {"id": "12345678", "key": f"{0:032x}", "kind": "judge", "marked": [[0, 1, ""]], "wrong": []},
        {"id": "1", "key": f"{0:032x}", "kind": "judge", "marked": [], "wrong": []},
        {"id": "12345678", "key": f"{0:032x}", "kind": "judge", "marked": "x", "wrong": []},
    ],
)
def test_requests_of_another_form_save_nothing(served, body):
    server, log = served
    cookie, _ = enter(server)
    answer, text = ask(server, "POST", "/api/decide", body, **good(server, cookie))
    assert answer.status == 400
    assert SECRET not in text
    assert not log.path.exists()


def test_a_large_request_is_refused(served):
    server, _ = served
    cookie, _ = enter(server)
    answer, _ = ask(server, "POST", "/api/state", None, Content_Length=str(2**30), **good(server, cookie))
    assert answer.status == 413


def decide(session, number, marked=(), wrong=(), kind="judge"):
    key = session.state()["sentence"]["key"]
    return session.decide(
        {"id": f"decision{number}", "key": key, "kind": kind, "marked": list(marked), "wrong": list(wrong)}
    )


def test_a_decision_is_on_the_disk_before_the_next_sentence(tmp_path, monkeypatch):
    log = DecisionLog(tmp_path / "decisions.jsonl")
    session = ReviewSession(make_items(3), log, "ana")
    order = []
    import os

    real_fsync, real_state = os.fsync, session._state
    monkeypatch.setattr(os, "fsync", lambda d: (order.append("flushed"), real_fsync(d))[1])
    monkeypatch.setattr(session, "_state", lambda *a, **k: (order.append("shown"), real_state(*a, **k))[1])
    key = real_state()["sentence"]["key"]
    session.decide({"id": "decision1", "key": key, "kind": "judge", "marked": [], "wrong": []})
    assert order.index("flushed") < order.index("shown")


def test_skip_comes_back_at_the_end_and_undo_restores_the_marks(tmp_path):
    session = ReviewSession(make_items(3), DecisionLog(tmp_path / "d.jsonl"), "ana")
    skipped = session.state()["sentence"]["key"]
    state = decide(session, 1, kind="skip")
    assert state["sentence"]["key"] != skipped
    marked = state["sentence"]["key"]
    decide(session, 2, marked=[[0, 5, "NUMBER"]])
    state = session.undo({})
    assert state["sentence"]["key"] == marked
    assert state["sentence"]["marked"] == [[0, 5, "NUMBER"]]
    assert state["num_done"] == 0
    decide(session, 3)
    state = decide(session, 4)
    assert state["sentence"]["key"] == skipped
    state = decide(session, 5)
    assert state["sentence"] is None
    assert (state["num_done"], state["num_total"]) == (3, 3)


def test_two_reviewers_and_an_adjudicator(tmp_path):
    log, items = DecisionLog(tmp_path / "d.jsonl"), make_items(4)
    ana, ben = ReviewSession(items, log, "ana"), ReviewSession(items, log, "ben")
    for number in range(4):
        decide(ana, f"a{number:07}", marked=[[16, 24, "PERSON"]])
        decide(ben, f"b{number:07}", marked=[] if number == 0 else [[16, 24, "PERSON"]])
    (row,) = ben.state()["agreement"]
    assert row["num_disputed"] == 1
    assert 0.5 < row["kappa"] < 1
    chief = ReviewSession(items, log, "chief", mode="adjudicate")
    state = chief.state()
    assert state["num_total"] == 1
    assert [other["reviewer"] for other in state["sentence"]["others"]] == ["ana", "ben"]
    state = decide(chief, 9999, marked=[[16, 24, "PERSON"]])
    assert state["sentence"] is None
    judgement = ballots_of(read_decisions(log.path))[items[0].key].judgement()
    assert not judgement.is_disputed


def test_work_can_be_shared(tmp_path):
    log, items = DecisionLog(tmp_path / "d.jsonl"), make_items(6)
    spread = [Item(f"{i * 40:02x}" + item.key[2:], *list(vars(item).values())[1:]) for i, item in enumerate(items)]
    ana = ReviewSession(spread, log, "ana", overlap=0.0)
    for number in range(3):
        decide(ana, f"a{number:07}")
    ben = ReviewSession(spread, log, "ben", overlap=0.0)
    assert ben.state()["num_total"] == 3
    assert ReviewSession(spread, log, "ben", overlap=1.0).state()["num_total"] == 6


# --- in a browser --------------------------------------------------------------------------------------------------

PROJECT = """
[corpus]
inputs = ["corpus.jsonl"]
[split]
valid_fraction = 0.0
test_fraction = 0.0
[redact]
policies = ["digits"]
[sample]
replicates = 1
fraction = 1.0
"""


@pytest.fixture
def project(tmp_path):
    rows = [{"text": f"please call {SECRET} Quill number {i:03} about the red box"} for i in range(24)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = tmp_path / "reticent.toml"
    config.write_text(PROJECT)
    return config


class Command:
    """``reticent review`` in a process of its own."""

    def __init__(self, config):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "review", str(config), "--reviewer", "ana", "--no-browser"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = next(m[0] for line in self.process.stderr if (m := re.search(r"http://\S+", line)))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)


@pytest.fixture
def browser(tmp_path):
    if chrome.binary() is None:
        pytest.skip("no Chromium on this machine: the page is tested in a browser where there is one")
    tab = chrome.Chrome(tmp_path / "profile")
    yield tab
    tab.close()


@pytest.mark.slow
def test_twenty_sentences_by_keyboard_with_the_server_killed_in_between(project, browser):
    log = project.parent / "reticent-store" / "private" / "reviews" / "decisions.jsonl"
    command = Command(project)
    try:
        browser.open(command.url)
        for done in range(20):
            if done in (7, 13):
                command.kill()
                browser.press("Enter")  # the page says that nobody answers, and keeps what is marked
                browser.wait("!document.getElementById('trouble').hidden")
                assert len(read_decisions(log)) == done
                command = Command(project)
                browser.open(command.url)
            browser.wait(f"document.getElementById('count').textContent.startsWith('{done} of 24')")
            words = "[...document.querySelectorAll('#sentence button')].map((b) => b.firstChild.textContent.trim())"
            at = browser.js(words).index(SECRET)
            browser.press(*itertools.repeat("ArrowRight", at))
            browser.press("ArrowRight", shift=True)
            browser.press(" ", "1")
            assert browser.js("document.querySelectorAll('#sentence button.marked').length") == 2
            browser.press("Enter")
            browser.wait(f"document.getElementById('count').textContent.startsWith('{done + 1} of 24')")
            assert len(read_decisions(log)) == done + 1  # on the disk before the next sentence shows
        assert "token" not in browser.js("location.href")
        loaded = {re.match(r"\w+://[^/:]+", url)[0] for url in browser.requests}
        assert loaded == {"http://127.0.0.1"}
        assert [line for line in browser.console if "Failed to load resource" not in line] == []
    finally:
        command.kill()
    judged = [ballot.judgement() for ballot in ballots_of(read_decisions(log)).values()]
    assert len(judged) == 20
    for judgement in judged:
        (name, number) = judgement.secrets
        assert name[:2] == (12, 12 + len(SECRET) + 6)  # both words, one secret
        assert judgement.trusted == ((number.start, number.end),)


def test_neighbours_are_shown_as_text_and_cannot_be_marked(served, browser):
    server, _ = served
    browser.open(server.url)
    browser.wait("!document.getElementById('before').hidden")
    assert browser.js("document.getElementById('before').textContent") == "SYSwhat is order 0"
    assert browser.js("document.getElementById('after').textContent") == "<b>thanks</b>"
    assert browser.js("document.querySelectorAll('.near button, .near p b').length") == 1  # the speaker
    labels = "[...document.querySelectorAll('#labels button')].map((b) => b.lastChild.textContent)"
    browser.press(" ")
    assert browser.js(labels) == [label.lower() for label in REVIEW_LABELS]


def test_labels_outside_the_list_are_refused_and_earlier_ones_shown_as_what_they_count_as(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl")
    labels = EstimateConfig().review_labels(())
    session = ReviewSession(make_items(3), log, "ana", labels=labels)
    with pytest.raises(ValueError):
        decide(session, 1, marked=[[0, 5, "PLACE"]])
    first = session.state()["sentence"]["key"]
    fields = {"id": "earlier1", "at": "2026-01-01", "reviewer": "ana", "key": first}
    log.append([Decision(secrets=(Secret(0, 5, "CARDINAL+PHONE_NUMBER"),), **fields)])
    assert session.undo({})["sentence"]["marked"] == [[0, 5, "CONTACT"]]


@pytest.mark.slow
def test_marks_by_pointer_and_on_a_phone(project, browser, tmp_path):
    command = Command(project)
    try:
        browser.open(command.url)
        browser.wait("!document.getElementById('work').hidden")
        word = "[...document.querySelectorAll('#sentence button')].find((b) => b.textContent.startsWith('%s'))"
        browser.drag(word % SECRET, word % "Quill")
        assert browser.js("document.querySelectorAll('#sentence button.marked').length") == 2
        browser.drag("document.querySelector('#sentence button.mask')")
        browser.wait("document.querySelectorAll('#sentence button.wrong').length > 0")
        browser.drag("document.querySelector('#sentence button.restore')")
        browser.wait("document.querySelectorAll('#sentence button.mask').length > 0")
        for width, mobile in ((1280, False), (390, True), (320, True)):
            browser.resize(width, 800, mobile=mobile)
            assert browser.js("document.documentElement.scrollWidth <= innerWidth")
            smallest = "Math.min(...[...document.querySelectorAll('footer button')].map((b) => b.offsetHeight))"
            assert browser.js(smallest) >= 44  # a finger's width
            browser.screenshot(tmp_path / f"{width}.png")
        nameless = (
            "[...document.querySelectorAll('button')].filter((b) => !(b.textContent.trim() || b.ariaLabel)).length"
        )
        assert browser.js(nameless) == 0
        assert browser.js("document.documentElement.lang") == "en"
    finally:
        command.kill()


@pytest.mark.slow
def test_an_interrupt_ends_the_command_and_says_how_far_it_is(project):
    command = Command(project)
    command.process.send_signal(signal.SIGINT)
    out, err = command.process.communicate(timeout=60)
    assert command.process.returncode == 0
    assert "0 of 24 sentences are reviewed" in out
    assert SECRET not in out + err
