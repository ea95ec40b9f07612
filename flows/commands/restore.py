"""``reticent redact --replacement`` and ``reticent restore``: replaces secrets by surrogates, and turns them back.

A run keeps the originals of its surrogates in a private table of its redact stage (`SURROGATES`). `reticent redact`
writes them to a file of JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from flows.commands.redact import Replace, opened
from pipelines.errors import ConfigError, InputError
from pipelines.mask import Replacement
from pipelines.policies.replacement import make_surrogates
from pipelines.policies.surrogates import Replaced, typed_text
from pipelines.policies.surrogates import restored as restored_text
from pipelines.settings.estimate import EstimateConfig
from pipelines.settings.redact import RedactConfig

if TYPE_CHECKING:
    from pipelines.policies.judging.apply import RedactorSpec
    from pipelines.policies.judging.texts import JudgedText

REPLACEMENTS: Final = get_args(Replacement)
_KEY_BYTES: Final = 32


@contextlib.contextmanager
def replacing(
    replacement: str,
    spec: RedactorSpec,
    key: Path | None,
    table: Path | None,
    consistent: str,
    persons: str = "apart",
    shift_dates: int = 0,
) -> Iterator[Replace | None]:
    """Opens a function that writes the replacement of a text; None for masks.

    Args:
        replacement: one of `REPLACEMENTS`
        spec: policies, whose labels map onto those of reviews
        key: file of the surrogates' key; created if missing, readable by its owner only
        table: new file for the originals of surrogates
        consistent: scope in which a secret keeps one surrogate, ``document`` or ``corpus``
        persons, shift_dates: fields ``surrogate_persons`` and ``shift_dates`` of ``[redact]``

    Raises:
        ConfigError: an option is unknown, missing or useless here, or a file cannot be used.
    """
    if replacement not in REPLACEMENTS:
        raise ConfigError(f"--replacement must be one of {', '.join(REPLACEMENTS)}, not {replacement}")
    if consistent not in ("document", "corpus"):
        raise ConfigError(f"--consistent must be document or corpus, not {consistent}")
    if replacement != "surrogate":
        if key is not None or table is not None:
            raise ConfigError("--surrogate-key and --surrogate-map need --replacement surrogate")
        names = EstimateConfig().review_labels(spec.policies)

        def typed(_: str, judged: JudgedText) -> str:
            return typed_text(judged.text, judged.starts, judged.ends, judged.spans, names)

        yield None if replacement == "mask" else typed
        return
    if key is None or table is None:
        raise ConfigError("--replacement surrogate needs --surrogate-key FILE and --surrogate-map FILE")
    try:
        asked = {"replacement": replacement, "surrogate_persons": persons, "shift_dates": shift_dates}
        linking = RedactConfig.model_validate({**asked, "day_first": spec.language != "en"}).linking()
    except ValidationError as error:
        problems = "; ".join(problem["msg"].removeprefix("Value error, ") for problem in error.errors())
        raise ConfigError(f"--surrogate-persons, --shift-dates: {problems}") from None
    maker = make_surrogates(_key(key), EstimateConfig().review_labels(spec.policies), consistent, linking)
    try:
        descriptor = os.open(table, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"--surrogate-map: {table} exists already; name a new file") from None
    except OSError as error:
        raise ConfigError(f"--surrogate-map: {table} cannot be written ({error.strerror})") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:

        def replace(document: str, judged: JudgedText) -> str:
            text, rows = maker.text(document, judged.text, judged.starts, judged.ends, judged.spans)
            for row in rows:
                noted = {"id": document, **row._asdict(), **({"any_case": True} if linking is not None else {})}
                out.write(json.dumps(noted, ensure_ascii=False) + "\n")
            out.flush()  # before the text is written, so that every text can be restored
            return text

        yield replace


def _key(path: Path) -> bytes:
    """Reads the key; creates one if the file is missing."""
    try:
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as out:
                out.write(secrets.token_hex(_KEY_BYTES) + "\n")
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--surrogate-key: {path} cannot be used as a key ({type(error).__name__})") from None
    if len(key) < _KEY_BYTES:
        raise ConfigError(f"--surrogate-key: {path} holds fewer than {_KEY_BYTES} bytes in hexadecimal")
    return key


class Known:
    """The originals of surrogates by text, held in memory.

    Args:
        any_case: true if surrogates were written so that they can be found in any case.

    In a run, a text is a document or one of its sentences. Two sentences of a document may use one surrogate for two
    secrets, so that only the sentence decides between them.
    """

    def __init__(self, any_case: bool = False) -> None:
        self.any_case = any_case
        self._of: dict[tuple[str, int | None], dict[str, Replaced]] = {}
        self._unclear: dict[str, set[str]] = {}

    def add(self, text_id: str, sentence: int | None, replaced: Replaced) -> bool:
        """Adds a row. Returns true if the surrogate stands for only one secret in the document so far."""
        if sentence is not None:
            self._of.setdefault((text_id, sentence), {})[replaced.surrogate] = replaced
        whole = self._of.setdefault((text_id, None), {})
        is_clear = whole.setdefault(replaced.surrogate, replaced).original == replaced.original
        if not is_clear:
            self._unclear.setdefault(text_id, set()).add(replaced.surrogate)
        return is_clear

    def restored(self, text_id: str, sentence: int | None, text: str) -> str | None:
        """Replaces surrogates by their originals; returns None if that needs the sentence, which is unknown."""
        given = text.casefold()
        if sentence is None and any(surrogate.casefold() in given for surrogate in self._unclear.get(text_id, ())):
            return None
        return restored_text(text, self._of.get((text_id, sentence), {}).values(), any_case=self.any_case)


def restored_lines(file: str, source: Path, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yields one JSON line for each text: ``id`` and ``text``, with surrogates replaced by their originals.

    Args:
        file: path of a file (or ``-`` for standard input) of JSON lines with ``id``, and ``redacted_text`` or
            ``text``; rows of a run may have ``doc_id`` instead, and ``sentence_index``
        source: map file that `replacing` wrote, or the settings file (``.toml``) of a project, for its last run
        environ: environment variables, for settings

    Raises:
        ConfigError: the project's last run wrote no surrogates.
        InputError: a file cannot be read. The message names the line.
    """
    is_run = source.suffix == ".toml"
    known = _known_of_run(source, environ or {}) if is_run else _known_of_map(source)
    with opened(file) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{file}, line {number}"
            row = _object(line, where, ())
            text = row.get("redacted_text", row.get("text"))
            text_id, sentence = row.get("id"), None
            if is_run:
                text_id, sentence = row.get("doc_id", text_id), row.get("sentence_index")
            if not isinstance(text, str) or not isinstance(text_id, str | int | float):
                raise InputError(f"{where}: not a JSON object with an id and redacted_text or text")
            if not isinstance(sentence, int | None):
                raise InputError(f"{where}: sentence_index must be a whole number")
            found = known.restored(str(text_id), sentence, text)
            if found is None:
                raise InputError(f"{where}: a surrogate stands for two secrets in this document; give sentence_index")
            place = {} if sentence is None else {"sentence_index": sentence}
            yield json.dumps({"id": text_id, **place, "text": found}, ensure_ascii=False)


def _known_of_map(table: Path) -> Known:
    known = Known()
    with opened(str(table)) as lines:
        for number, line in enumerate(lines, 1):
            row = _object(line, f"{table}, line {number}", ("id", "surrogate", "original", "label"))
            known.any_case = row.get("any_case") is True
            if not known.add(row["id"], None, Replaced(row["surrogate"], row["original"], row["label"])):
                raise InputError(
                    f"{table}, line {number}: two texts have the same id, and one surrogate for two secrets; redact "
                    "them again with different ids"
                )
    return known


def _known_of_run(config: Path, environ: Mapping[str, str]) -> Known:
    # Only a run needs the store: `reticent redact` works without one, and starts faster.
    from flows.running.spec import open_store
    from pipelines.policies.tables import SURROGATES
    from pipelines.settings.loading import load_settings
    from pipelines.store.objects import runs

    settings: Any = load_settings(config, environ, refuses_idle=False)
    roots = open_store(settings, create=False)
    artifacts: Iterable[tuple[str, str | None, str]] = (runs.latest(roots) or {}).get("artifacts", ())
    sources = [roots.private_files("redact", key) for stage, _, key in artifacts if stage == "redact"]
    if not sources:
        raise ConfigError(f"{config}: nothing was redacted yet; `reticent run {config}`")
    if not all(source.blob(f"{SURROGATES.name}.parquet").is_file() for source in sources):
        raise ConfigError(f"{config}: its last run wrote no surrogates (redact.replacement)")
    known = Known(settings.stages["redact"].linking() is not None)
    for source in sources:
        for row in source.table(SURROGATES).rows():
            replaced = Replaced(row["surrogate"], row["original"], row["label"])
            known.add(row["doc_id"], row["sentence_index"], replaced)
    return known


def _object(line: bytes, where: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Parses a line as a JSON object whose named fields are texts."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in names):
        raise InputError(
            f"{where}: not a JSON object with the texts {', '.join(names)}" if names else f"{where}: no JSON"
        )
    return row
