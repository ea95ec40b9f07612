"""``reticent redact``: applies any policies to any text, line by line, without a settings file or a store."""

from __future__ import annotations

import codecs
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from pipelines.corpus.records import is_unicode
from pipelines.errors import ConfigError, InputError
from pipelines.language import MODELS, installed_model, without_model_text
from pipelines.policies.english.wrong_language import check_text
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.settings.redact import RedactConfig

if TYPE_CHECKING:
    from pipelines.policies.judging.texts import JudgedText

_BATCH_RECORDS = 2_000

Replace = Callable[[str, "JudgedText"], str]


def redactor_spec(policies: Sequence[str], options: Mapping[str, Any]) -> RedactorSpec:
    """Makes a redactor's specification from command-line options, checked like the ``[redact]`` table.

    Args:
        policies: names of policies; commas separate several in one string
        options: fields of the table; those that are None are left out

    Raises:
        ConfigError: an option is wrong. The message lists every problem.
    """
    names = [name.strip() for given in policies for name in given.split(",") if name.strip()]
    if not names:
        raise ConfigError("--policy names no policy; give one or several, e.g. --policy regex,names (docs/policies.md)")
    given = {key: value for key, value in options.items() if value is not None}
    try:
        return RedactConfig.model_validate({"policies": names, "reads_original": True, **given}).redactor_spec()
    except ValidationError as error:
        problems = []
        for found in error.errors():
            option = f"--{'.'.join(map(str, found['loc']))}: " if found["loc"] else ""
            problems.append(option + found["msg"].removeprefix("Value error, "))
        raise ConfigError("; ".join(problems).replace("--policies", "--policy")) from None


def by_language(options: Mapping[str, Any]) -> dict[str, Any]:
    """Adds that each text is read with the installed model of its language, if no language and no model is named."""
    if options.get("language") is not None or options.get("model") is not None:
        return dict(options)
    models = {code: model for code in MODELS if code != "en" and (model := installed_model(code)) is not None}
    return {**options, "language_of": "document", "models": models}


def settings_options(
    pattern: Sequence[str],
    keywords: Path | None,
    names: Path | None,
    classifier: Path | None = None,
    token_classifier: str | None = None,
    gliner: str | None = None,
) -> dict[str, Any]:
    """Returns fields of the ``[redact]`` table for options that need conversion.

    Raises:
        ConfigError, InputError: an option cannot be used.
    """
    options: dict[str, Any] = {}
    for name, folder in (("classifier", classifier), ("names_file", names)):
        if folder is not None:
            options[name] = str(folder.absolute())
    for name, model in (("token_classifier", token_classifier), ("gliner", gliner)):
        if model is not None:
            options[name] = str(Path(model).absolute()) if Path(model).is_dir() else model
    for given in pattern:
        label, separator, regex = given.partition("=")
        if not separator:
            raise ConfigError("--pattern must be LABEL=REGEX, e.g. --pattern TICKET=T-[0-9]{6}")
        options.setdefault("patterns", {})[label] = regex
    if keywords is not None:
        try:
            options["keywords"] = json.loads(keywords.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"--keywords: {keywords} cannot be read as JSON ({type(error).__name__}); it must hold "
                '{"DOMAIN": ["keyword", ...]}'
            ) from None
    return options


def redact_lines(
    file: str,
    spec: RedactorSpec,
    *,
    rendering: str = "collapsed",
    workers: int = 1,
    check_language: bool = True,
    as_json: bool = False,
    replace: Replace | None = None,
) -> Iterator[str]:
    """Yields one JSON line for each record of a file.

    Raises:
        ConfigError: a policy cannot be made, or the text is in another language.
        InputError: the file or a line cannot be read. The message names the line.
    """
    from pipelines.policies.judging.texts import RENDERINGS

    if rendering not in RENDERINGS:
        raise ConfigError(f"--rendering must be one of {', '.join(RENDERINGS)}")
    num_failed = num_unvouched = 0
    without_model: Counter[str] = Counter()
    with opened(file) as lines:
        for record, judged in judge_records(records(lines, file), spec, workers=workers, check_language=check_language):
            if judged.other_language is not None:
                without_model[judged.other_language] += 1
            else:
                num_failed += judged.failed_closed
            num_unvouched += judged.conservative_failed
            document: dict[str, Any] = {"id": record["id"]}
            if replace is not None:
                # Offsets into the original would reveal the lengths of secrets.
                document["redacted_text"] = replace(str(record["id"]), judged)
            else:
                document |= {"redacted_text": judged.rendered(rendering), "spans": _spans(judged)}
            if judged.other_language is not None:
                document["language_without_model"] = judged.other_language
            if spec.conservative is not None:
                document["flagged_by_conservative"] = judged.flagged
            yield json.dumps({"schema_version": 1, **document} if as_json else document, ensure_ascii=False)
    for count, name, what_then in (
        (num_failed, "a policy", "these are masked completely"),
        (num_unvouched, "the conservative policy", "these count as private"),
    ):
        if count:
            print(f"reticent: {name} failed on {count:,} text{'s' * (count > 1)}; {what_then}", file=sys.stderr)
    if without_model:
        print(f"reticent: {without_model_text(without_model, 'text')}", file=sys.stderr)


def _spans(judged: JudgedText) -> list[dict[str, Any]]:
    return [
        {
            "start": judged.starts[span.start_token],
            "end": judged.ends[span.end_token - 1],
            "label": span.label,
            "policy": span.policy,
            "score": span.score,
        }
        for span in judged.spans
    ]


def judge_records(
    found: Iterable[Mapping[str, Any]], spec: RedactorSpec, *, workers: int = 1, check_language: bool = True
) -> Iterator[tuple[Mapping[str, Any], JudgedText]]:
    """Judges records with a ``text`` in order, a bounded number at a time. Raises the errors of `redact_lines`."""
    from pipelines.policies.judging.texts import TextJudge

    language = spec.options.get("language", "en")
    with Redactor.from_spec(spec, workers) as redactor:
        judge = TextJudge(redactor, language)
        source = iter(found)
        is_first = True
        while batch := list(islice(source, _BATCH_RECORDS)):
            if is_first and check_language and spec.models is None:
                check_text((record["text"] for record in batch), language)
            is_first = False
            yield from zip(batch, judge.judge([record["text"] for record in batch]), strict=True)


def records(lines: Iterable[bytes], name: str) -> Iterator[dict[str, Any]]:
    """Yields the records of a file: JSON lines if the first line is a JSON object, else lines of text.

    Skips a byte order mark.

    Raises:
        InputError: a line is not UTF-8, or is no usable object although the first line is a JSON object.
    """
    source = ((number, line.rstrip(b"\r\n")) for number, line in enumerate(lines, 1))
    first = next(((n, line.removeprefix(codecs.BOM_UTF8)) for n, line in source if line.strip()), None)
    if first is None:
        return
    is_json = isinstance(_parsed(first[1]), dict)
    for number, line in chain([first], source):
        if not line.strip():
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{name}, line {number}: not UTF-8 text") from None
        if not is_json:
            yield {"id": str(number), "text": text}
            continue
        record = _parsed(line)
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            raise InputError(f'{name}, line {number}: not a JSON object with a string "text"')
        if not isinstance(record.get("id"), str | int | float | None):
            raise InputError(f'{name}, line {number}: "id" must be a string or a number')
        if not (is_unicode(record["text"]) and is_unicode(str(record.get("id")))):
            raise InputError(f"{name}, line {number}: holds half of a surrogate pair, which is not a character")
        yield {"id": str(number), **record}


def _parsed(line: bytes) -> Any:
    """Parses a line as JSON; returns None if it is not JSON or nested too deeply."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


@contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """Opens a file, or standard input for ``-``.

    Raises:
        InputError: the file cannot be opened.
    """
    if file == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from None
        yield stream
