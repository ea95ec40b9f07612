"""Finds passwords, tokens and names of users in command lines, SQL, paths, and files such as ``.netrc``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.fields.keys import kinds_of, parts_of
from pipelines.policies.detectors.fields.values import is_value
from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind
from pipelines.policies.english.word_lists import word_lists

_OPTION: Final = re.compile(
    r"(?<![\w-])--?(?!no-)([A-Za-z][\w-]{2,40})[ \t]{1,4}(['\"]?)([^\s'\"<>-][^\s'\"<>]{0,200})\2"
)
_PATTERNS: Final = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"\b(?:curl|wget|http|svn|ftp)\b[^\n|;]{0,200}?[ ](?:-u|--user)[ =]?['\"]?[\w.@+-]{1,64}:([^\s'\"@]{3,200})",
        r"\bmysql\w{0,10}\b[^\n|;]{0,100}?[ ]-p(?![ ])['\"]?([^\s'\"]{3,100})",
        r"\bsshpass[ ]{1,3}-p[ ]?['\"]?([^\s'\"]{3,100})",
        r"\bidentified[ ]{1,3}by[ ]{1,3}(?:password[ ]{1,3})?'([^'\n]{3,100})'",
        r"\b(?:encrypted[ ]{1,3})?password[ ]{1,3}'([^'\n]{3,100})'(?![\w'])",
        r"\blogin[ \t\n]{1,8}\S{1,64}[ \t\n]{1,8}password[ \t\n]{1,8}(\S{3,100})",
    )
)
_WHOAMI: Final = re.compile(r"(?:[$#>%][ ]|^)whoami[ ]*\n[ ]{0,4}(?:[\w.-]{1,40}\\\\?)?([\w.-]{2,40})[ ]*$", re.M)
_HOME: Final = re.compile(
    r"[/\\](?:home|Users|Documents and Settings)(?:/|\\{1,2})([^\W_][\w.-]{1,39})(?=[/\\>\s\"'`:;,)\]]|\Z)"
)
_USERS: Final = ((_WHOAMI, ("whoami",)), (_HOME, ("home", "Users", "Settings")))
"""Patterns of names of users, and marks of which a text that matches holds one."""

_MACHINES: Final = word_lists("fields")["machine_accounts"]
_COMMANDS: Final = frozenset({"curl", "wget", "http", "svn", "ftp", "sshpass", "identified", "password"})
_COMMAND_WORD: Final = kind(lambda word: word in _COMMANDS or word.startswith("mysql"))


def find_in_commands(text: str) -> Iterator[Find]:
    """Yields the values of options such as ``--password``, and the passwords of ``curl -u``, ``mysql -p`` and SQL."""
    if "-" in text:
        for option in _OPTION.finditer(text):
            is_help = option[3].lower() in parts_of(option[1]) and text[option.end() : option.end() + 2] in ("  ", "\t")
            if "secret" in kinds_of(option[1]) and is_value(option[3]) and not is_help:
                yield *option.span(3), "PASSWORD"
    for pattern, marks in _USERS:
        for match in pattern.finditer(text) if any(mark in text for mark in marks) else ():
            if match[1].lower() not in _MACHINES:
                yield *match.span(1), "USERNAME"
    for pattern in _PATTERNS if holds(text, _COMMAND_WORD) else ():
        for match in pattern.finditer(text):
            if is_value(match[1]):
                yield *match.span(1), "PASSWORD"
