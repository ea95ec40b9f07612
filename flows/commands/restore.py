"""``reticent redact --replacement`` and ``reticent restore``: something else than masks, and the way back."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flows.commands.redact import Replace, opened
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pipelines.policies.judging.apply import RedactorSpec
    from pipelines.policies.judging.texts import JudgedText
    from pipelines.policies.surrogates import Replaced

REPLACEMENTS: Final = ("mask", "label", "surrogate")
_KEY_BYTES: Final = 32


@contextlib.contextmanager
def replacing(
    replacement: str, spec: RedactorSpec, key: Path | None, table: Path | None, consistent: str
) -> Iterator[Replace | None]:
    """Gives what writes the replacement of a text; None for masks.

    Args:
        replacement: one of `REPLACEMENTS`.
        spec: the policies, whose labels map onto those of reviews.
        key: file of the key of surrogates; made, readable by its owner only, where there is none.
        table: file of what they stand for; must be new.
        consistent: ``document`` or ``corpus``.

    Raises:
        ConfigError: an option is unknown, missing or of no use here, or a file cannot be used.
    """
    from pipelines.policies.surrogates import Surrogates, typed_text
    from pipelines.stages.estimate import EstimateConfig

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
    maker = Surrogates(_key(key), EstimateConfig().review_labels(spec.policies), consistent)
    try:
        descriptor = os.open(table, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"--surrogate-map: {table} is there already; name a new file") from None
    except OSError as error:
        raise ConfigError(f"--surrogate-map: {table} cannot be written ({error.strerror})") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:

        def replace(document: str, judged: JudgedText) -> str:
            text, rows = maker.text(document, judged.text, judged.starts, judged.ends, judged.spans)
            for row in rows:
                out.write(json.dumps({"id": document, **row._asdict()}, ensure_ascii=False) + "\n")
            out.flush()  # ahead of the text, so that no text is without its way back
            return text

        yield replace


def _key(path: Path) -> bytes:
    """Reads the key, or makes one."""
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


def restored_lines(file: str, table: Path) -> Iterator[str]:
    """One JSON line for each text: ``id`` and ``text`` with what surrogates stand for.

    Args:
        file: a path, or ``-`` for standard input; JSON lines with ``id``, and ``redacted_text`` or ``text``.
        table: what `replacing` wrote. It is held in memory.

    Raises:
        InputError: one of them cannot be read; the message names the line.
    """
    from pipelines.policies.surrogates import Replaced, restored

    known: dict[str, dict[str, Replaced]] = {}
    with opened(str(table)) as lines:
        for number, line in enumerate(lines, 1):
            row = _object(line, f"{table}, line {number}", ("id", "surrogate", "original", "label"))
            replaced = Replaced(row["surrogate"], row["original"], row["label"])
            if known.setdefault(row["id"], {}).setdefault(replaced.surrogate, replaced).original != replaced.original:
                raise InputError(
                    f"{table}, line {number}: two texts have the same id, and one surrogate for two secrets; redact "
                    "them again with an id each"
                )
    with opened(file) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = _object(line, f"{file}, line {number}", ())
            text = row.get("redacted_text", row.get("text"))
            if not isinstance(text, str) or not isinstance(row.get("id"), str | int | float):
                raise InputError(f"{file}, line {number}: not a JSON object with an id and redacted_text or text")
            found = restored(text, known.get(str(row["id"]), {}).values())
            yield json.dumps({"id": row["id"], "text": found}, ensure_ascii=False)


def _object(line: bytes, where: str, names: tuple[str, ...]) -> dict[str, Any]:
    """A line's JSON object, whose named fields are texts."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in names):
        raise InputError(
            f"{where}: not a JSON object with the texts {', '.join(names)}" if names else f"{where}: no JSON"
        )
    return row
