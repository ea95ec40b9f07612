"""Guesses for `reticent init` which field of records holds the text, the id, the fold or the known secrets.

The guess uses field names and some values, and quotes no value.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.corpus.datasets import DIALOGUE_TAG
from pipelines.corpus.formats import FOLDS
from pipelines.corpus.gold import is_span
from pipelines.corpus.languages import has_grammar
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.owner_fields import owner_field
from pipelines.corpus.rows import END_OF_TEXT
from pipelines.corpus.speakers import ROLE

_MIN_TEXT_WORDS = 3.0
_LABEL_VALUES = 50
_TEXT_NAMES = (
    "text", "full_text", "body", "content", "message", "utterance", "transcript", "transcription", "sentence",
    "comment", "comments", "note", "notes", "review", "feedback", "remark", "question", "answer", "reply",
)  # fmt: skip
_MINOR = re.compile(
    r"titles?|subjects?|head(line|ing)s?|names?|descriptions?|summar(y|ies)|abstract|keywords?|tags?|topics?"
    r"|instructions?|prompts?|scenario|templates?|system|urls?|source|location",
    re.I,
)
"""Names of fields that describe the text, and are rarely the text itself."""
_CLOSE = 0.5
_LIST_WORDS = 3
_FEW_VALUES = 10
_ID_NAMES = ("id", "idx", "uuid", "guid", "key", "nr", "no", "number", "doc_id", "document_id", "message_id", "ticket")
_DIALOGUE_IDS = ("dialogue_id", "dialog_id", "conversation_id", "conversationid", "call_id", "session_id")

_FOLD_NAMES = ("fold", "split")
_GOLD_NAMES = ("spans", "entities", "gold", "annotations", "label", "labels")
_LISTED = re.compile(r"\[(['\"]).*\1(?:,.*)?\]", re.DOTALL)
"""A list as Python or JSON writes it."""
_DOMAINS = ("domain", "label")
_FORM = re.compile(
    r"name|phone|tel|mobile|fax|e-?mail|mail|address|street|city|date|subject|from|to|cc|id|no|dob", re.I
)


_Values = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A plausible reading of a file.

    Attributes:
        format: format that reads the file; None if there is none, or no field is clearly text
        fields: settings of ``[corpus]`` that differ from their defaults
        what: findings in words, without text of the file
        others: other plausible settings, in words
        score: confidence from 0 to 1
        doubts: reasons for which a person must confirm the reading
        warnings: problems that the user should look at
        is_table: flag that the file has columns or fields, but no column is clearly text
        nested: fields that hold lists of texts, perhaps turns, beside the text
        texts: texts at the beginning of a file of plain text
        owner: field that looks like the id of the person whose text it is; empty if none does
    """

    format: str | None
    fields: tuple[tuple[str, Any], ...] = ()
    what: str = ""
    others: tuple[str, ...] = ()
    score: float = field(default=0.9, compare=False)
    doubts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_table: bool = False
    nested: tuple[str, ...] = field(default=(), compare=False)
    texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    owner: str = field(default="", compare=False)

    @property
    def kind(self) -> tuple[str | None, tuple[tuple[str, Any], ...]]:
        """Format and settings."""
        return self.format, self.fields

    def with_fields(self, *more: tuple[str, Any]) -> Look:
        """Returns the look with further settings, if there is a format to read the file in."""
        return replace(self, fields=tuple(sorted((*self.fields, *more)))) if self.format else self


def choose_fields(form: str, rows: Sequence[Mapping[str, Any]]) -> list[Look]:
    """Guesses the roles of records' fields. Returns plausible readings, best first."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    kind = "fields" if form in ("jsonl", "json") else "columns"
    shown = f"{kind} {', '.join(name or '(no name)' for name in names)}"
    by_name = {name.lower(): name for name in reversed(names)}
    plain = _plain(form, rows, names, by_name, shown)
    if (special := _by_name(form, set(by_name))) is None:
        return plain
    known, title, readings = special
    owner = owner_field(rows)
    best = Look(format=known, what=f"{title}: {shown}", others=readings, score=0.95, owner=owner)
    return [best, *(_less(p, 0.4) for p in plain)]


def _less(look: Look, score: float) -> Look:
    return replace(look, score=min(look.score, score))


def _plain(
    form: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str], by_name: Mapping[str, str], shown: str
) -> list[Look]:
    """Returns readings of records with one field that holds the text."""
    values = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in names}
    listed = [name for name in names if _are_lists(values[name])]
    text, candidates, doubts = _text_field(names, by_name, {**values, **{name: [] for name in listed}})
    nested = [name for name in names if _holds_texts(values[name])]
    if text is None and listed:
        hint = f"{', '.join(listed)} holds lists of words in brackets. Write each list as one text, its words joined by"
        return [Look(format=None, what=f"{shown}; {hint} blanks, and read that", score=0.85, is_table=True)]
    if text is None:
        hint = f"; {', '.join(nested)} holds lists of texts" if nested else ""
        return [Look(format=None, what=f"{shown}: none is plainly text{hint}", score=0.5, is_table=True)]
    if nested:
        doubts.append(f"{', '.join(nested)} holds lists of texts, perhaps turns, which this reading leaves out")
    roles = _roles(text, by_name, values)
    domains, warnings = _domains({text, roles.get("gold_field")}, names, values)
    fields = {
        "text_field": text,
        **roles,
        **{f"{key}_field": "-" for key, described in domains.items() if described is None},
    }
    said = [f"text: {text}"]
    said += [f"{key.removesuffix('_field')}: {name}" for key, name in roles.items() if name != "-"]
    said += [described for described in domains.values() if described is not None]
    others = [f"text_field = {json.dumps(name)}" for name in candidates if name != text]
    owner = owner_field(rows, text)
    groups = [n for n in names if n not in (*fields.values(), *_DOMAINS, owner) and _is_category(values[n])]
    others += [f"domain_field = {json.dumps(name)} (its values would not be redacted)" for name in groups[:2]]
    others += ['quoting = "double"'] if form == "tsv" and _has_quotes(values) else []
    defaults = ReadOptions()
    look = Look(
        format=form,
        fields=tuple(sorted((key, value) for key, value in fields.items() if value != getattr(defaults, key))),
        what=f"{shown}; {', '.join(said)}",
        others=tuple(others),
        score=0.45 if nested else 0.8,
        doubts=tuple(doubts),
        warnings=tuple(warnings),
        nested=tuple(nested),
        owner=owner,
    )
    found = [look]
    if nested and _is_minor(text):
        hint = f"{', '.join(nested)} holds lists of texts; {text} describes them"
        found.insert(0, Look(format=None, what=f"{shown}: {hint}", score=0.5, doubts=(hint,)))
    texts = [v for v in values[text] if isinstance(v, str)]
    if form == "jsonl" and texts and sum(is_dialogue(t.split("\n")) for t in texts) >= 0.9 * len(texts):
        what = f"{look.what}, the texts are dialogues, lines SPEAKER: text"
        found.insert(0, replace(look, format="dialogue", what=what, score=0.8 if doubts else 0.9))
        found[1] = _less(look, 0.4)
    second = next((name for name in candidates if name != text and _is_prose(values[name])), None)
    if second is not None:
        other = tuple(sorted({**dict(look.fields), "text_field": second}.items()))
        kept = tuple((k, v) for k, v in other if v != getattr(defaults, k))
        found.append(replace(look, fields=kept, what=f"{shown}; text: {second}", others=(), score=0.35, doubts=()))
    return found


def _text_field(
    names: Sequence[str], by_name: Mapping[str, str], values: _Values
) -> tuple[str | None, Sequence[str], list[str]]:
    """Chooses the field that holds the text.

    The longest prose is the text, unless its name says that it describes the text (a title, a prompt).

    Returns:
        The field, or None. All candidates, best first. Reasons to ask.
    """
    words = {name: _words(found) for name, found in values.items()}
    prose = [name for name in names if _is_prose(values[name])]
    usual = [by_name[name] for name in _TEXT_NAMES if name in by_name]
    named = [name for name in usual if words[name] > 0]

    def rank(name: str) -> tuple[bool, float]:
        return not _is_minor(name), words[name] * (2 if name in usual else 1)

    ranked = sorted(prose, key=rank, reverse=True)
    text = next(iter(ranked), None)
    text = text or next((name for name in named if words[name] >= _MIN_TEXT_WORDS), None) or next(iter(named), None)
    candidates = list(dict.fromkeys([*ranked, *named]))
    if text is None:
        return None, candidates, []
    rivals = [name for name in ranked if name != text]
    longer = [name for name in rivals if words[name] > words[text]]
    close = [name for name in rivals if name not in longer and words[name] >= _CLOSE * words[text]]
    doubts = []
    if longer:
        shown = ", ".join(f"{name} ({words[name]:,.0f} words)" for name in longer)
        doubts.append(f"{shown} is longer than {text} ({words[text]:,.0f} words)")
    if close := [name for name in close if not _is_minor(name) or _is_minor(text)]:
        doubts.append(f"{', '.join(close)} could be the text as well as {text}")
    if _is_minor(text) and not longer:
        doubts.append(f"the name {text} says that it describes a text, but no other field is prose")
    if _repeats(values[text]):
        doubts.append(f"most values of {text} repeat, as instructions and templates do")
    return text, candidates, doubts


def _is_minor(name: str) -> bool:
    return any(_MINOR.fullmatch(word) for word in re.split(r"[^a-zA-Z]+|(?<=[a-z])(?=[A-Z])", name) if word)


def _repeats(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return len(texts) >= _FEW_VALUES and len(set(texts)) < len(texts) / 2


def _are_lists(values: Sequence[Any]) -> bool:
    """Checks if texts are lists of words, as Python and JSON write them."""
    found = [value.strip() for value in values if isinstance(value, str)]
    return bool(found) and 10 * sum(_LISTED.fullmatch(value) is not None for value in found) > 9 * len(values)


def _holds_texts(values: Sequence[Any]) -> bool:
    """Checks if most values are lists, or texts of JSON lists, of objects or texts with several words."""
    lists = [value for value in values if isinstance(value, list) and value]
    if not lists or 2 * len(lists) < len(values):
        return False
    parts = [part for value in lists for part in value[:20]]
    found = [v for part in parts for v in (part.values() if isinstance(part, dict) else [part])]
    texts = [v for v in found if isinstance(v, str)]
    return sum(len(text.split()) >= _LIST_WORDS for text in texts) >= 0.4 * len(parts) and has_grammar(texts)


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


def _domains(
    taken: Collection[str | None], names: Sequence[str], values: _Values
) -> tuple[dict[str, str | None], list[str]]:
    """Describes the fields domain and label. None for a field with many or long values, which must not be read."""
    found: dict[str, str | None] = {}
    warnings = []
    for key in (key for key in _DOMAINS if key in names and key not in taken):
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
        return isinstance(value, list) and all(map(is_span, value))

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
