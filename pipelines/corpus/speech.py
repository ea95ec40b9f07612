"""Speakers and sentences in the pieces of transcripts, which end at a time and not at the end of a sentence."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from pipelines.corpus.dialogues import LeftOut, Message

Style = Literal["voice", "colon", "bracket", "arrows", "none"]
"""Marks of speakers in a file: ``<v Ann>``, ``Ann: ``, ``[Ann] ``, ``>> ANN: ``, or none."""

_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{1,80})?[ \t]+(?P<name>[^<>\n]{1,100})>")
_TAGS: Final = re.compile(r"</?(?:v|c|i|b|u|s|lang|ruby|rt|font|span|p|br|[0-9][0-9:.]*)(?:[ .][^<>\n]{0,200})?/?>")
_OVERRIDES: Final = re.compile(r"\{\\[^{}\n]{0,80}\}")
_COLON: Final = re.compile(r"(?P<name>\+?[^\W_][^\n:;?!<>\[\]{}]{0,60}):(?:\s+|$)")
_BRACKET: Final = re.compile(r"[\[(](?P<name>[^\W\d_][^\n:<>\[\](){}]{0,60})[\])]:?(?:\s+|$)")
_ARROWS: Final = re.compile(r">{2,3} ?(?:(?P<name>[^\W\d_][^\n:<>]{0,60}):(?:\s+|$))?")
_SOUND: Final = re.compile(r"(?:[-–>]{0,3} ?[\[(♪♫*][^\n\[\]()]{0,80}[\])♪♫*]|[♪♫\s]+)")
_DASH: Final = re.compile(r"[-–—] ?(?=[^\s\d-])")
_END: Final = re.compile(r"[.!?…。！？؟।][\"'”’»)\]]{0,3}$")
_MAX_WORDS: Final = 5
_TAGGED_SHARE: Final = 0.3


def plain_text(text: str) -> str:
    """Returns the text of a cue without markup."""
    return html.unescape(_TAGS.sub("", _OVERRIDES.sub("", text))).replace("\u200e", "").strip()


def style_of(cues: Iterable[str]) -> Style:
    """Finds the marks of speakers in the first cues of a file, with their markup.

    Names before a colon or in brackets count only if many cues have one and names repeat, because subtitles also hold
    lines such as ``Note: this is old.``
    """
    texts = list(cues)
    if any(_VOICE.search(text) for text in texts):
        return "voice"
    plain = [plain_text(text) for text in texts]
    for style, pattern in (("colon", _COLON), ("bracket", _BRACKET)):
        tags = [
            match for text in plain if (match := pattern.match(text)) and (style == "colon" or match.end() < len(text))
        ]
        names = [name for tag in tags if (name := _name(tag))]
        distinct = Counter(name.casefold() for name in names)
        repeated = sum(count for count in distinct.values() if count > 1)
        if names and len(names) >= _TAGGED_SHARE * len(plain) and (repeated >= 0.5 * len(names) or len(plain) < 6):
            if style == "bracket" and len(distinct) == 1:
                continue  # [music]
            return "colon" if style == "colon" else "bracket"
    return "arrows" if sum(text.startswith(">>") for text in plain) >= 2 else "none"


def _name(match: re.Match[str] | None) -> str | None:
    if match is None or not match["name"]:
        return None
    name = str(match["name"]).strip()
    is_alone = match.end() == len(match.string) and not match[0].rstrip().endswith(":")  # (Ann Lee) or (laughs)
    return name if is_name(name) and not (is_alone and name[0].islower()) else None


def is_name(text: str) -> bool:
    """Checks if a text before a colon may be a name: a word, or at most five with capital letters in most of them."""
    words = text.split()
    if not 0 < len(words) <= _MAX_WORDS:
        return False
    return len(words) == 1 or 2 * sum(not word[0].islower() for word in words) > len(words)


def voices(cue: str, style: Style) -> Iterator[tuple[str | None, bool, str]]:
    """Yields the parts of a cue: the speaker if the cue names one, a flag that another speaker begins, and the text."""
    if style == "voice":
        at, name = 0, None
        for match in _VOICE.finditer(cue):
            if text := plain_text(cue[at : match.start()]):
                yield name, name is not None, text
            at, name = match.end(), html.unescape(match["name"]).strip()
        if text := plain_text(cue[at:]):
            yield name, name is not None, text
        return
    pattern = {"colon": _COLON, "bracket": _BRACKET, "arrows": _ARROWS}.get(style)
    text = plain_text(cue)
    if pattern is None:
        yield None, False, text
        return
    found: list[tuple[str | None, bool, str]] = []
    for line in text.split("\n"):
        line = line.strip()
        if _DASH.match(line) and pattern.match(_DASH.sub("", line, count=1)):
            line = _DASH.sub("", line, count=1)
        tag = pattern.match(line)
        name = _name(tag)
        if tag is not None and (name or style == "arrows"):
            found.append((name, True, line[tag.end() :]))
        elif found:
            found[-1] = (*found[-1][:2], f"{found[-1][2]}\n{line}")
        else:
            found.append((None, False, line))
    yield from found


def is_sound(text: str) -> bool:
    """Checks if a text only describes a sound: ``[music]``, ``♪``."""
    return bool(_SOUND.fullmatch(text))


class Turns:
    """Joins pieces of speech to turns, or to lines of whole sentences if nobody is named.

    Args:
        max_chars: largest number of characters in a turn
        has_speakers: flag that the file names speakers
        gap_seconds: silence after which a turn ends in any case
    """

    def __init__(self, *, max_chars: int, has_speakers: bool, gap_seconds: float) -> None:
        self._max_chars = max_chars
        self._has_speakers = has_speakers
        self._gap = gap_seconds
        self._message: Message | None = None
        self._parts: list[str] = []
        self._num_chars = 0
        self._last: float | None = None

    def add(
        self, row: int, speaker: str | None, is_new: bool, text: str, times: tuple[float | None, float | None]
    ) -> Iterator[Message | LeftOut]:
        """Adds a piece. Yields the turn that ends before it, if one does, and the sounds in it.

        Args:
            row: position of the piece in the file
            speaker: speaker, if the piece names one
            is_new: flag that another speaker than before begins
            text: text of the piece
            times: seconds of its start and end; None if unknown
        """
        time, end = times
        lines = [" ".join(line.split()) for line in text.split("\n")]
        for line in lines:
            dash = None if self._has_speakers else _DASH.match(line)
            line = line[dash.end() :] if dash else line
            if not line or line in "-–—":
                continue
            if is_sound(line):
                yield LeftOut("sound")
                continue
            if self._ends_before(speaker, is_new or dash is not None, line, time):
                yield from self.end()
            if self._message is None:
                self._message = Message(row, speaker, "", time)
            self._parts.append(line)
            self._num_chars += len(line) + 1
            is_new = False
        self._last = next((value for value in (end, time, self._last) if value is not None), None)

    def _ends_before(self, speaker: str | None, is_new: bool, line: str, time: float | None) -> bool:
        if self._message is None:
            return False
        if self._num_chars + len(line) > self._max_chars:
            return True
        if time is not None and self._last is not None and time - self._last > self._gap:
            return True
        if self._has_speakers:
            return is_new and (speaker is None or speaker != self._message.speaker)
        return is_new or bool(_END.search(self._parts[-1][-8:]))

    def end(self) -> Iterator[Message]:
        """Yields the open turn, if there is one, and ends it."""
        if self._message is not None:
            yield self._message._replace(text=" ".join(self._parts))
        self._message, self._parts, self._num_chars = None, [], 0
