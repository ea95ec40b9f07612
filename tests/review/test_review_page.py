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
from sentences_to_review import SECRET, make_items
from support import chrome

from flows.review.server import ReviewServer
from flows.review.session import ReviewSession
from pipelines.miss_rate.review_log import DecisionLog, ballots_of, read_decisions
from pipelines.policies.labels import REVIEW_LABELS


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
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
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
