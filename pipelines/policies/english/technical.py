"""Ranges of technical text that say themselves what they are: hashes, versions, algorithms, errors, files and calls.

A hash stands beside its algorithm or a commit, a version beside a word such as "release", a number beside the name of
a duration or an error. A cue of a secret before a range ("the password is") keeps it masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.english.cues import CUE_NEXT
from pipelines.policies.english.known_words import is_word, runs_of
from pipelines.policies.english.machines import machine_ranges
from pipelines.policies.english.name_lists import PROGRAMS, names_somebody
from pipelines.policies.english.nobody import row_of
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("technical")
_ORDINARY: Final = word_lists("ordinary")
_ROWS: Final = word_lists("rows")
_WORDS: Final = "|".join(sorted(_ROWS["secrets"] | {"pass", "passwd", "pwd", "pw", "user", "account", "handle"}))
_SECRET: Final = re.compile(rf"(?<![^\W_])(?:{_WORDS})(?: is| was|[\"']?[:=])?\W{{0,3}}\Z", re.I)
_NEAR: Final = 40
_DIGIT: Final = re.compile("[0-9]")
_HASH: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[\w./-]{1,60}@)?(?:sha-?(?:1|224|256|384|512)|md5|blake2[bs]|blake3|crc32|ripemd160|xxh64"
    r"|etag|h1(?=:))"
    r"(?:sums?|[ -](?:hash|sum|digest|checksum))?(?:[:=@-]|[\"'`)]{0,2}(?: ?[:=]| is| of)?[ \t]{1,3}[\"'`]?)"
    r"(?:[0-9a-f]{8,128}|[A-Za-z0-9+/]{22,88}={0,2})(?![\w+/=-])",
    re.I,
)
_HASHED: Final = ("sha", "md5", "blake", "crc32", "ripemd", "xxh", "etag", " h1:")
_HEXADECIMAL: Final = re.compile(r"(?<![\w-])(?=[0-9]{0,63}[a-f])(?=[a-f]{0,63}[0-9])[0-9a-f]{7,64}(?![\w-])")
_KNOWN_UUID: Final = re.compile(
    r"(?<![\w-])(?:6ba7b81[0-9a-f]-9dad-11d1-80b4-00c04fd430c8|(?:0{8}-0{4}-0{4}-0{4}-0{12}|f{8}-f{4}-f{4}-f{4}-f{12})"
    r"|[0-9a-f]{8}-0000-1000-8000-00805f9b34fb|[0-9a-f]{8}-0000-0000-c000-000000000046)(?![\w-])",
    re.I,
)
"""Constants: namespaces of RFC 9562, the empty and the largest UUID, and the base UUIDs of Bluetooth and of COM."""

_RELEASE: Final = re.compile(
    r"(?<!\w)(?:release[sd]?|versions?|ver|firmware|build|driver|kernel|patch|upgrad(?:e|ed|ing)|downgrad(?:e|ed|ing)"
    r"|standards-version)(?:[ :=]{1,2}(?:from|to|is|version|release)){0,2}[ :=]{1,2}\Z",
    re.I,
)
_FOUR: Final = re.compile(r"(?<![\w.,:/@-])v?[0-9]{1,3}(?:\.[0-9]{1,3}){2}\.[0-9]{1,5}(?![\w/:-]|\.[0-9])")
_BROWSER: Final = re.compile(r"(?<![\w.,:@-])[1-9][0-9]{0,2}\.[0-9]\.[0-9]{4,5}\.[0-9]{1,3}(?![\w:-]|\.[0-9])")
_PACKAGED: Final = re.compile(
    r"(?<![\w.,/@-])v[0-9]{1,3}(?:\.[0-9]{1,5}){1,3}(?![\w@/]|-\w|\.[0-9])"
    r"|(?<![\w.,/@-])(?![0-9]{1,2}(?:\.[0-9]{3}){2}-[0-9k](?!\w))(?:[0-9]:)?v?[0-9]{1,3}(?:\.[0-9]{1,4}){1,3}(?:"
    r"(?:-[0-9]{1,3})?(?:[-+~](?=[0-9.]{0,4}[a-z])[a-z0-9.]{1,16}){1,3}(?:-[0-9]{1,2}(?:\.[0-9]{1,2})?)?"
    r")(?![\w@/]|-\w|\.[0-9])"
    r"|(?<![\w.,/@-])(?:[0-9]:)?[0-9]{1,2}(?:\.[0-9]{1,2}){1,2}\.[0-9]{1,3}-[0-9]{1,2}(?:\.[0-9]{1,2})?"
    r"(?:[+~][a-z0-9.]{1,16}){0,2}(?![\w@/]|-\w|\.[0-9])"
)
"""A version of a package, with what a distribution adds: "1:3.6.2-1+deb12u5". "12.678.579-k" is a tax number."""

_REVISED: Final = re.compile(r"(?<![\w.,/@-])[0-9]{1,3}\.[0-9]{1,3}-[0-9]{1,2}(?![\w@/-]|\.[0-9])")
"""A version of a package with its revision. Elsewhere it may be a time: "10.30-12"."""

_COUNTED: Final = re.compile(
    rf"(?<![\w.,-])(?<![0-9] )(?:[0-9]{{4,9}}|[0-9]{{1,3}}(?:[ ,][0-9]{{3}}){{1,3}}) "
    rf"(?:{'|'.join(sorted(_LISTS['counted']))})(?!\w)"
)
_POINTER: Final = re.compile(r"(?<![\w.])0x[0-9a-f]{1,16}(?:u?l{0,2})(?!\w)", re.I)
_MACHINE_NUMBER: Final = re.compile(r"[0-9]{4}|[0-9] [0-9]{3}|0x|sqlstate|[0-9]e-", re.I)
"""A first test for numbers that need more than the rules of everyday numbers."""

_ROUND: Final = re.compile(
    r"(?<![\w.,+-])(?<![0-9] )[+−-]?[1-9][0-9]{0,2}(?:([ ,.'])000)(?:(?:\1)000){1,3}(?![\w-]|[ .,]?[0-9])"
)
"""A million or more of something."""

_FLOAT: Final = re.compile(
    r"(?<![\w.])[-+−]?([0-9]{1,3})(?:\.([0-9]{4,20})|\.[0-9]{1,3}(?=[eE]))?([eE][-+]?[0-9]{1,3})?(?![\w.]?[0-9a-zA-Z])"
)
_MANY: Final = 10
"""Decimals of a number that was calculated."""

_NUMBERED: Final = re.compile(
    rf"(?<![^\W_])(?:{'|'.join(sorted(_LISTS['durations']))})(?:[_-](?:ms|ns|us|secs?|seconds?|bytes|kb|mb))?"
    r"[\"']?(?:[:=]| is| of)?[ \"']{0,2}([0-9]{1,9}(?:\.[0-9]{1,9})?)(?![\w.-]?[0-9])",
    re.I,
)
_TIMED: Final = re.compile(
    r"(?<![A-Za-z])(?:\w{0,20}(?:_at|_time|_on|[tT]imestamp|epoch|_ts)|ts|[acm]time|iat|exp|nbf)[\"']?(?:[:=]| is| of)?"
    r"[ \"']{0,2}(1[0-9]{9}(?:[0-9]{3}){0,3})(?![\w.-]?[0-9])",
    re.I,
)
_SOA: Final = re.compile(r"(?<=serial[ :=])(?:19|20)[0-9]{8}(?!\w)")
_ERROR: Final = re.compile(
    r"(?<!\w)(?:(?:error|errno|sqlstate|hresult|fatal|warning|err!|err)(?: code| no\.?| number)?"
    r"|(?:exit|return|status|stop|error|result) (?:code|status)|bug ?check)"
    r"(?:\[|[:=#(]| is){0,2} ?[(\[]?-?(?:0x[0-9a-f]{1,8}|[A-Z]{0,4}-?[0-9]{1,6}|(?<=sqlstate.)[0-9A-Z]{5})(?!\w)"
    r"(?: ?\([0-9A-Z]{5}\))?[)\]]?",
    re.I,
)
_REGISTERED: Final = re.compile(
    r"(?<![\w-])(?:CVE-[0-9]{4}-[0-9]{4,7}|CWE-[0-9]{1,4}|KB[0-9]{6,7}|ORA-[0-9]{5}|MS[0-9]{2}-[0-9]{3}"
    r"|JSR-[0-9]{1,3}|RUSTSEC-[0-9]{4}-[0-9]{4}|GHSA(?:-[0-9a-z]{4}){3}|PEP-[0-9]{1,4}"
    r"|DSA-[0-9]{4}(?:-[0-9])?)(?![\w-])"
    r"|(?<!\w)(?:arXiv:[0-9]{4}\.[0-9]{4,5}(?:v[0-9]{1,2})?|10\.[0-9]{4,9}/[\w.()/-]{2,60})(?<![.)])(?!\w)"
)
_OID: Final = re.compile(r"(?<![\w.])(?:1\.[0-3]|2\.(?:5|16|23|999))(?:\.[0-9]{1,6}){2,12}(?![\w.]?[0-9])")
_OF_OIDS: Final = frozenset({"oid", "oids", "snmp", "asn", "mib", "x509", "ldap", "identifier"})
_ALGORITHM: Final = re.compile(
    r"(?<![\w.@-])[A-Za-z][A-Za-z0-9]{0,24}(?:[-_/.][A-Za-z0-9]{1,24}){0,8}(?![\w@!$#*-]|\.\w)"
)
_PART: Final = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DOTTED: Final = re.compile(
    r"(?<![\w@/.-])\.{0,3}[A-Za-z_$][\w$]{0,60}(?:(?:\.|::|->)[A-Za-z_$][\w$]{0,60}){1,6}"
    r"(?:[(<][0-9]{1,4})?(?![\w@]|\.\w|-\w|://|/\w)"
)
_SITE: Final = re.compile(
    r"(?<![\w@/.-])(?:https?://)?((?:[a-z0-9-]{1,40}\.){1,4}[a-z]{2,8})((?:/[\w.+%!-]{0,80}){0,10}"
    r"(?:\?(?:badge|query|branch|version|label|style|logo)=[\w.:%+-]{1,60})?(?:#[\w.+-]{0,80})?)"
    r"(?=[\s)>\]\"'`,;|]|\.?(?:\s|\Z))",
    re.I,
)
_HEADER: Final = re.compile(r"^[ |]{0,4}[A-Za-z_]{2,30}(?:[ ]?[,;|\t][ ]?[A-Za-z_]{2,30}){2,30}[ |]{0,4}$", re.M)
_CELL: Final = re.compile(r"[^,;|\t]+")
_LONG_NUMBER: Final = re.compile("[0-9]{7}")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_DECIMAL: Final = re.compile(r"[0-9](?:\.|e[-+]?)[0-9]")
_MIXED: Final = re.compile(r"[A-Za-z][-_/.]?[0-9]")
_JOINED: Final = re.compile(r"(?:\.|::|->)[A-Za-z_$]")
"""What a number with a point, the name of an algorithm, and a dotted name hold: rows without are read no further."""

_ABBREVIATED: Final = re.compile("[0-9a-f]{7,12} (?=[A-Z])")
"""A commit before its title."""

FIELDS: Final = frozenset[str]().union(*word_lists("fields").values())
"""Names of fields in small letters, without marks."""

_NAME_OF_FIELD: Final = re.compile(
    r"(?:^|(?<=[|;\n\t]))[ ]{0,4}([A-Za-z]{2,16}(?: [a-z]{2,12}){0,2})(?: \([a-z ]{2,20}\))?(?=[ ]{0,4}\|)"
    r"|(?<![\w.])([A-Za-z]{2,16})(?=\.?(?:[ ]\([a-z ]{2,20}\))?[ ]?:(?!\w))"
)
"""A cell of a heading, and a word before a colon."""

_COLUMNS: Final = FIELDS | _ROWS["columns"]
_FIRMS: Final = word_lists("known")["companies"] | word_lists("known")["products"]
_OWNER: Final = 1
"""The folder of a page of GitHub that is its owner."""

_OF_USERS: Final = frozenset({"user", "users", "u", "profile"})
_ARGUMENT: Final = re.compile("[(<].*")
_JOINT: Final = re.compile(r"\.|::|->")
_PACKAGE: Final = re.compile(
    r"(?<![\w@/.-])@[a-z0-9][\w.-]{0,40}/[a-z0-9][\w.-]{0,60}(@[\^~]?[0-9][\w.-]{0,20})?(?![\w@/])"
    r"|(?<![\w@/.-])(?:[a-z0-9-]{1,40}\.){1,3}[a-z]{2,6}(?:/[\w.~-]{1,60}){1,6}(?=(@| )v[0-9]{1,4}\.[0-9]{1,4}\.[0-9])"
)
"""A package of npm with its scope, and a module of Go. Groups: the version, and what stands before it."""

_OF_PACKAGES: Final = frozenset({"npm", "npx", "yarn", "pnpm", "bun", "import", "require", "dependencies"})
_OPTION: Final = re.compile(r"(?<![^\s\"'`(\[|,])--[a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,20}){0,6}(?![\w@.-])")
"""An option of a program. Its value may be a secret."""

_SWITCH: Final = re.compile(r"(?<= )-[A-Za-z]{1,2}(?= )")
_DECORATOR: Final = re.compile(
    r"^[ \t]{0,40}@[A-Za-z_][\w.]{0,80}(?=\(|[ \t]{0,8}(?:#[^\n]{0,80})?\n[ \t]{0,40}(?:@\w|(?:async )?def \w"
    r"|class \w{1,60}[(:]))",
    re.M,
)
_QUANTIFIER: Final = re.compile(r"(?:\\[dwsDWS]|[\])])\{[0-9]{1,4}(?:,[0-9]{0,4})?\}(?:\\b)?")
"""How often a character of a regular expression occurs."""

_HEX_DUMP: Final = re.compile(
    r"(?:(?<![\w.-])[0-9a-f]{7,16}:?[ \t]{1,3})?(?<![\w.-])(?=[0-9 ]{0,30}[a-f])"
    r"(?:[0-9a-f]{2}(?:[ ]{1,3}[0-9a-f]{2}){7,31}|(?<=:[ ])[0-9a-f]{4}(?:[ ]{1,3}[0-9a-f]{4}){3,15})(?![\w-])",
    re.I,
)
"""Bytes in hexadecimal digits, with their place."""

_PROGRESS: Final = re.compile(
    r"(?<![\w.-])(?:(?:steps?|epochs?|iter(?:ation)?s?|batch(?:es)?|chunks?)[ :=\[]{1,3}[0-9]{1,9}"
    r" ?(?:/|of) ?[0-9]{1,9}"
    r"|[a-z]{1,12}/s(?:ec)?[ :=]{1,2}[0-9][0-9.,]{0,12}|[0-9][0-9.,]{0,12} ?(?:tok|tokens|it|samples|rows|req|ops"
    r"|img)/s(?:ec)?"
    r"|[0-9]{1,6}(?:\.[0-9]{1,3})? ?(?:[KMGT]iB(?:/s)?|m?s/(?:it|step|batch|epoch|iter))"
    r"|%[0-9.]{0,4}[sdfi](?: (?:seconds|minutes|hours|days|ms|bytes))?"
    r"|eta[ :=]{1,2}[0-9]{1,2}(?::[0-9]{2}){1,2})(?![\w:/-]|[.,][0-9])",
    re.I,
)
"""How far a job is, and how fast."""

_PATH: Final = re.compile(
    r"(?:(?<![\w/.:@-])"
    r"|(?<=[a-z]:)(?=/))(/?)([\w.+~-]{1,80}(?:/[\w.+~@-]{1,80}){0,10}(?:::[A-Za-z_]\w{0,80}){0,3})(?![\w@/:]|\.\w)"
)
_MOST_DIGITS: Final = 3


def technical_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yields ranges that no secret word announces."""
    for start, end in _all(text):
        if _SECRET.search(text[max(0, start - _NEAR) : start]) is None:
            yield start, end


def _all(text: str) -> Iterator[tuple[int, int]]:
    lower = text.lower()
    has_digit = _DIGIT.search(text) is not None
    yield from machine_ranges(text, lower, has_digit=has_digit)
    if has_digit:
        if any(word in lower for word in _HASHED):
            yield from (match.span() for match in _HASH.finditer(text))
        runs = runs_of(text)
        is_hashed = not _LISTS["commits"].isdisjoint(runs) or any(f".{end}" in lower for end in _LISTS["archives"])
        if is_hashed and _ROWS["secrets"].isdisjoint(runs - {"key"}):
            yield from (match.span() for match in _HEXADECIMAL.finditer(text))
        commit = _ABBREVIATED.match(text)
        if commit is not None and row_of(text).is_of_programs:
            yield commit.span()
        if "-0000-" in text or "9dad-" in lower or "ffff-" in lower:
            yield from (match.span() for match in _KNOWN_UUID.finditer(text))
        yield from _numbers(text)
        for match in _ALGORITHM.finditer(text) if _MIXED.search(text) is not None else ():
            if any(map(str.isdigit, match[0])) and _is_algorithm(match[0]):
                yield match.span()
        yield from _of_machines(text, lower)
    for match in _OPTION.finditer(text) if "--" in text else ():
        if not names_somebody(match[0]):
            yield match.span()
    for match in _SWITCH.finditer(text) if " -" in text and row_of(text).is_of_programs else ():
        yield match.span()
    for match in _DECORATOR.finditer(text) if "@" in text else ():
        if _JOINT.split(match[0].strip()[1:])[0].lower() in _LISTS["modules"] or not names_somebody(match[0]):
            yield match.span()
    for match in _PACKAGE.finditer(text) if "/" in text and ("@" in text or " v" in text) else ():
        is_known = match[1] or match[2] or not _OF_PACKAGES.isdisjoint(runs_of(text))
        if is_known and not any(map(names_somebody, match[0].split("/"))):
            yield match.span()
    for match in _DOTTED.finditer(text) if _JOINED.search(text) is not None else ():
        if _is_dotted_name(match[0]):
            yield match.span()
    if "/" in text or "::" in text or "_" in text:
        for match in _PATH.finditer(text):
            if _is_public_path(match[2], is_absolute=bool(match[1])):
                yield match.span()
    if "://" in text or ("." in text and "/" in text):
        for match in _SITE.finditer(text):
            if _is_public_page(match[1].lower(), match[2]):
                yield match.span()
    for match in _NAME_OF_FIELD.finditer(text) if ":" in text or "|" in text else ():
        name = match[1] or match[2]
        if name.lower().replace(" ", "") in FIELDS and not names_somebody(name):
            yield match.span()
    for match in _HEADER.finditer(text) if any(mark in text for mark in ",;|\t") else ():
        if _is_header(match[0]):
            yield match.span()


def _numbers(text: str) -> Iterator[tuple[int, int]]:
    if "." in text and _DECIMAL.search(text) is not None:
        yield from (match.span() for match in _BROWSER.finditer(text))
        found = list(_FOUR.finditer(text))
        is_cued = [_RELEASE.search(text[max(0, match.start() - _NEAR) : match.start()]) is not None for match in found]
        if any(is_cued) and (all(is_cued) or row_of(text).is_of_nobody):
            yield from (match.span() for match in found)
        yield from (match.span() for match in _PACKAGED.finditer(text))
        if "-" in text and row_of(text).is_of_programs:
            yield from (match.span() for match in _REVISED.finditer(text))
        yield from _floats(text)
        if not _OF_OIDS.isdisjoint(runs_of(text)):
            yield from (match.span() for match in _OID.finditer(text))
    if "000" in text:
        for match in _ROUND.finditer(text):
            if CUE_NEXT.search(text[max(0, match.start() - _NEAR) : match.start()]) is None:
                yield match.span()
    if _MACHINE_NUMBER.search(text) is not None:
        for pattern in (_NUMBERED, _TIMED, _ERROR, _COUNTED):
            yield from (match.span() for match in pattern.finditer(text))
        if ("0x" in text or "0X" in text) and row_of(text).is_of_nobody:
            yield from (match.span() for match in _POINTER.finditer(text))
    if "soa" in text.lower():
        yield from (match.span() for match in _SOA.finditer(text))
    if "-" in text or "KB" in text or "Xiv" in text or "/" in text:
        yield from (match.span() for match in _REGISTERED.finditer(text) if not names_somebody(match[0]))


def _of_machines(text: str, lower: str) -> Iterator[tuple[int, int]]:
    """Yields regular expressions, dumps of memory, and progress of jobs."""
    for match in _QUANTIFIER.finditer(text) if "{" in text else ():
        yield match.span()
    yield from (match.span() for match in _HEX_DUMP.finditer(text))
    if "/" in text or "%" in text or "ib" in lower or "eta" in lower:
        yield from (match.span() for match in _PROGRESS.finditer(text))


def _floats(text: str) -> Iterator[tuple[int, int]]:
    """Yields calculated numbers. A number of degrees may be a place on a map."""
    found = [match for match in _FLOAT.finditer(text) if match[2] or match[3]]
    runs = runs_of(text)
    if not found or not _LISTS["coordinates"].isdisjoint(runs):
        return
    may_be_place = any(int(match[1]) > 1 and match[3] is None for match in found) and len(found) > 1
    for match in found:
        if match[3] or (len(match[2]) >= _MANY and not (may_be_place and _LISTS["calculated"].isdisjoint(runs))):
            yield match.span()


def _is_algorithm(name: str) -> bool:
    """Returns true for a name of an algorithm, a machine or an encoding, with short numbers."""
    if name.lower() in _LISTS["algorithms"]:
        return True
    parts = [part.lower() for part in _PART.findall(name)]
    return not _LISTS["algorithms"].isdisjoint(parts) and all(
        len(part) <= _MOST_DIGITS or part in _LISTS["sizes"]
        if part.isdigit()
        else part in _LISTS["algorithms"] or part in _LISTS["beside"]
        for part in parts
    )


def _is_dotted_name(name: str) -> bool:
    """Returns true for a call, an attribute or a file by its form, without a listed name in it."""
    parts = [part for part in _JOINT.split(_ARGUMENT.sub("", name)) if part]
    last = parts[-1].lower()
    if names_somebody(name):
        return False
    if sum(map(str.isdigit, name)) > _MOST_DIGITS or last in _LISTS["sites"]:
        return False
    if last in _LISTS["documents"]:
        return all(map(_is_plain, _LETTERS.findall(name)))
    if len(parts[0]) == len(last) == 1:
        return False
    if "::" in name or "->" in name or last in _LISTS["extensions"] or parts[0].lower() in _LISTS["modules"]:
        return True
    if parts[0].lower() in _ORDINARY["technical"] or parts[0].lower() in _ORDINARY["programs"]:
        return True
    return len(last) > 1 and any(
        "_" in part or (part != part.lower() and not part.istitle() and not part.isupper()) for part in parts
    )


def _is_public_path(path: str, *, is_absolute: bool) -> bool:
    """Returns true for a path of a system, or one that ends in a file of a program, without a listed name in it."""
    parts = path.rstrip(".").partition("::")[0].split("/")
    if is_absolute and parts[0] not in _LISTS["folders"]:
        return False
    ending = parts[-1].rpartition(".")[2].lower()
    if not is_absolute and ending not in _LISTS["extensions"]:
        words = [word for part in parts for word in _LETTERS.findall(part)]
        if ending not in _LISTS["documents"] or not all(map(_is_plain, words)) or _LONG_NUMBER.search(path):
            return False
    if not {"home", "users", "user"}.isdisjoint(part.lower() for part in parts):
        return False
    return not any(map(names_somebody, [*parts, *path.split("::")[1:]]))


def _is_plain(word: str) -> bool:
    lower = word.lower()
    return len(word) == 1 or lower in PROGRAMS or is_word(word)


def _is_public_page(host: str, path: str) -> bool:
    """Returns true for a page of a site of documentation, without a listed name or a long number in it."""
    parts, folders = host.split("."), path.split("/")
    if host == "github.com" and len(folders) > _OWNER and _is_of_projects(folders[_OWNER]):
        return not any(map(names_somebody, folders)) and not _LONG_NUMBER.search(path)
    at = next((at for at in range(len(parts) - 1) if ".".join(parts[at:]) in _LISTS["hosts"]), None)
    if at is None or any(map(names_somebody, parts[:at])):
        return False
    return _OF_USERS.isdisjoint(folders) and not any(map(names_somebody, folders)) and not _LONG_NUMBER.search(path)


def _is_of_projects(owner: str) -> bool:
    """Returns true if the owner of a repository is a project or a firm: a part of the name is that of a program."""
    parts = [owner.lower(), *(part.lower() for part in _LETTERS.findall(owner))]
    return any(part in PROGRAMS or part in _ROWS["tools"] or part in _FIRMS for part in parts)


def _is_header(line: str) -> bool:
    """Returns true for a line that holds only names of columns, of which two are known ones."""
    cells = [cell.strip(" |").lower() for cell in _CELL.findall(line) if cell.strip(" |")]
    known = [cell.replace("_", "") in _COLUMNS for cell in cells]
    return sum(known) > 1 and all(
        is_known or all(is_word(word) for word in cell.split("_") if word)
        for is_known, cell in zip(known, cells, strict=True)
    )
