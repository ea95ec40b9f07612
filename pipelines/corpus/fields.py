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

_MIN_TEXT_WORDS = 3.0
_LABEL_VALUES = 50
_TEXT_NAMES = (
    "text", "full_text", "body", "content", "message", "utterance", "transcript", "sentence", "comment", "comments",
    "note", "notes", "description", "review", "feedback", "remark", "question", "answer", "reply", "summary",
    "subject", "title",
)  # fmt: skip
_ID_NAMES = ("id", "idx", "uuid", "guid", "key", "nr", "no", "number", "doc_id", "document_id", "message_id", "ticket")
_FOLD_NAMES = ("fold", "split")
_GOLD_NAMES = ("spans", "entities", "gold")
_FORM = re.compile(
    r"name|phone|tel|mobile|fax|e-?mail|mail|address|street|city|date|subject|from|to|cc|id|no|dob", re.I
)


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


def choose_fields(form: str, rows: Sequence[Mapping[str, Any]], num_bytes: int, is_part: bool) -> Look:
    """Guesses the roles of records' fields, trying the settings' default names first.

    Args:
        form: format by the file's suffix
        rows: some records
        num_bytes: size of these records
        is_part: true if there are more records
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = (
        f"{'columns' if form not in ('jsonl', 'json') else 'fields'} {', '.join(name or '(no name)' for name in names)}"
    )
    by_name = {name.lower(): name for name in reversed(names)}
    special = _by_name(form, set(by_name))
    if special is not None:
        longest = max(names, key=lambda name: _words([row.get(name) for row in rows if row.get(name)]))
        texts = tuple(str(row.get(by_name.get("utterance", longest)) or "") for row in rows)
        if special[0] == "multidogo":
            turns: dict[str, list[str]] = {}
            for row, turn in zip(rows, texts, strict=True):
                turns.setdefault(str(row[by_name["conversationid"]]), []).append(turn)
            texts = tuple(" ".join(found) for found in turns.values())
        return Look(
            format=special[0], what=f"{special[1]}: {shown}", others=special[2], texts=texts, num_bytes=num_bytes
        )
    values = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in names}
    scores = {name: _words(found) for name, found in values.items()}
    prose = {name for name in names if _is_prose(values[name])}
    named = [by_name[name] for name in _TEXT_NAMES if name in by_name and scores[by_name[name]] > 0]
    ranked = sorted(prose, key=lambda name: -scores[name])
    text = next((name for name in named if name in prose or scores[name] >= _MIN_TEXT_WORDS), None)
    text = text or next(iter(ranked), None) or (named[0] if named else None)
    if text is None:
        return Look(format=None, what=f"{shown}: none is plainly text")
    fields = {"text_field": text}
    said = [f"text: {text}"]
    others = [f"text_field = {json.dumps(name)}" for name in dict.fromkeys([*named, *ranked]) if name != text]
    for key, names_of, fits in (
        ("id_field", (*_ID_NAMES, *(name for name in by_name if name.endswith(("_id", "-id", " id")))), _is_id),
        ("fold_field", _FOLD_NAMES, _is_fold),
        ("gold_field", _GOLD_NAMES, _is_gold),
    ):
        found = next(
            (by_name[n] for n in names_of if n in by_name and by_name[n] != text and fits(values[by_name[n]])), None
        )
        if found is not None:
            fields[key] = found
            said.append(f"{key.removesuffix('_field')}: {found}")
        elif key.removesuffix("_field") in names or (key == "gold_field" and "spans" in names):
            fields[key] = "-"  # the column of that name holds something else
    warnings = []
    for key in ("domain", "label"):
        if key in names and key != text:
            distinct = {str(value) for value in values[key]}
            if len(distinct) <= _LABEL_VALUES and all(len(value) <= 40 for value in distinct):
                said.append(f"{key}: {key} ({len(distinct)} values)")
                warnings.append(
                    f"column {key}: its values are never redacted and may be public; check that none is a name"
                )
            else:
                fields[f"{key}_field"] = "-"
                warnings.append(f"column {key} has many or long values, is never redacted, and is therefore not read")
    groups = [n for n in names if n not in fields.values() and n not in ("domain", "label") and _is_category(values[n])]
    others += [f"domain_field = {json.dumps(name)} (its values would not be redacted)" for name in groups[:2]]
    texts = tuple(v for v in values[text] if isinstance(v, str))
    if form == "jsonl" and texts and sum(map(_is_dialogue_text, texts)) >= 0.9 * len(texts):
        form, said = "dialogue", [*said, "the texts are dialogues, lines SPEAKER: text"]
        others.append('format = "jsonl"')
    defaults = ReadOptions()
    given = tuple(sorted((key, value) for key, value in fields.items() if value != getattr(defaults, key)))
    others += ['quoting = "double"'] if form == "tsv" and _has_quotes(values) else []
    return Look(
        format=form,
        fields=given,
        what=f"{shown}; {', '.join(said)}",
        others=tuple(others),
        texts=texts,
        num_bytes=num_bytes,
        warnings=tuple(warnings),
    )


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


def _has_quotes(values: Mapping[str, Sequence[Any]]) -> bool:
    cells = [v for found in values.values() for v in found if isinstance(v, str)]
    return bool(cells) and sum(len(v) > 1 and v[0] == v[-1] == '"' for v in cells) > 0.05 * len(cells)


def _is_dialogue_text(text: str) -> bool:
    return is_dialogue(text.split("\n"))


def is_dialogue(lines: Sequence[str]) -> bool:
    """Checks if nearly all lines that are not blank name a speaker, as in a dialogue and not as in a form."""
    from pipelines.corpus.split import ROLE

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
