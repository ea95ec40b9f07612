"""Recognises files that hold no text for training: source code, logs of programs, settings, dumps and markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pipelines.corpus.log_lines import head_texts
from pipelines.corpus.recognition import Head, Reading, Recogniser

_SOURCE: Final[Mapping[str, str]] = {
    suffix: language
    for language, suffixes in {
        "Python": ".py .pyi .pyx", "shell": ".sh .bash .zsh .fish .ksh", "C": ".c .h", "C++": ".cc .cpp .cxx .hpp .hh",
        "JavaScript": ".js .mjs .cjs .jsx", "TypeScript": ".ts .tsx", "Java": ".java", "Kotlin": ".kt .kts",
        "Go": ".go",
        "Rust": ".rs", "Ruby": ".rb", "PHP": ".php", "Perl": ".pl .pm", "C#": ".cs", "Swift": ".swift",
        "Scala": ".scala",
        "R": ".r", "Lua": ".lua", "SQL": ".sql", "style sheets": ".css .scss .less", "batch files": ".bat .cmd .ps1",
        "Julia": ".jl", "Haskell": ".hs", "assembler": ".asm .s", "Vue": ".vue", "make": ".mk .cmake .gradle",
    }.items()
    for suffix in suffixes.split()
}  # fmt: skip
_SETTINGS: Final = frozenset({
    ".ini", ".cfg", ".conf", ".properties", ".toml", ".yaml", ".yml", ".env", ".lock", ".editorconfig", ".plist",
    ".service",
})  # fmt: skip
_BUILD_NAMES: Final = re.compile(
    r"(?:makefile|dockerfile|jenkinsfile|rakefile|gemfile|vagrantfile|cmakelists\.txt)", re.IGNORECASE
)
_SHELLS: Final = re.compile(r"\b(?:ba|z|k|da|fi)?sh\b")

_STRONG: Final = re.compile(
    r".*(?:[;{}(\[]|=.*,|\w\(.*,|\w\(.*\)|\{ ?//.*|\}[,;)]+|\] ?[;,]|=>|\\|&&|\|\|)$|(?:def|class|fn|func"
    r"|function|struct|enum|interface|impl) [\w$:<>]+ ?[(:{<].*"
    r"|#(?:include|define|ifdef|ifndef|endif|pragma|!)\b.*|(?:import|from|package|using|require"
    r"|use) [\w.*{}\"'/:, ]+(?: import .+)?"
    r"|(?:const|let|var|val|public|private|protected|static|final|void|int|char|bool|export|local|my"
    r"|readonly) [\w$<>\[\]* ]+(?:[=;({].*)?"
    r"|(?:if|while|for|elif|else if|switch|unless) ?(?:\(|\[).*|(?:if|elif|for|while|with|try|except|else|finally"
    r"|case)\b[^.!?]*:"
    r"|(?:fi|done|esac|then|else|do|end|begin|set [-+][a-z]+|echo .+|exit \d+|return\b.{0,60}[\w)\]};]|pass|break"
    r"|continue)"
    r"|@[\w.]+(?:\(.*\))?|[\w.$\[\]'\"]+ ?[-+*/|:]?= ?\S.*|[\w.$]+\(.*\)[;,:]?|[)\]}]+[;,)]*"
    r"|(?:rm|cp|mv|mkdir|cd|chmod|sudo|apt-get|pip|npm|git|docker|curl|wget|tar|zip|sed|awk|grep|find"
    r"|cat) [-./\w$\"'*].*"
)
_BLOCK_COMMENT: Final = re.compile(r"\"\"\"(?:.|\n)*?\"\"\"|'''(?:.|\n)*?'''|/\*(?:.|\n)*?\*/|<!--(?:.|\n)*?-->")
_COMMENT: Final = re.compile(r"(?://|/\*|\*(?: |/|$)|#(?!!)|--(?: |$)|\"\"\"|''').*")
_STATEMENT: Final = re.compile(
    r"(?:INSERT INTO|CREATE (?:TABLE|INDEX|DATABASE|SEQUENCE|VIEW)|DROP TABLE|ALTER TABLE|LOCK TABLES"
    r"|UNLOCK TABLES|COPY \S+ \(|SET \S+ ?=|--"
    r" (?:MySQL|MariaDB|PostgreSQL|SQLite|Dump|Table structure|Host:)|PRAGMA |BEGIN TRANSACTION|/\*!\d+)",
    re.IGNORECASE,
)
_LOG_TIME: Final = re.compile(
    r"[\[(]?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d|\d\d[-/ ](?:\d\d|[A-Z][a-z]{2})[-/ ]\d{2,4}[: ]\d\d:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d[.,]\d{3}|\d{10}(?:\.\d+)?\b"
    r"|\[? *\d+\.\d{6}\]|\[?\d\d:\d\d:\d\d\]?[ \t])"
)
_LEVEL: Final = re.compile(r"(?<![\w])(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL"
    r"|SEVERE)(?![\w])|<(?:info|warn|error|debug)>"
                           r"|\[(?:info|warn|warning|error|debug|notice|crit)\]|level=\w+")  # fmt: skip
_PROGRAM: Final = re.compile(
    r"(?:[\w./-]+\[[\w.]+\]:|[\w./-]+\[\d+\]|\bkernel|[\w.]+(?:\.\w+){2,}|\b\w+::\w+|\bpid[ =:]?\d+"
    r"|0x[0-9a-f]{4,}|[\w-]+=\S+ [\w-]+=\S+)"
)
_ACCESS: Final = re.compile(r"(?:[\w.:-]+) \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [-+]\d{4}\] \"[A-Z]+ ")
_TRACE: Final = re.compile(
    r"\s+at [\w.$<>]+\(.*\)|Traceback \(most recent call last\):|\s+File \".*\", line \d+"
    r"|(?:\w+\.)+\w*(?:Exception|Error)\b.*"
)
_PAIR: Final = re.compile(r"(?:export )?[A-Za-z_][\w.\-/\[\]]{0,80} ?= ?\S?.*|\[[\w .:\-\"/]{1,80}\]\s*|[#;].*")
_YAML: Final = re.compile(r" *(?:- )*[\w./\"'-]{1,60}:(?: .{0,120})?|\s*- .{1,120}|---|\.\.\.|\s*#.*")
_TAG: Final = re.compile(r"<[/!?]?[A-Za-z][^<>]{0,500}>")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}|-----(?:BEGIN|END) [A-Z0-9 ]+-----|begin \d{3} \S+")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{6,16}:? )?(?:[0-9a-fA-F]{2,8}[ :]){4,}.*|[0-9a-fA-F]{32,}")


def _share(lines: Sequence[str], test: Callable[[str], Any]) -> float:
    return sum(bool(test(line)) for line in lines) / max(1, len(lines))


def _texts(head: Head) -> list[str]:
    lines = head_texts(head.data[: 1 << 18], is_whole=head.is_whole and len(head.data) <= 1 << 18)
    return [line.rstrip()[:2_000] for line in lines if line and not line.isspace()]


def _base_name(head: Head) -> str:
    return head.name.rpartition("/")[2]


def source_code(head: Head) -> Reading | None:
    """Recognises source code and scripts, by the suffix, the first line, or the form of most lines."""
    lines = _texts(head)
    if not lines:
        return None
    if lines[0].startswith("#!/"):
        return Reading(None, 0.97, "a shell script" if _SHELLS.search(lines[0]) else "a script of a program")
    if head.suffix in _SOURCE:
        return Reading(None, 0.9, f"source code ({_SOURCE[head.suffix]})")
    if _BUILD_NAMES.fullmatch(_base_name(head)):
        return Reading(None, 0.9, "instructions for a build")
    if _share(lines[:400], _STATEMENT.match) >= 0.3 or (
        lines[0].startswith("-- ") and sum(bool(_STATEMENT.match(line)) for line in lines) >= 3
    ):
        return Reading(None, 0.95, "a dump of a database (SQL)")
    if head.suffix in (".md", ".rst", ".html", ".htm", ".xml", ".csv", ".tsv", ".json", ".jsonl", ".ndjson"):
        return None
    bare = _BLOCK_COMMENT.sub("", "\n".join(line.strip() for line in lines)).split("\n")
    code = [line for line in bare if line and not _COMMENT.fullmatch(line)]
    share = _share(code, _is_code)
    if len(code) >= 3 and share >= 0.6:
        return Reading(None, 0.93 if share >= 0.75 else 0.8, "source code")
    return None


def _is_code(line: str) -> bool:
    return _STRONG.fullmatch(line) is not None and not _is_prose(line)


def _is_prose(line: str) -> bool:
    return len(line.split()) >= 6 and sum(char.isalpha() or char == " " for char in line) >= 0.93 * len(line)


def program_log(head: Head) -> Reading | None:
    """Recognises the log of a program or server."""
    lines = _texts(head)
    if len(lines) < 2 or head.suffix in (".csv", ".tsv", ".json"):
        return None
    if head.suffix in (".jsonl", ".ndjson", ".log", "") and _share(lines, _is_json_log) >= 0.8:
        return Reading(None, 0.95, "a program's log (JSON)")
    if _share(lines, _ACCESS.match) >= 0.7:
        return Reading(None, 0.95, "a log of a web server")

    def is_entry(line: str) -> bool:
        return bool(_LOG_TIME.match(line) and (_LEVEL.search(line, 0, 200) or _PROGRAM.search(line, 8, 200)))

    entries = _share(lines, is_entry)
    levels = _share(lines, lambda line: re.match(r"\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\]?[: \t]", line))
    traces = _share(lines, _TRACE.match)
    if entries + traces >= 0.6 and entries > 0.05:
        return Reading(None, 0.95 if entries >= 0.6 else 0.85, "looks like a program's log")
    if levels + traces >= 0.7:
        return Reading(None, 0.9, "looks like a program's log")
    is_log = head.suffix == ".log" and _share(lines, _is_prose) < 0.5
    return Reading(None, 0.7, "a log of an unknown layout") if is_log else None


def _is_json_log(line: str) -> bool:
    if not line.startswith("{"):
        return False
    keys = set(re.findall(r'"(\w+|@\w+)" ?:', line[:500]))
    return bool(keys & {"level", "severity", "levelname", "lvl"}) and bool(
        keys & {"ts", "time", "timestamp", "@timestamp", "asctime", "msg"}
    )


def settings(head: Head) -> Reading | None:
    """Recognises files of settings: key=value, INI, TOML, YAML and JSON."""
    lines = _texts(head)
    if not lines:
        return None
    if head.suffix in _SETTINGS or _base_name(head).startswith(".env"):
        return Reading(None, 0.9, "settings of a program")
    if head.suffix == ".json":
        return _json_settings(head)
    if head.suffix in (".csv", ".tsv", ".jsonl", ".ndjson", ".md"):
        return None
    pairs = [line for line in lines if not line.startswith(("#", ";"))]
    if len(pairs) >= 3 and _share(lines, _PAIR.fullmatch) >= 0.9:
        return Reading(None, 0.9, "settings of a program (key = value)")
    if lines[0] == "---" and len(lines) >= 4 and _share(lines, _YAML.fullmatch) >= 0.9:
        return Reading(None, 0.85, "settings of a program (YAML)")
    return None


def _json_settings(head: Head) -> Reading | None:
    if not head.is_whole:
        return None
    try:
        value = json.loads(head.data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    strings: list[str] = []
    stack: list[Any] = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            stack += top.values()
        elif isinstance(top, list):
            stack += top
        elif isinstance(top, str):
            strings.append(top)
    if _share(strings, lambda text: len(text.split()) >= 5) < 0.1:
        return Reading(None, 0.6, "settings or data of a program (JSON without sentences)")
    return None


def markup(head: Head) -> Reading | None:
    """Recognises XML and other markup. A format with a reader has a higher score of its own."""
    lines = _texts(head)
    if not lines or head.suffix in (".html", ".htm", ".xhtml", ".md"):
        return None
    begin = lines[0].lstrip().lower()
    if begin.startswith(("<!doctype html", "<html")) or (len(lines) > 1 and "<html" in lines[1].lower()):
        return None
    if begin.startswith(("<?xml", "<svg", "<!doctype")) or head.suffix in (
        ".xml",
        ".xsd",
        ".svg",
        ".xsl",
        ".rdf",
        ".gpx",
        ".kml",
    ):
        return Reading(None, 0.7, "markup without a reader (XML)")
    text = "\n".join(lines[:400])
    tags = sum(len(match[0]) for match in _TAG.finditer(text))
    if tags >= 0.4 * len(text):
        return Reading(None, 0.7, "markup without a reader")
    return None


def encoded(head: Head) -> Reading | None:
    """Recognises base64, hexadecimal dumps and minified files."""
    lines = _texts(head)
    if not lines:
        return None
    if len(lines) >= 2 or len(lines[0]) >= 100:
        if _share(lines, _BASE64.fullmatch) >= 0.85:
            return Reading(None, 0.95, "encoded data (base64)")
        if _share(lines, _HEX.fullmatch) >= 0.85:
            return Reading(None, 0.95, "encoded data (hexadecimal)")
    sample = head.data[:20_000].decode("utf-8", "replace")
    if head.suffix in (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".xml", ".html", ".htm"):
        return None
    long = max(map(len, sample.split("\n")))
    marks = sum(sample.count(mark) for mark in "{}();=")
    if long >= 1_000 and marks >= 0.08 * len(sample) and sample.count(" ") <= 0.12 * len(sample):
        return Reading(None, 0.93, "minified source code")
    return None


RECOGNISERS: Final[tuple[Recogniser, ...]] = (source_code, program_log, settings, markup, encoded)
"""Recognisers of files without text for training."""
