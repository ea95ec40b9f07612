"""Finds the turns in a text that names the speaker before each utterance (``Human: …``, ``Ann: …``, ChatML)."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from pipelines.corpus.speakers import ROLE

_AT_LINE: Final = re.compile(
    r"^[ \t]*(?:#(?P<number>\w{1,20})#|<(?P<angle>\w{1,20})>|\*\*(?P<bold>[^\W\d_][\w .'’-]{0,30})(?::\*\*|\*\*:)"
    r"|(?P<plain>[^\W\d_][\w .'’-]{0,30}))(?:(?<=:\*\*)|(?<=\*\*:)|[ \t]*:)(?=\s|$)[ \t]*",
    re.MULTILINE,
)
_HASHES: Final = re.compile(r"#{2,3} ?(?P<hashes>[A-Za-z]{1,20}):[ \t]*")
_CHATML: Final = re.compile(
    r"<\|im_start\|>[ \t]*(?P<chatml>\w{1,20})[ \t]*\n?|<\|(?P<bar>user|assistant|system)\|>\s?"
)
_ENDS: Final = re.compile(r"<\|(?:im_end|end|eot_id|endoftext)\|>|</s>")


def transcript_turns(text: str) -> list[tuple[str | None, str]] | None:
    """Returns pairs of speaker and utterance; None if the text names no speaker.

    Lines without a speaker belong to the turn before them. If the first speaker is a role such as Human, only roles
    are speakers. Otherwise every name at the start of a line counts, but if some lines have none, only names that
    return. Text before the first speaker is a turn of an unknown speaker.
    """
    for pattern in (_CHATML, _HASHES, _AT_LINE):
        tags = list(pattern.finditer(text))
        if pattern is not _CHATML:
            tags = _speakers(tags, text)
        if tags:
            break
    else:
        return None
    ends = [*(tag.start() for tag in tags[1:]), len(text)]
    turns: list[tuple[str | None, str]] = [(None, text[: tags[0].start()])] if text[: tags[0].start()].strip() else []
    for tag, end in zip(tags, ends, strict=True):
        utterance = text[tag.end() : end]
        turns.append((_name(tag), _ENDS.sub("", utterance).strip() if pattern is _CHATML else utterance.strip()))
    return turns


def _name(tag: re.Match[str]) -> str:
    return tag[tag.lastgroup or 0].strip()


def _speakers(tags: list[re.Match[str]], text: str) -> list[re.Match[str]]:
    if not tags:
        return []
    if ROLE.fullmatch(_name(tags[0])):
        return [tag for tag in tags if ROLE.fullmatch(_name(tag))]
    if text[: tags[0].start()].strip():
        return []
    num_lines = sum(bool(line.strip()) for line in text.splitlines())
    counts = Counter(map(_name, tags))
    return tags if len(tags) == num_lines else [tag for tag in tags if counts[_name(tag)] > 1 or tag is tags[0]]
