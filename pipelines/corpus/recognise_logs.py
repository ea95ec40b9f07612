"""Recognises chat logs, subtitles and transcripts that are made of lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pipelines.corpus.irc import part_of
from pipelines.corpus.log_lines import head_texts
from pipelines.corpus.recognition import Head, Reading, Recogniser
from pipelines.corpus.speech import style_of
from pipelines.corpus.subtitles import TIMING, time_of
from pipelines.corpus.transcript import has_repeated, layout_of
from pipelines.corpus.whatsapp import HEADER, Layout

_OTHER_SUFFIXES: Final = frozenset({
    ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xml", ".html", ".htm", ".eml", ".mbox", ".mbx", ".md", ".py",
    ".js", ".ts", ".c", ".h", ".java", ".sh", ".sql", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".pdf",
    ".docx", ".parquet", ".arrow", ".conll", ".conllu",
})  # fmt: skip
_LEVEL: Final = re.compile(
    r"(?:.*[\W_])?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|FINE"
    r"|VERBOSE|STDOUT|STDERR)"
    r"(?:[\W_].*)?",
    re.IGNORECASE,
)
_PICTURE: Final = re.compile(r"\S+\.(?:jpe?g|png|webp|gif)(?:[#?]\S*)?", re.IGNORECASE)
_PROGRAM: Final = re.compile(
    r"(?:.*\[\d{1,8}\]|.*[/\\].*|.*::.*|[\w-]+(?:\.[\w$-]+){2,}|kernel|systemd|root|cron|sshd|nginx)", re.IGNORECASE
)


def _is_of_machines(names: Sequence[str | None]) -> bool:
    """Checks if names of speakers are levels of a log or programs."""
    found = [name for name in names if name]
    return 5 * sum(bool(_LEVEL.fullmatch(name) or _PROGRAM.fullmatch(name)) for name in found) > len(found)


def _lines(head: Head, *, reads_markdown: bool = False) -> list[str]:
    if head.suffix in _OTHER_SUFFIXES and not (reads_markdown and head.suffix == ".md"):
        return []
    return [line[:4_000] for line in head_texts(head.data, is_whole=head.is_whole) if line and not line.isspace()]


def whatsapp(head: Head) -> Reading | None:
    """Recognises an exported chat of WhatsApp."""
    lines = _lines(head)
    layout = Layout.of(lines)
    starts = [layout.start(line) for line in lines]
    names = [start.speaker for start in starts if start is not None and start.speaker]
    if not names or starts[0] is None or _is_of_machines(names):
        return None
    first = HEADER.match(lines[0])
    if first is None:
        return None
    num_starts = sum(start is not None for start in starts)
    marked, _, close = layout.style
    is_marked = any("\u200e" in line or "\u202f" in line for line in lines)
    is_of_android = close == "-" and not first["second"]
    is_of_ios = bool(marked) and (is_marked or len(first["a"]) <= 2)  # logs write the year first
    is_certain = is_of_android or is_of_ios
    speakers = len(set(names))
    score = 0.95 if is_certain else 0.6
    if 10 * num_starts < len(lines) or 2 * len(names) < num_starts - 20 or speakers < 2:
        score = min(score, 0.6)
    if 2 * speakers > len(names) and len(names) > 10:
        score = min(score, 0.45)  # nearly every line has another name
    return Reading("whatsapp", score, f"a chat of WhatsApp: {len(names)} messages of {speakers} speakers at its start")


def irc(head: Head) -> Reading | None:
    """Recognises the log of an IRC channel."""
    lines = _lines(head)
    parts = [part_of(line) for line in lines]
    counts = Counter(part.kind for part in parts)
    names = [part.nick for part in parts if part.kind == "message"]
    if not names or _is_of_machines(names):
        return None
    known = counts["message"] + counts["system"]
    timed = sum(part.time is not None for part in parts if part.kind == "message")
    if known < 0.8 * len(lines):
        return None
    if not timed and not has_repeated(names):
        return None
    score = 0.95 if len(names) >= 3 and known >= 0.95 * len(lines) and 2 * timed >= len(names) else 0.75
    return Reading("irc", score, f"a log of IRC: {len(names)} messages of {len(set(names))} nicks at its start")


def subtitles(head: Head) -> Reading | None:
    """Recognises subtitles and call transcripts in WebVTT or SubRip."""
    lines = _lines(head)
    timings = [match for match in map(TIMING.match, lines) if match and time_of(match["start"]) is not None]
    is_vtt = bool(lines) and bool(re.match(r"WEBVTT(?:\s|$)", lines[0]))
    if not timings or (not is_vtt and 8 * len(timings) < len(lines)):
        return None
    form = "vtt" if is_vtt or any("." in match["start"] for match in timings[:1]) else "srt"
    score = 0.97 if is_vtt or len(timings) >= 2 else 0.7
    start = next(at for at, line in enumerate(lines) if TIMING.match(line))
    texts = [line for line in lines[start:] if not TIMING.match(line) and not line.strip().isdecimal()]
    if texts and 2 * sum(_PICTURE.fullmatch(line) is not None for line in texts) > len(texts):
        return Reading(None, score, "places of pictures in a video, without text")
    spoken = "call transcript or subtitles with speakers" if style_of(texts) != "none" else "subtitles without speakers"
    return Reading(form, score, f"{spoken}: {len(timings)} cues at its start")


def transcript(head: Head) -> Reading | None:
    """Recognises a plain transcript with times and names, or the chat of a meeting."""
    lines = _lines(head, reads_markdown=True)
    if any(TIMING.match(line) for line in lines[:50]) or sum(HEADER.match(line) is not None for line in lines) > 1:
        return None
    layout, names = layout_of(lines)
    if len(names) < 2 or _is_of_machines(names) or len({name.casefold() for name in names}) > 200:
        return None
    share = len(names) / len(lines)
    is_repeated = has_repeated(names) or len(names) < 6
    if not is_repeated or share < (0.5 if layout in ("times apart", "time header") else 0.05):
        return None
    score = 0.92 if len(names) >= 3 and layout not in ("times apart", "time header") else 0.6
    if layout == "header" and share < 0.2:
        score = min(score, 0.8)
    if layout != "zoom chat" and (len(set(names)) == 1 or not has_repeated(names)):
        score = min(score, 0.5)
    return Reading(
        "transcript", score, f"a transcript with times: {len(names)} turns of {len(set(names))} speakers at its start"
    )


RECOGNISERS: Final[tuple[Recogniser, ...]] = (whatsapp, irc, subtitles, transcript)
"""Recognisers of chat logs, subtitles and transcripts."""
