"""Finds passwords, tokens and names of users in commands, calls, SQL, logs, paths, and files such as ``.netrc``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.fields.keys import kinds_of, may_end_secret, parts_of, plain
from pipelines.policies.detectors.fields.values import is_value
from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind
from pipelines.policies.detectors.identifiers.beside import is_unknown
from pipelines.policies.english.common_words import COMMON_WORDS
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
        r"\b(?:un)?zip\b[^\n|;]{0,100}?[ ](?-i:-P)[ ]?['\"]?([^\s'\"]{3,100})",
        r"\b(?:ldap\w{3,10}\b[^\n|;]{0,200}?[ ]-w|useradd\b[^\n|;]{0,100}?[ ]-p|redis-cli\b[^\n|;]{0,100}?[ ]-a)"
        r"[ ]['\"]?([^\s'\"]{3,100})",
        r"\bnet[ ]use[ ][^\n|;]{0,100}?[ ]([^\s/\\*:]{3,100})(?=[ ]/user:)",
        r"\bsnmp-server[ ]community[ ](\S{3,100})",
        r"\becho[ ](?:-n[ ])?['\"]?(?:[\w.-]{1,64}:)?([^\s'\"|:]{3,100})['\"]?[ ]?\|[ ]?"
        r"(?:sudo[ ][^\n|;]{0,40}?-\w?S|docker[ ]login|(?:sudo[ ])?(?:chpasswd|passwd[ ]--stdin)"
        r"|gpg[ ][^\n|;]{0,80}?passphrase)",
    )
)
_PGPASS: Final = re.compile(
    r"^[ ]{0,4}[\w.*-]{1,80}:(?:\d{2,5}|\*):[\w*-]{1,60}:([A-Za-z][\w.-]{1,60}):([^:\s]{3,100})[ ]*$", re.M
)
_CALLS: Final = tuple(
    re.compile(pattern, re.M)
    for pattern in (
        r"^[ ]{0,8}(?:ENV|setx)[ ]{1,3}([A-Za-z][\w-]{1,60})[ ]{1,3}[\"']?([^\s\"'=]{3,200})",
        r"\([ \n]{0,8}[\"']([#.]?[A-Za-z][\w.-]{1,60})[\"'],[ \n]{0,8}[\"']([^\n\"']{3,200})[\"']",
        r"[\"']([#.]?[A-Za-z][\w.-]{1,60})[\"']\)\.\w{2,20}\([\"']([^\n\"']{3,200})[\"']",
    )
)
"""The name of a secret and its value: "set('db_password', 'x')", and a line of a Dockerfile."""

_PAIR: Final = re.compile(
    r"(?:(?:connect(?:ion)?|mysqli|pdo|newinstance|datasource)[ ]?\([ \n]{0,8}"
    r"(?:\"(?:localhost|[^\"\n]{0,40}[.:/@][^\"\n]{0,200})\"|'(?:localhost|[^'\n]{0,40}[.:/@][^'\n]{0,200})'),"
    r"[ \n]{0,8}"
    r"|(?:oracle(?:db)?\.connect|oci_p?connect)[ ]?\((?:[^()\"'\n]{0,60},[ ]?)?"
    r"|(?:login|auth|credentials?|connection|signin|authenticate)[ ]?=?[ ]?\((?:[^()\n]{0,120}?,[ ]?)?)"
    r"([\"'])([^\"'\n]{2,64})\1,[ ]?([\"'])([^\"'\n]{3,100})\3[ ]?[,)]",
    re.I,
)
"""A call with the name of a user and a password, also behind the address of a database."""

_USER: Final = re.compile(
    r"(?:user|assignee|owner|author|patient|customer|employee|member|login)(?:_?by_?\w{2,12})?"
    r"\([\"']([a-z][\w.-]{4,40})[\"'][ ]?[,)]",
    re.I,
)
"""A call with the name of a user: "get_user('pberger')"."""

_WHOAMI: Final = re.compile(r"(?:[$#>%][ ]|^)whoami[ ]*\n[ ]{0,4}(?:[\w.-]{1,40}\\\\?)?([\w.-]{2,40})[ ]*$", re.M)
_MARKS_OF_PGPASS: Final = 4
_HOME: Final = re.compile(
    r"[/\\](?:home|Users|Documents and Settings)(?:/|\\{1,2})([^\W_][\w.-]{1,39})(?=[/\\>\s\"'`:;,)\]]|\Z)"
)
_LOGGED: Final = re.compile(
    r"(?:(?:failed|accepted) \S{1,24} for|invalid user|session (?:opened|closed) for user|authentication failure for"
    r"|connection closed by(?: authenticating)? user) (?!invalid user )([\w.@+-]{2,64})"
    r"|sudo(?:\[\d{1,9}\])?:[ ]{1,8}([\w.-]{2,40})(?=[ ]:[ ](?:TTY=|user NOT|\d))"
    r"|session opened[^\n]{0,60} by ([\w.-]{2,40})(?=\(uid)"
    r"|cron(?:\[\d{1,9}\])?: \(([\w.-]{2,40})\)|(?:owned|opened) by (?:user )?([\w.-]{2,40})(?=[ ](?:\d|killed"
    r"|at |on ))",
    re.I,
)
"""Somebody in a log of a machine."""

_ADMINISTERED: Final = re.compile(
    r"(?<![\w-])(?:usermod|passwd|chage|userdel|adduser|deluser"
    r"|gpasswd)(?:[ ]-\w{1,12}(?:[ ][\w,.]{1,30})?){0,3}[ ]([a-z][\w.-]{2,30})"
    r"(?![\w:/.-])|(?:password|login|access|denied|attempt|account)s? (?:for|of"
    r"|by) (?:user )?['\"]([\w.@+-]{3,64})['\"]"
    r"|(?<!\w)(?:account|user|login|mailbox|profile)[ ]([a-z][\w.-]{3,30})[ ](?:(?:is|was|got"
    r"|has[ ]been)[ ])?(?:disabled|locked"
    r"|enabled|created|deleted|unlocked|suspended|removed|terminated)(?!\w)"
    r"|(?<![\w-])([A-Za-z]{3,20}?)(?:['’]?s)?[ -](?:iphone|ipad|macbook|mbp|imac|laptop|thinkpad)(?![\w])",
    re.I,
)
"""A name of an account in work on it, and in the name of a device. It is in no dictionary."""

_USERS: Final = ((_WHOAMI, ("whoami",)), (_HOME, ("home", "Users", "Settings")))
"""Patterns of names of users, and marks of which a text that matches holds one."""

_LISTS: Final = word_lists("fields")
_MACHINES: Final = _LISTS["machine_accounts"]
_COMMANDS: Final = _LISTS["commands"]
_COMMAND_WORD: Final = kind(lambda word: word in _COMMANDS or word.startswith(("mysql", "ldap")))
_LOGGED_WORD: Final = kind(
    lambda word: (
        word in ("user", "session", "sudo", "owned", "opened")
        or word.endswith(("failed", "accepted", "failure", "cron"))
    )
)
_ADMINISTERED_WORD: Final = kind(_LISTS["administered"])
_SECRET_WORD: Final = kind(may_end_secret)
_USER_WORD: Final = kind(
    lambda word: word.endswith(
        ("user", "assignee", "owner", "author", "patient", "customer", "employee", "member", "login", "name", "id")
    )
)
_PAIR_WORD: Final = kind(
    lambda word: word.endswith(
        (
            *("login", "auth", "credential", "credentials", "connection", "signin", "authenticate"),
            *("connect", "mysqli", "pdo", "datasource"),
        )
    )
)


def find_in_commands(text: str) -> Iterator[Find]:
    """Yields the values of options such as ``--password``, and the passwords of ``curl -u``, ``mysql -p`` and SQL."""
    if "-" in text:
        for option in _OPTION.finditer(text):
            is_help = option[3].lower() in parts_of(option[1]) and text[option.end() : option.end() + 2] in ("  ", "\t")
            if kinds_of(option[1]) & {"secret", "phrase"} and is_value(option[3]) and not is_help:
                yield *option.span(3), "PASSWORD"
    patterns = [pattern for pattern, marks in _USERS if any(mark in text for mark in marks)]
    for pattern in [*patterns, _LOGGED] if holds(text, _LOGGED_WORD) else patterns:
        for match in pattern.finditer(text):
            group = match.lastindex or 0
            if match[group].lower() not in _MACHINES:
                yield *match.span(group), "USERNAME"
    for match in _ADMINISTERED.finditer(text) if holds(text, _ADMINISTERED_WORD) else ():
        group = match.lastindex or 0
        if match[group].lower() not in _MACHINES and is_unknown(match[group].lower()):
            yield *match.span(group), "USERNAME"
    for pattern in _PATTERNS if holds(text, _COMMAND_WORD) else ():
        for match in pattern.finditer(text):
            if is_value(match[1]):
                yield *match.span(1), "PASSWORD"
    for match in _PGPASS.finditer(text) if text.count(":") >= _MARKS_OF_PGPASS else ():
        if is_value(match[2]):
            yield *match.span(1), "USERNAME"
            yield *match.span(2), "PASSWORD"
    for pattern in _CALLS if holds(text, _SECRET_WORD) else ():
        for match in pattern.finditer(text):
            if "secret" in kinds_of(match[1]) and _is_own(match[2]):
                yield *match.span(2), "PASSWORD"
    for match in _USER.finditer(text) if "(" in text and holds(text, _USER_WORD) else ():
        if _is_own(match[1]) and is_unknown(match[1].lower()) and match[1].lower() not in _MACHINES:
            yield *match.span(1), "USERNAME"
    for match in _PAIR.finditer(text) if "(" in text and holds(text, _PAIR_WORD) else ():
        if _is_own(match[4]):
            yield *match.span(2), "USERNAME"
            yield *match.span(4), "PASSWORD"


def _is_own(value: str) -> bool:
    """Returns true if a string in a call may be a secret: it is no name of a field, and no common word."""
    return is_value(value) and plain(value) not in COMMON_WORDS and not kinds_of(value)
