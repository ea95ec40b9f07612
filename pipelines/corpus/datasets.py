"""Turns rows of known corpora into documents.

Each function takes one row and returns its documents. An unusable row raises `BadRow`. An unusable line of a
conversation becomes a `Rejected` in addition to the document of the other lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pipelines.corpus.chatgpt_export import chatgpt
from pipelines.corpus.dialogues import Items
from pipelines.corpus.diarised import diarised
from pipelines.corpus.gold import TAG, places_of, tagged
from pipelines.corpus.instructions import instructions
from pipelines.corpus.items import BadRow, Document, GoldSpan, Reason
from pipelines.corpus.records import PAIR, Record, Source, document, named, plain, rejected, value_at
from pipelines.corpus.rows import END_OF_TEXT
from pipelines.corpus.turns import turns

_JOINERS = re.compile(r" @([-,.])@ ")
_BREAKS = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
DIALOGUE_TAG = re.compile(r"([A-Z][A-Za-z0-9_ ]{0,15}):[ \t]*")
"""Speaker at the start of a line. The blank behind the colon may be missing."""

_WORD = re.compile(r"\S+")
_LINE_NUMBER = re.compile(r"([0-9]+) (.*)", re.DOTALL)
_PERSONAS = {"your persona: ": "PERSONA", "partner's persona: ": "PARTNER_PERSONA"}
_ROLES = {"agent": "SYS", "customer": "USR"}

_MEANINGS = ("mr", "meaning_representation")
_REFERENCES = ("ref", "human_reference", "target")
_TOKENISED = ("ref_tokenised",)
_FIELD = re.compile(r"\s*([^\[\],]+)\[([^\]]*)\]\s*(?:,|$)")
# Names in table 11 of Li et al. (2022).
_KEYS = {"eatType": "Type", "priceRange": "price", "familyFriendly": "family friendly"}
_BLANKS = (
    (re.compile(r" ([.,!?;:%)\]])"), r"\1"),
    (re.compile(r"([(\[£$]) "), r"\1"),
    (re.compile(r" ('s|'re|'ve|'ll|'d|'m|n't)\b"), r"\1"),
    (re.compile(r"(\w) - (\w)"), r"\1-\2"),
)
_GLUE_PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("#1 String", "#2 String"),
    ("a", "b"),
)
_GLUE_SINGLE = ("sentence", "content", "text", "a")
_GLUE_LABELS = ("label", "gold_label", "is_duplicate", "Quality", "score")
_GLUE_IDS = ("idx", "index", "pairID", "id")


def wikitext(source: Source, text: str) -> Items:
    """Reads an article. Titles and headings are separate lines, with their signs."""
    if source.options.wikitext_joiners == "undo":
        text = _JOINERS.sub(r"\1", text)
    return [document(source, text, {})]


def dialogue(source: Source, text: str) -> Items:
    """Reads lines ``SPEAKER: utterance`` and skips blank lines. The blank after the colon may be missing."""
    lines: list[str] = []
    if text.strip() == END_OF_TEXT.decode():
        return []  # only the end mark of the last dialogue
    for line in _BREAKS.split(text.removeprefix(END_OF_TEXT.decode())):
        line = line.strip()
        if line:
            tag = DIALOGUE_TAG.match(line)
            lines.append(f"{tag[1]}: {line[tag.end() :]}" if tag else line)
    if lines and not any(DIALOGUE_TAG.match(line) for line in lines):
        raise BadRow("no_turns", 'no line starts with "SPEAKER:". Set corpus.format = "txt" for plain text.')
    return [document(source, "\n".join(lines), {}, layout="turns")]


def multidogo(source: Source, text: str, header: Sequence[str]) -> Items:
    """Reads one conversation with one turn per line, and gold spans if the file labels slots.

    The domain is the file's folder. Only files that name the author's role have both speakers.
    """
    items: Items = []
    turns: list[str] = []
    gold: list[GoldSpan] = []
    num_chars = 0
    conversation: str | None = None
    if "utterance" not in header:
        raise BadRow("missing_text", "the first line of the file names no column utterance.")
    for number, line in enumerate(text.split("\n"), start=1):
        cells = line.removesuffix("\r").split("\t")
        if cells == [""]:
            continue
        record = dict(zip(header, cells, strict=False))
        utterance = _BREAKS.sub(" ", record.get("utterance", "")).strip()
        labels = record.get("slot-labels", "").split()
        words = list(_WORD.finditer(utterance))
        problem: tuple[Reason, str] | None = None
        if len(cells) != len(header):
            problem = ("bad_columns", f"has {len(cells)} columns, not {len(header)}: an utterance with a line break?")
        elif not utterance:
            problem = ("empty", "the utterance is empty.")
        elif "slot-labels" in header and len(labels) != len(words):
            problem = ("bad_spans", "has another number of slot labels than of words.")
        if problem is not None:
            reason, detail = problem
            items.append(rejected(source, reason, f"line {number} of the conversation {detail}", _size(line)))
            continue
        conversation = conversation or record.get("conversationId")
        turn = f"{_ROLES.get(record.get('authorRole', 'customer'), 'USR')}: "
        start = num_chars + len(turn)
        gold += [GoldSpan(start + low, start + high, label) for low, high, label in _slots(words, labels)]
        turns.append(turn + utterance)
        num_chars += len(turns[-1]) + 1
    if turns:
        parent = PurePosixPath(source.name).parent.name
        spans = tuple(gold) if "slot-labels" in header else None
        made = document(
            source,
            "\n".join(turns),
            {},
            source_id=conversation,
            domain=parent or None,
            gold=spans,
            num_rows=len(turns),
            layout="turns",
        )
        items.insert(0, made)
    return items


def _size(line: str) -> int:
    return len(line.encode("utf-8"))


def _slots(words: Sequence[re.Match[str]], labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Joins neighbouring words of one label to one slot."""
    slots: list[tuple[int, int, str]] = []
    before = "O"
    for word, label in zip(words, labels, strict=False):
        if label != "O":
            if label == before:
                slots[-1] = (slots[-1][0], word.end(), label)
            else:
                slots.append((word.start(), word.end(), label))
        before = label
    return slots


def conll(source: Source, text: str) -> Items:
    """Reads one text of a token file. The first column is the token, the last its tag. Entities are known secrets."""
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith("-DOCSTART-"):
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        tag = TAG.fullmatch(cells[-1])
        if len(cells) < 2 or tag is None or (tag[1] == "O") != (tag[2] is None) or not cells[0].strip():
            raise BadRow("bad_columns", f"line {number} of the text is not a token with a tag (O, B-PER, I-PER, …).")
        words.append(_BREAKS.sub(" ", cells[0]).strip())
        tags.append(cells[-1])
    gold = tuple(GoldSpan(*span) for span in tagged(places_of(words), tags))
    return [document(source, " ".join(words), {}, gold=gold)] if words else []


def personachat(source: Source, text: str) -> Items:
    """Reads one episode of ParlAI's text format: persona lines, then utterance and reply, separated by tabs."""
    items: Items = []
    turns: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        match = _LINE_NUMBER.fullmatch(line.removesuffix("\r"))
        if match is None:
            detail = f"line {number} of the episode has no number. A line starts with its number and a blank."
            items.append(rejected(source, "bad_columns", detail, _size(line)))
            continue
        persona = next((start for start in _PERSONAS if match[2].startswith(start)), None)
        if persona is not None:
            lines = [(_PERSONAS[persona], match[2][len(persona) :])]
        else:
            lines = list(zip(("PARTNER", "SELF"), match[2].split("\t"), strict=False))
        for speaker, utterance in lines:
            utterance = _BREAKS.sub(" ", utterance).strip()
            if utterance and utterance != "__SILENCE__":
                turns.append(f"{speaker}: {utterance}")
    if turns:
        items.insert(0, document(source, "\n".join(turns), {}, layout="turns"))
    return items


def e2e(source: Source, record: Record) -> Items:
    """Reads a table and its reference as one row. A tokenised pair is detokenised.

    The table is written out here and not in training. So redaction masks the table's values and not their brackets, and
    redacted and original rows have the same form.
    """
    meaning, reference, tokenised = (named(record, names) for names in (_MEANINGS, _REFERENCES, _TOKENISED))
    if reference is None and tokenised is not None and meaning is not None:
        meaning, reference = _detokenised(meaning), _detokenised(tokenised)
    if meaning is None or reference is None:
        raise BadRow("missing_text", "has no columns mr and ref.")
    return [_pair(source, linearise(meaning), reference, record)]


def parse_e2e(meaning: str) -> tuple[tuple[str, str], ...] | None:
    """Parses a meaning representation such as ``name[The Mill], area[riverside]`` into keys and values, or None."""
    pairs, at = [], 0
    while at < len(meaning.rstrip()):
        field = _FIELD.match(meaning, at)
        if field is None:
            return None
        key = field[1].strip()
        pairs.append((_KEYS.get(key, key), field[2].strip()))
        at = field.end()
    return tuple(pairs) or None


def linearise(meaning: str) -> str:
    """Writes one line ``name : The Mill | Type : pub``, as in Li et al. (2022), table 11. Other text stays as it is."""
    pairs = parse_e2e(meaning)
    return meaning if pairs is None else _one_line(pairs)


def _one_line(table: Iterable[Sequence[str]]) -> str:
    return " | ".join(" : ".join(parts) for parts in table)


def _detokenised(text: str) -> str:
    """Removes the blanks that a tokenizer put around punctuation, by a heuristic that is good enough for training."""
    for pattern, replacement in _BLANKS:
        text = pattern.sub(replacement, text)
    return text.strip()


def dart(source: Source, record: Record) -> Items:
    """Reads triples and their references, with one row per reference."""
    triples, annotations = record.get("tripleset"), record.get("annotations")
    if isinstance(annotations, Mapping):  # one list per field, as the `datasets` library stores it
        texts = annotations.get("text")
        annotations = [{"text": text} for text in texts] if isinstance(texts, list) else None
    is_usable = (
        isinstance(triples, list)
        and all(isinstance(t, list) and all(isinstance(part, str) for part in t) for t in triples)
        and isinstance(annotations, list)
        and all(isinstance(a, Mapping) and isinstance(a.get("text"), str) for a in annotations)
    )
    if not is_usable or not triples or not annotations:
        raise BadRow("missing_text", "has no tripleset with annotations.")
    meaning = _one_line(triples)
    return [
        _pair(source, meaning, annotation["text"], record, source_id=f"{source.row}.{number}")
        for number, annotation in enumerate(annotations, start=1)
    ]


def _pair(source: Source, first: str, second: str, record: Record, source_id: str | None = None) -> Document:
    if not second.strip():
        raise BadRow("empty", "the second text is empty.")
    text = _BREAKS.sub(" ", first).strip() + PAIR + _BREAKS.sub(" ", second).strip()
    return document(source, text, record, source_id=source_id, layout="whole")


def glue(source: Source, record: Record) -> Items:
    """Reads one sentence, or two to compare, with a label, by the column names of the nine tasks."""
    options = source.options
    mapped: dict[str, Any] = {
        options.id_field: record.get(options.id_field) or named(record, _GLUE_IDS),
        options.label_field: named(record, (options.label_field, *_GLUE_LABELS)),
        options.fold_field: record.get(options.fold_field),
        options.domain_field: record.get(options.domain_field),
    }
    if options.owner_from == "field":
        mapped[options.owner_field] = value_at(record, options.owner_field)
    for first, second in _GLUE_PAIRS:
        one, two = named(record, (first,)), named(record, (second,))
        if one is not None and two is not None:
            return [_pair(source, one, two, mapped)]
    single = named(record, _GLUE_SINGLE)
    if single is None:
        raise BadRow("missing_text", "has none of the columns of a GLUE task (sentence; sentence1 and sentence2; …).")
    return [document(source, _BREAKS.sub(" ", single).strip(), mapped, layout="whole")]


def stackexchange(source: Source, text: str) -> Items:
    """Reads a post or a comment of Stack Exchange; see `pipelines.corpus.xml_dumps.posts`."""
    from pipelines.corpus.xml_dumps import posts

    return posts(source, text)


def mediawiki(source: Source, text: str) -> Items:
    """Reads a page of a dump of Wikipedia; see `pipelines.corpus.xml_dumps.wiki_pages`."""
    from pipelines.corpus.xml_dumps import wiki_pages

    return wiki_pages(source, text)


TEXTS: Mapping[str, Callable[[Source, str], Items]] = {
    "article": wikitext,
    "dialogue": dialogue,
    "episode": personachat,
    "post": stackexchange,
    "page": mediawiki,
}
"""Functions for rows that are texts, by row kind. A conversation needs the table's header too."""


def _plain(source: Source, record: Record) -> Items:
    return [*plain(source, record)]


RECORDS: Mapping[str, Callable[[Source, Record], Items]] = {
    "e2e": e2e,
    "dart": dart,
    "glue": glue,
    "messages": turns,
    "sharegpt": turns,
    "turns": turns,
    "chatgpt": chatgpt,
    "instructions": instructions,
    "diarised": diarised,
}
"""Functions for records by format. Every other format reads the mapped columns."""


def from_record(source: Source, record: Record) -> Items:
    """Returns the documents of a record. Raises `BadRow`."""
    return RECORDS.get(source.format, _plain)(source, record)
