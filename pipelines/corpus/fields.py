"""Guesses for `reticent init` which field of records holds the text, the id, the fold or the known secrets.

The guess uses field names and some values, and quotes no value.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.corpus.datasets import DIALOGUE_TAG
from pipelines.corpus.formats import FOLDS
from pipelines.corpus.languages import has_grammar
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.rows import END_OF_TEXT
from pipelines.corpus.speakers import ROLE

_MIN_TEXT_WORDS = 3.0
_LABEL_VALUES = 50
_TEXT_NAMES = (
    "text", "full_text", "body", "content", "message", "utterance", "transcript", "sentence", "comment", "comments",
    "note", "notes", "description", "review", "feedback", "remark", "question", "answer", "reply", "summary",
    "subject", "title",
)  # fmt: skip
_ID_NAMES = ("id", "idx", "uuid", "guid", "key", "nr", "no", "number", "doc_id", "document_id", "message_id", "ticket")
_DIALOGUE_IDS = ("dialogue_id", "dialog_id", "conversation_id", "conversationid", "call_id", "session_id")

_FOLD_NAMES = ("fold", "split")
_GOLD_NAMES = ("spans", "entities", "gold")
_DOMAINS = ("domain", "label")
_FORM = re.compile(
    r"name|phone|tel|mobile|fax|e-?mail|mail|address|street|city|date|subject|from|to|cc|id|no|dob", re.I
)


_Values = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The guessed form of a file.

    Attributes:
        format: format that reads the file; None if there is none, or no field is clearly text
        fields: settings of ``[corpus]`` that differ from their defaults
        what: findings in words, without text of the file
        others: other plausible readings, in words
        texts: texts of some documents
        num_bytes: size of the part of the file that holds these texts
        warnings: problems that the user should look at
    """

    format: str | None
    fields: tuple[tuple[str, str], ...] = ()
    what: str = ""
    others: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    num_bytes: int = field(default=0, compare=False)
    warnings: tuple[str, ...] = ()


def choose_fields(form: str, rows: Sequence[Mapping[str, Any]], num_bytes: int) -> Look:
    """Guesses the roles of records' fields, trying the settings' default names first.

    Args:
        form: format by the file's suffix
        rows: some records
        num_bytes: size of these records
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    kind = "fields" if form in ("jsonl", "json") else "columns"
    shown = f"{kind} {', '.join(name or '(no name)' for name in names)}"
    by_name = {name.lower(): name for name in reversed(names)}
    if (special := _by_name(form, set(by_name))) is not None:
        known, title, readings = special
        texts = _texts_of(known, rows, names, by_name)
        return Look(format=known, what=f"{title}: {shown}", others=readings, texts=texts, num_bytes=num_bytes)
    values = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in names}
    text, candidates = _text_field(names, by_name, values)
    if text is None:
        return Look(format=None, what=f"{shown}: none is plainly text")
    roles = _roles(text, by_name, values)
    domains, warnings = _domains(text, names, values)
    fields = {
        "text_field": text,
        **roles,
        **{f"{key}_field": "-" for key, described in domains.items() if described is None},
    }
    said = [f"text: {text}"]
    said += [f"{key.removesuffix('_field')}: {name}" for key, name in roles.items() if name != "-"]
    said += [described for described in domains.values() if described is not None]
    others = [f"text_field = {json.dumps(name)}" for name in candidates if name != text]
    groups = [n for n in names if n not in fields.values() and n not in _DOMAINS and _is_category(values[n])]
    others += [f"domain_field = {json.dumps(name)} (its values would not be redacted)" for name in groups[:2]]
    texts = tuple(v for v in values[text] if isinstance(v, str))
    if form == "jsonl" and texts and sum(is_dialogue(t.split("\n")) for t in texts) >= 0.9 * len(texts):
        form, said = "dialogue", [*said, "the texts are dialogues, lines SPEAKER: text"]
        others.append('format = "jsonl"')
    others += ['quoting = "double"'] if form == "tsv" and _has_quotes(values) else []
    defaults = ReadOptions()
    return Look(
        format=form,
        fields=tuple(sorted((key, value) for key, value in fields.items() if value != getattr(defaults, key))),
        what=f"{shown}; {', '.join(said)}",
        others=tuple(others),
        texts=texts,
        num_bytes=num_bytes,
        warnings=tuple(warnings),
    )


def _texts_of(
    format: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str], by_name: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns the texts of a known corpus, with the turns of a conversation joined."""
    longest = max(names, key=lambda name: _words([row.get(name) for row in rows if row.get(name)]))
    texts = tuple(str(row.get(by_name.get("utterance", longest)) or "") for row in rows)
    if format != "multidogo":
        return texts
    turns: dict[str, list[str]] = {}
    for row, turn in zip(rows, texts, strict=True):
        turns.setdefault(str(row[by_name["conversationid"]]), []).append(turn)
    return tuple(" ".join(found) for found in turns.values())


def _text_field(names: Sequence[str], by_name: Mapping[str, str], values: _Values) -> tuple[str | None, Sequence[str]]:
    """Chooses the field that holds the text, and returns all candidates too, those with usual names first."""
    scores = {name: _words(found) for name, found in values.items()}
    prose = [name for name in names if _is_prose(values[name])]
    named = [by_name[name] for name in _TEXT_NAMES if name in by_name and scores[by_name[name]] > 0]
    ranked = sorted(prose, key=lambda name: -scores[name])
    text = next((name for name in named if name in prose or scores[name] >= _MIN_TEXT_WORDS), None)
    text = text or next(iter(ranked), None) or next(iter(named), None)
    return text, list(dict.fromkeys([*named, *ranked]))


def _roles(text: str, by_name: Mapping[str, str], values: _Values) -> dict[str, str]:
    """Chooses the fields of id, fold and known secrets. "-" if a column with the default name holds something else."""
    ids = (*_ID_NAMES, *(name for name in by_name if name.endswith(("_id", "-id", " id"))))
    fields: dict[str, str] = {}
    for key, usual, fits in (
        ("id_field", ids, _is_id),
        ("fold_field", _FOLD_NAMES, _is_fold),
        ("gold_field", _GOLD_NAMES, _is_gold),
    ):
        present = (by_name[name] for name in usual if name in by_name and by_name[name] != text)
        found = next((name for name in present if fits(values[name])), None)
        if found is not None:
            fields[key] = found
        elif key.removesuffix("_field") in values or (key == "gold_field" and "spans" in values):
            fields[key] = "-"
    return fields


def _domains(text: str, names: Sequence[str], values: _Values) -> tuple[dict[str, str | None], list[str]]:
    """Describes the fields domain and label. None for a field with many or long values, which must not be read."""
    found: dict[str, str | None] = {}
    warnings = []
    for key in (key for key in _DOMAINS if key in names and key != text):
        distinct = {str(value) for value in values[key]}
        if len(distinct) <= _LABEL_VALUES and all(len(value) <= 40 for value in distinct):
            found[key] = f"{key}: {key} ({len(distinct)} values)"
            warnings.append(f"column {key}: its values are never redacted and may be public; check that none is a name")
        else:
            found[key] = None
            warnings.append(f"column {key} has many or long values, is never redacted, and is therefore not read")
    return found, warnings


def _by_name(form: str, names: set[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Recognises a corpus by its columns. Returns its format, a description and other plausible readings."""
    if form in ("csv", "tsv", "jsonl") and names & {"mr", "meaning_representation"} and names & {
        "ref", "human_reference", "target", "ref_tokenised",
    }:  # fmt: skip
        return "e2e", "tables and their references (E2E)", (f'format = "{form}" with text_field = the reference',)
    if form in ("json", "jsonl") and {"tripleset", "annotations"} <= names:
        return "dart", "triples and their references (DART)", ()
    if form == "tsv" and {"conversationid", "turnnumber", "utterance"} <= names:
        return "multidogo", "conversations, a turn a line (MultiDoGO)", ()
    is_pair = (
        {"sentence1", "sentence2"} <= names or {"question1", "question2"} <= names or {"premise", "hypothesis"} <= names
    )
    if form in ("csv", "tsv", "jsonl") and (is_pair or {"sentence", "label"} <= names):
        return (
            "glue",
            "sentences with a label (GLUE)",
            (f'format = "{form}" with text_field = "sentence"',) * (not is_pair),
        )
    return None


def _words(values: Sequence[Any]) -> float:
    """Returns the mean number of words, or 0 if the values are not text."""
    texts = [value for value in values if isinstance(value, str)]
    if 2 * len(texts) < len(values) or not texts:
        return 0.0
    return sum(len(text.split()) for text in texts) / len(texts)


def _is_prose(values: Sequence[Any]) -> bool:
    return _words(values) >= _MIN_TEXT_WORDS and has_grammar(v for v in values if isinstance(v, str))


def _is_id(values: Sequence[Any]) -> bool:
    plain = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool) and len(str(v)) <= 200]
    return bool(plain) and len(plain) == len(values) and len(set(map(str, plain))) >= 0.99 * len(plain)


def _is_fold(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(v, str) and v in FOLDS for v in values)


def _is_gold(values: Sequence[Any]) -> bool:
    def spans(value: Any) -> bool:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return False
        return isinstance(value, list) and all(
            isinstance(v, dict) and {"start", "start_position"} & v.keys() and {"label", "entity_type"} & v.keys()
            for v in value
        )

    return bool(values) and all(map(spans, values))


def _is_category(values: Sequence[Any]) -> bool:
    distinct = {v for v in values if isinstance(v, str)}
    return len(values) >= 20 and 2 <= len(distinct) <= min(20, len(values) // 5) and all(len(v) <= 40 for v in distinct)


def _has_quotes(values: _Values) -> bool:
    cells = [v for found in values.values() for v in found if isinstance(v, str)]
    return bool(cells) and sum(len(v) > 1 and v[0] == v[-1] == '"' for v in cells) > 0.05 * len(cells)


def is_dialogue(lines: Sequence[str]) -> bool:
    """Checks if nearly all lines that are not blank name a speaker, as in a dialogue and not as in a form."""
    end = END_OF_TEXT.decode()
    visible = [line.strip() for line in (line.removeprefix(end) for line in lines) if line.strip()]
    tags = [match[1] for match in map(DIALOGUE_TAG.match, visible) if match]
    if len(visible) < 2 or len(tags) < 0.9 * len(visible):
        return False
    counts = Counter(tags)
    if sum(number for tag, number in counts.items() if ROLE.fullmatch(tag)) >= 0.5 * len(tags):
        return True
    is_form = any(_FORM.fullmatch(tag.split()[-1]) for tag in counts)
    return not is_form and 2 <= len(counts) <= 8 and all(number > 1 for number in counts.values())


def fields_around(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Guesses the fields of id and fold of records that hold a dialogue. "-" for a field that must not be read."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in names}
    by_name = {name.lower(): name for name in reversed(names)}
    found = {key: name for key, name in _roles("", by_name, values).items() if key != "gold_field"}
    for key in (key for key in _DOMAINS if key in names):
        plain = all(isinstance(v, str | int | float) and len(str(v)) <= 40 for v in values[key])
        if not plain or len(set(map(str, values[key]))) > _LABEL_VALUES:
            found[f"{key}_field"] = "-"
    own = [by_name[name] for name in _DIALOGUE_IDS if name in by_name and _is_id(values[by_name[name]])]
    if own and found.get("id_field", "-") != "id":
        found["id_field"] = own[0]
    defaults = ReadOptions()
    return {key: name for key, name in found.items() if name != getattr(defaults, key)}
