"""``reticent init``: writes a commented, runnable settings file, and reports its findings in the user's files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from flows.commands.kinds import MOST_REJECTED
from flows.commands.patterns import by_name
from flows.commands.survey import USUAL_EPOCHS, Decide, Survey, survey, take_best
from pipelines.corpus.customersim import write_customersim
from pipelines.errors import ConfigError
from pipelines.language import MODELS, how_to_install, installed_model
from pipelines.printable import printable

SCHEMA: Final = "reticent.schema.json"
"""File of the JSON schema for editors (`flows.docs.schema`). The first line of a starter names it."""

OWN_POLICIES = ("high_entity", "presidio", "addresses", "identifiers", "fields")
"""Default policies for the user's own text. ``propagate`` is left out: see docs/policies.md, "The default"."""

_CAREFUL: Final = """\
dates_and_numbers = "careful"     # "all": no date or number stays. "identifying": most stay
reads_original = true             # policies read placeholders, and the original text too
"""
_CUT_FIELDS: Final = "cut_fields = true                 # tokens end at the marks of JSON, CSV and key=value\n"
_BUILT_IN_EPOCHS: Final = "epochs = 6\n"
_OF_BUILT_IN: Final = (
    "vocab_size = 2_000                # so many tokens that most words of these dialogues are one\n",
    "show_samples = true               # rows before and after redaction, in the full report: the built-in text is "
    "made up\n",
)
"""Lines of the starter that are for the built-in corpus only."""
_SEVERAL: Final = "Files of another kind need owner_from in their own [[corpus.source]]."
_FEWEST: Final = "in each, at least: 300 in all take an hour or two to review (docs/reviewing.md)"


def write_starter(
    folder: Path,
    inputs: Sequence[str],
    *,
    dialogues: int,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
    decide: Decide = take_best,
    keep: Callable[[Survey], None] = lambda seen: None,
) -> Path:
    """Writes ``reticent.toml``, its schema for editors and, without own inputs, a built-in corpus.

    Args:
        folder: folder of the files, created if missing; an existing ``reticent.toml`` is never overwritten
        inputs: the user's own files, folders or patterns, relative to the present folder
        dialogues: number of dialogues in the built-in corpus
        seed: seed of the built-in corpus
        say: function that prints the findings in the user's files
        decide: function that chooses among the readings of files that raise doubts
        keep: function that gets the findings in the user's files

    Raises:
        ConfigError: the settings file exists already, or the folder is a file.
        InputError: an input does not exist, or nothing in it can be read.
    """
    path = folder / "reticent.toml"
    if path.exists():
        raise ConfigError(f"{path} exists already; remove it or choose another folder")
    shown = [_absolute(name) for name in inputs]
    seen = survey(shown, decide) if inputs else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"{folder} is a file; give a folder") from None
    template = resources.files("flows.commands").joinpath("starter.toml").read_text("utf-8")
    if seen is not None:
        say("\n".join([seen.text(), *seen.owner_line]))
        keep(seen)
        replaced = {
            'policies = ["customersim", "high_entity"]': f"{_redact(seen)}policies = {json.dumps(_policies(seen))}",
            "replicates = 1  ": "replicates = 10 ",
            "fraction = 1.0   ": f"{_line('min_sentences', 30, _FEWEST)}\nfraction = 0.0001",
            "JFT's design is 10 replicates of 0.0001. The simulator knows all its secrets, so here": "JFT's design",
            "every sentence is reviewed (a census). Without gold": "of the training sentences. Without gold",
            "expected_items = 1_000_000  ": f"expected_items = {seen.expected_items:_}".ljust(28),
            _BUILT_IN_EPOCHS: _epochs(seen),
            **dict.fromkeys(_OF_BUILT_IN, ""),
            'mode = "auto"  ': f'{_split_language(seen)}{_CUT_FIELDS}mode = "auto"  ',
        }
        for old, new in replaced.items():
            if old not in template:
                raise ConfigError(f"the starter template lacks {old!r}")
            template = template.replace(old, new)
        before, _, rest = template.partition("[corpus]\n")
        template = before + _corpus(shown, seen) + rest[rest.index("\n[split]") + 1 :]
    else:
        # One dialogue in ten has wordings that no policy was written for, so that the miss rate is not zero.
        unusual = dialogues // 10
        write_customersim(folder / "corpus" / "usual", dialogues - unusual, seed)
        if unusual:
            write_customersim(folder / "corpus" / "unusual", unusual, seed, template_set="B")
    path.write_text(printable(template), "utf-8")
    (folder / SCHEMA).write_text(schema_text(), "utf-8")
    return path


def _policies(seen: Survey) -> tuple[str, ...]:
    """Returns the default policies, and the policy that masks names of speakers if the files have such names."""
    return (*OWN_POLICIES, *(("speakers",) if any(kind.found.has_names for kind in seen.kinds) else ()))


def _split_language(seen: Survey) -> str:
    """Returns the line of ``[split]`` about the language, if it is not English."""
    return "" if seen.language == "en" else f"{_line('language', seen.language)}\n"


def schema_text() -> str:
    """Returns the JSON schema of settings files that the package ships."""
    return resources.files("flows.commands").joinpath(SCHEMA).read_text("utf-8")


def _absolute(name: str) -> str:
    return os.path.abspath(Path(name).expanduser())  # noqa: PTH100  (drops .., keeps links)


def _line(key: str, value: object, comment: str = "") -> str:
    text = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    return f"{text:<33} # {comment}" if comment else text


def _corpus(inputs: Sequence[str], seen: Survey) -> str:
    """Returns the table ``[corpus]``, with the findings as comments."""
    settings = seen.settings
    lines = ["[corpus]", *(f"# {line}" for line in seen.text().splitlines())]
    lines.append(_line("inputs", list(inputs)))
    lines.append(_line("format", settings.format, "docs/formats.md lists them; auto chooses by suffix"))
    lines += [_line(key, value) for key, value in settings.fields]
    comment = "documents in a partition, the unit of parallel and repeated work"
    lines.append(_line("partition_documents", seen.partition_documents, comment))
    comment = "stop if more rows than this cannot be used"
    if seen.max_rejected_fraction > MOST_REJECTED:
        comment += f"; raised from {MOST_REJECTED}, because these files have, or may have, more such rows"
    lines.append(_line("max_rejected_fraction", seen.max_rejected_fraction, comment))
    lines += [f"# {line}" if line else "" for line in _owners(seen)]
    for table in settings.tables:
        lines += ["", "[[corpus.source]]", _line("pattern", table.pattern), _line("format", table.format)]
        lines += [_line(key, value) for key, value in table.fields]
    for kind in seen.kinds:
        if kind.look.is_table:
            pattern = _line("pattern", by_name([file.name for file in kind.files])[0])
            lines += ["", "# To read it as well, name its text:", "# [[corpus.source]]", f"# {pattern}"]
            lines += ['# text_field = "…"']
    return "\n".join(lines) + "\n\n"


def _owners(seen: Survey) -> list[str]:
    """Returns lines that explain whose text it is, and settings for a person to choose; none if nothing tells."""
    found = seen.owner
    if found is None:
        return []
    owner_from, name, why = found
    return [
        "",
        "Whose text is it? A guarantee is about a record, and a person may have written many. If Reticent knows the",
        "owner of each document, it also tells the epsilon of a person, and no person is half in the held-out fold.",
        f"{why}. To use it, remove the marks (docs/corpora.md).",
        *([_SEVERAL] * seen.has_other_owners),
        _line("owner_from", owner_from),
        *([_line("owner_field", name)] if name else []),
        _line("owner_missing", "stop", "documents without an owner: stop, drop, or own (each is a person)"),
    ]


def _epochs(seen: Survey) -> str:
    """Returns the line ``epochs`` of ``[train]``."""
    few = f"fewer than {USUAL_EPOCHS}, because there is much text; more take longer, at the same epsilon"
    return f"{_line('epochs', seen.epochs, few if seen.epochs < USUAL_EPOCHS else '')}\n"


def _redact(seen: Survey) -> str:
    """Returns lines of ``[redact]``: about languages, and about dates and numbers."""
    comment = "each document is read with the model of its language, or masked whole without one"
    lines = [_line("language_of", "document", comment)]
    if seen.language != "en":
        model = installed_model(seen.language)
        if model is None:
            lines.append(f"# The model is not installed yet: {how_to_install(MODELS[seen.language])}")
        lines += [_line("language", seen.language), _line("model", model or MODELS[seen.language])]
    models = {code: model for code, model in seen.other_models.items() if model is not None}
    if models:
        lines.append(f"models = {{{', '.join(f'{code} = {json.dumps(model)}' for code, model in models.items())}}}")
    for code in sorted((seen.other_models.keys() - models.keys()) & MODELS.keys()):
        lines.append(f'# For {code}: {how_to_install(MODELS[code])}, then models = {{{code} = "{MODELS[code]}"}}')
    return "\n".join([*lines, _CAREFUL])
