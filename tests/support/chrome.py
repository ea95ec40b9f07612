"""A small driver for headless Chromium over its DevTools protocol: real key and pointer events, and what it loaded."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
CUT_LABELS = """[...document.querySelectorAll('svg text')].filter((t) => {
  const [words, chart] = [t.getBoundingClientRect(), t.ownerSVGElement.getBoundingClientRect()];
  return words.left < chart.left - 1 || words.right > chart.right + 1;
}).map((t) => t.textContent)"""
"""Labels of charts that are cut at a side."""
_KEYS = {
    "Enter": ("Enter", "Enter", 13, "\r"),
    " ": (" ", "Space", 32, " "),
    "ArrowRight": ("ArrowRight", "ArrowRight", 39, ""),
    "ArrowLeft": ("ArrowLeft", "ArrowLeft", 37, ""),
    "Tab": ("Tab", "Tab", 9, ""),
}


def binary() -> str | None:
    """Where Chromium is, or None."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


class Chrome:
    """One tab of a browser of its own."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 800) -> None:
        from websockets.sync.client import connect

        profile.mkdir(parents=True)
        command = [binary() or "chromium", *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        self._process = subprocess.Popen(
            [*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            port = self._port(profile / "DevToolsActivePort")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = [page for page in json.load(answer) if page["type"] == "page"]
            self._socket = connect(pages[0]["webSocketDebuggerUrl"], max_size=None)
        except BaseException:
            self._process.kill()
            raise
        self._ids = itertools.count(1)
        self.requests: list[str] = []
        self.console: list[str] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def _port(self, file: Path) -> int:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if file.exists() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            time.sleep(0.05)
        raise TimeoutError("Chromium did not start")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; events that come meanwhile are noted."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message.get("method") == "Log.entryAdded":
            self.console.append(parameters["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.console.append(json.dumps(parameters["args"])[:500])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.console.append(json.dumps(parameters["exceptionDetails"])[:500])

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        """The size of the page."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )

    def open(self, url: str) -> None:
        """Goes to an address and waits until the page has loaded."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'", 120)  # a busy machine's first page took 40 s

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 30) -> None:
        """Until an expression holds."""
        deadline = time.monotonic() + seconds
        while not self.js(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not so within {seconds} s: {expression}")
            time.sleep(0.03)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Keys, as a keyboard sends them."""
        for key in keys:
            name, code, number, text = _KEYS[key] if key in _KEYS else (key, f"Key{key.upper()}", ord(key.upper()), key)
            if key.isdigit():
                code = f"Digit{key}"
            common = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def drag(self, first: str, last: str | None = None) -> None:
        """Presses the pointer on the first element and lets go on the last; both are JavaScript expressions."""
        places = [
            self.js(
                f"(() => {{const r = ({e}).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]}})()"
            )
            for e in (first, last or first)
        ]
        (x, y), (x2, y2) = places
        for kind, at in (
            ("mouseMoved", (x, y)),
            ("mousePressed", (x, y)),
            ("mouseMoved", (x2, y2)),
            ("mouseReleased", (x2, y2)),
        ):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", buttons=1, clickCount=1)

    def screenshot(self, file: Path, height: int | None = None) -> None:
        """What one would see, as PNG or WebP; the page from its top to a height in pixels, if one is given."""
        shot: dict[str, Any] = {"format": file.suffix[1:]}
        if height is not None:
            size = {"x": 0, "y": 0, "width": self.js("innerWidth"), "height": height, "scale": 1}
            shot |= {"clip": size, "captureBeyondViewport": True}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **shot)["data"]))

    def close(self) -> None:
        """Ends the browser."""
        try:
            self.call("Browser.close")
            self._socket.close()
        except Exception:
            self._process.kill()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
