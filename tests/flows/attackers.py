"""Who attacks Prefect's server: another user of the machine, and a page of another origin in a browser."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support import run_command

STRANGER = 65_432
_PYTHON = "/usr/bin/python3"

_ASK = """
import json, sys, urllib.error, urllib.request

def ask(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text or b"null")
    except urllib.error.HTTPError as error:
        return error.code, None
"""

START_A_COMMAND = """
api, marker = sys.argv[1:]
status, found = ask("POST", api + "/deployments/filter", {})
if status == 200:
    command = f'sh -c "id -u > {marker}"'
    run = {"job_variables": {"command": command}}
    status = ask("POST", api + f"/deployments/{found[0]['id']}/create_flow_run", run)[0]
print(json.dumps(status))
"""
PAGE = """
(async () => {
  const api = %(api)s, run = api + '/deployments/%(deployment)s/create_flow_run';
  const body = tag => JSON.stringify({tags: [tag], state: {type: 'SCHEDULED',
    state_details: {scheduled_time: '2100-01-01T00:00:00Z'}}});
  const told = {}, say = async (name, what) => {
    try { told[name] = await what() } catch (error) { told[name] = String(error).slice(0, 40) } };
  const post = (more, tag) => fetch(run, {method: 'POST', body: body(tag), ...more}).then(r => r.type + ' ' + r.status);
  const headers = {'content-type': 'application/json'};
  await say('settings', () => fetch(api + '/admin/settings').then(r => r.json()).then(x => Object.keys(x).length > 0));
  await say('json', () => post({headers}, 'json'));
  await say('password guessed', () => post({headers: {...headers, authorization: 'Basic Og=='}}, 'guessed'));
  await say('blob', () => post({mode: 'no-cors', body: new Blob([body('blob')])}, ''));
  await say('bytes', () => post({mode: 'no-cors', body: new TextEncoder().encode(body('bytes'))}, ''));
  await say('text', () => post({mode: 'no-cors', headers: {'content-type': 'text/plain'}}, 'text'));
  await say('cookies', () => post({mode: 'no-cors', credentials: 'include', body: new Blob([body('cookies')])}, ''));
  await say('beacon', () => navigator.sendBeacon(run, new Blob([body('beacon')])));
  const form = document.createElement('form'), field = document.createElement('input');
  Object.assign(form, {method: 'POST', action: run, target: 'frame', enctype: 'text/plain'});
  Object.assign(field, {name: '{"tags":["form"],"name":"', value: '"}'});
  const answered = new Promise(done => {
    document.querySelector('iframe').addEventListener('load', done); setTimeout(done, 30000) });
  form.append(field); document.body.append(form); form.submit();
  const paths = ['events/in', 'events/out', 'logs/out', 'task_runs/subscriptions/scheduled',
                 'work_pools/local-proc/workers/connect'];
  await Promise.all(paths.flatMap(path => [[], ['prefect']].map(protocols =>
    say(`${path} ${protocols}`, () => new Promise(done => {
      const socket = new WebSocket(api.replace('http', 'ws') + '/' + path, protocols);
      const auth = JSON.stringify({type: 'auth', token: null});
      socket.onopen = () => protocols.length ? socket.send(auth) : done('open');
      socket.onmessage = ({data}) => { done(data.includes('success') ? 'open' : data); socket.close() };
      socket.onclose = () => done('closed');
      setTimeout(() => done('silent'), 30000);
    })))));
  await answered;
  return told;
})()
"""


def lacking() -> str | None:
    """Why this process cannot act as another user; None if it can."""
    if os.geteuid() != 0:
        return "only root can run a program as another user"
    if not (Path(_PYTHON).exists() and shutil.which("setpriv")):
        return f"needs setpriv and a {_PYTHON} that other users can run"
    return None


def need_another_user() -> None:
    """Skips where this test cannot act as another user."""
    if (reason := lacking()) is not None:
        pytest.skip(reason)


def as_another_user(code: str, *arguments: str) -> Any:
    """What a Python program prints as JSON, run by a user without any right here. It may call ``ask``."""
    command = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", _PYTHON, "-I", "-c"]
    done = run_command([*command, _ASK + code, *arguments], cwd="/", env={})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class ForeignPage:
    """A page on another port of this machine, open in Chromium."""

    def __init__(self, folder: Path) -> None:
        from support.chrome import Chrome, binary

        if binary() is None:
            pytest.skip("Chromium is not installed")
        folder.mkdir(parents=True)
        (folder / "index.html").write_text("<title>Kittens</title><iframe name=frame></iframe>")
        handler = functools.partial(_Quiet, directory=str(folder))
        self._site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._site.serve_forever, daemon=True).start()
        self.chrome = Chrome(folder / "profile")
        self.chrome.open(f"http://localhost:{self._site.server_port}/")

    def js(self, expression: str) -> Any:
        """The value of an expression; what it throws, as text."""
        return self.chrome.js(f"Promise.resolve({expression}).catch(e => String(e))")

    def close(self) -> None:
        self.chrome.close()
        self._site.shutdown()
        self._site.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def status(url: str, method: str = "GET", **headers: str) -> int:
    """Returns the status that a server answers with."""
    request = urllib.request.Request(url, method=method, headers=headers, data=b"{}" if method != "GET" else None)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def no_redirect() -> urllib.request.OpenerDirector:
    """Returns an opener that follows no redirection."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> None:
            return None

    return urllib.request.build_opener(Stay)
