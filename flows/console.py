"""Progress on standard error: one moving line on a terminal, one line per event otherwise."""

from __future__ import annotations

import contextlib
import sys
import time

from pipelines.graph import GRAPH

_INTERVAL_SECONDS = 0.1
_QUIET_INTERVAL_SECONDS = 15.0


class Console:
    """Shows what is going on. Given stage names and counts only, so it cannot show text."""

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()
        self._last = 0.0
        self._width = 0

    def say(self, text: str) -> None:
        """Prints a line at once."""
        if self._tty:
            sys.stderr.write("\r" + text.ljust(self._width)[:110])
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def progress(self, stage: str, done: int, total: int | None, message: str) -> None:
        """Shows a stage's progress, at a bearable rate."""
        now = time.monotonic()
        interval = _INTERVAL_SECONDS if self._tty else _QUIET_INTERVAL_SECONDS
        if now - self._last < interval:
            return
        self._last = now
        name = GRAPH[stage].shown_name if stage in GRAPH else stage
        share = f"{done:,}/{total:,}" if total else (f"{done:,}" if done else "")
        self.say(" ".join(part for part in (name, share, message) if part))

    def reading(self, done: int, total: int | None, message: str = "") -> None:
        """Shows the reading of input files."""
        self.progress("input", done, total, message)

    def close(self) -> None:
        """Clears the moving line."""
        if self._tty and self._width:
            sys.stderr.write("\r" + " " * min(self._width, 110) + "\r")
            sys.stderr.flush()


def announce_page(url: str, num_sentences: int, *, open_browser: bool) -> None:
    """Says where the review page is, and opens it where there is a screen to open it on.

    Args:
        url: with the one-time token, so it is printed to the terminal and nowhere else.
        num_sentences: to review.
        open_browser: try the default browser.
    """
    import webbrowser

    sys.stderr.write(f"{num_sentences:,} sentences to review. Open this address (it works once):\n\n  {url}\n\n")
    sys.stderr.write("Every answer is saved at once. Ctrl-C ends.\n")
    sys.stderr.flush()
    if open_browser and sys.stderr.isatty():
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(url)
