"""Surveys input files for `reticent init`, and finds settings that fit them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.corpus.detect_format import look, units_of
from pipelines.corpus.fields import Look
from pipelines.corpus.formats import AUTO, compression_of, format_spec, suffix_of
from pipelines.corpus.languages import language_of
from pipelines.corpus.listing import InputFile, left_out_text, list_files
from pipelines.corpus.options import SourceOptions
from pipelines.errors import InputError

_EVERYTHING = (SourceOptions(pattern="*", format="txt"),)
_LOOKED_AT = 40
_NAMED = 20
_LARGE_TXT_BYTES = 1_000_000
_FEW_FILES = 50
_LINES_A_PARAGRAPH = 50
_SAMPLED_TEXTS = 500
_PARTITION_WORDS = 150_000
_LEAST_SHARE = 0.005
"""Share of documents below which a language counts as a mistake, because short texts are often misjudged."""
_STEPS = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
_WORDS_A_SENTENCE = 12
USUAL_EPOCHS = 8
_TRAINED_WORDS = 6_000_000
"""Words, over all epochs, that the tiny model reads in a quarter of an hour on two cores."""
_IN_FOLDERS = ("txt", "jsonl", "parquet", "huggingface")
"""Formats that ``auto`` looks for in a folder."""

_NAMES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "nl": "Dutch"}


@dataclass(frozen=True, kw_only=True)
class Group:
    """Files of one suffix and one form.

    Attributes:
        look: format and findings that they share
        suffix: suffix of the files
        num_files, num_bytes: number of the files, and their total size
        patterns: patterns that match these files and no others
        is_source: flag that a table ``[[corpus.source]]`` describes them
        texts: texts of some of their documents
        num_text_bytes: size of these texts in the files
    """

    look: Look
    suffix: str
    num_files: int
    num_bytes: int
    patterns: tuple[str, ...]
    is_source: bool = False
    texts: tuple[str, ...] = field(default=(), repr=False)
    num_text_bytes: int = 0

    @property
    def is_table(self) -> bool:
        """Checks if the files have columns or fields, but no column is clearly text."""
        return self.suffix in (".csv", ".tsv", ".jsonl", ".json", ".parquet") and "none is plainly" in self.look.what

    @property
    def num_documents(self) -> int:
        """Approximate number of documents."""
        return max(1, round(len(self.texts) * self.num_bytes / max(1, self.num_text_bytes))) if self.texts else 0

    def text(self) -> str:
        """Formats the group in one line, with more lines for other readings and warnings."""
        files = f"{self.num_files:,} {self.suffix or 'file'}{'' if self.suffix or self.num_files == 1 else 's'}"
        read = self.look.format or "NOT READ"
        lines = [f"{files} ({_bytes(self.num_bytes)}): {read}: {self.look.what}"]
        if self.look.others:
            lines.append(f"   could also be: {'; '.join(self.look.others)}")
        lines += [f"   look at this: {warning}" for warning in self.look.warnings]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The findings of a survey.

    Attributes:
        groups: groups of files, readable ones first
        format, fields: settings of the table ``[corpus]``
        languages: number of sampled documents by language; None for documents that are too short
        num_documents, num_words: approximate numbers
        left_out: files that were not looked at, by suffix or reason
        warnings: problems to look at
    """

    groups: tuple[Group, ...]
    format: str
    fields: tuple[tuple[str, str], ...]
    languages: Counter[str | None]
    num_documents: int
    num_words: int
    left_out: Counter[str]
    warnings: tuple[str, ...]

    @property
    def has_other_languages(self) -> bool:
        """Checks if some documents are not in English."""
        least = _LEAST_SHARE * self.languages.total()
        return any(code not in (None, "en") and number >= least for code, number in self.languages.items())

    @property
    def partition_documents(self) -> int:
        """Round number of documents that takes a worker about a minute and leaves work for the others."""
        wanted = _PARTITION_WORDS * self.num_documents / max(1, self.num_words)
        wanted = min(wanted, max(_STEPS[0], self.num_documents / 4))
        return max((step for step in _STEPS if step <= wanted), default=_STEPS[0])

    @property
    def expected_items(self) -> int:
        """Power of ten above the number of sentences, for the filter of duplicates."""
        return int(10 ** max(5, math.ceil(math.log10(max(1, 1.5 * self.num_words / _WORDS_A_SENTENCE)))))

    @property
    def epochs(self) -> int:
        """Number of epochs that the tiny model trains in a quarter of an hour on two cores; at least two."""
        return max(2, min(USUAL_EPOCHS, _TRAINED_WORDS // max(1, self.num_words)))

    def text(self) -> str:
        """Formats the findings for people and for a comment in the settings file."""
        lines = [line for group in self.groups for line in group.text().splitlines()]
        if self.left_out:
            lines.append(f"not looked at: {left_out_text(self.left_out)}")
        lines.append(f"about {self.num_documents:,} documents, {self.num_words:,} words; {self._languages()}")
        return "\n".join([*lines, *(f"look at this: {warning}" for warning in self.warnings)])

    def _languages(self) -> str:
        total = self.languages.total()
        known = [(c, n) for c, n in self.languages.most_common() if c is not None and n >= _LEAST_SHARE * total]
        if not known:
            return "too little text to find the language"
        shares = ", ".join(f"{_NAMES.get(code, code)} {number / total:.0%}" for code, number in known[:4])
        rest = self.languages[None]
        return f"language: {shares}" + (f", unknown {rest / total:.0%}" if rest else "")


def _bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def survey(inputs: Sequence[str]) -> Survey:
    """Looks at some files of each suffix.

    Args:
        inputs: absolute paths of files and folders, or patterns

    Raises:
        InputError: an input does not exist, or nothing in the inputs can be read.
    """
    files = list_files(inputs, Path("/"), "auto", _EVERYTHING)
    by_suffix: dict[str, list[InputFile]] = {}
    for file in files:
        by_suffix.setdefault(suffix_of(file.name), []).append(file)
    groups = [group for suffix, found in sorted(by_suffix.items()) for group in _groups(suffix, found)]
    readable = [group for group in groups if group.look.format is not None]
    if not readable:
        seen = "; ".join(line for group in groups for line in group.text().splitlines())
        raise InputError(
            f"nothing in {', '.join(inputs)} can be read as a corpus: {seen}. docs/corpora.md names the formats. To "
            "write a reader of your own, see docs/extending.md"
        )
    return _settle(groups, readable, files.left_out)


def _groups(suffix: str, files: Sequence[InputFile]) -> list[Group]:
    """Groups the files of one suffix by their form."""
    step = max(1, len(files) // _LOOKED_AT)
    looks = {file.name: look(file.path) for file in files[::step][:_LOOKED_AT]}
    kinds = Counter((found.format, found.fields) for found in looks.values() if found.what != "empty")
    if not kinds:
        kinds = Counter([(None, ())])
    main = kinds.most_common(1)[0][0]
    made: list[Group] = []
    for kind in kinds:
        # Files that were not looked at count as the most frequent kind.
        alike = [f for f in files if _kind(looks.get(f.name), main) == kind]
        seen = [looks[f.name] for f in alike if f.name in looks] or list(looks.values())[:1]
        first = max(seen, key=lambda found: found.num_bytes)
        is_all = len(kinds) == 1
        patterns = _patterns(suffix, alike) if is_all or len(alike) > _NAMED else tuple(f.name for f in alike)
        first = replace(first, warnings=_warnings_of({f.name: looks[f.name] for f in alike if f.name in looks}))
        if first.format == "txt":
            first = _with_unit(first, alike)
        made.append(_group(first, suffix, alike, seen, patterns))
    # Names go before patterns, so that a pattern takes only the files that no name took.
    return sorted(made, key=lambda group: group.num_files > _NAMED)


def _warnings_of(looks: Mapping[str, Look]) -> tuple[str, ...]:
    """Returns the warnings about files, each with the names of its files."""
    files: dict[str, list[str]] = {}
    for name, found in looks.items():
        for warning in found.warnings:
            files.setdefault(warning, []).append(name)
    return tuple(
        f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {warning}"
        for warning, names in files.items()
    )


def _kind(found: Look | None, main: tuple[str | None, tuple[tuple[str, str], ...]]) -> object:
    return main if found is None or found.what == "empty" else (found.format, found.fields)


def _patterns(suffix: str, files: Sequence[InputFile]) -> tuple[str, ...]:
    if not suffix:
        folders = {file.name.rpartition("/")[0] for file in files}
        is_few = len(files) <= _NAMED or "" in folders
        return tuple(sorted(file.name for file in files) if is_few else (f"{f}/*" for f in sorted(folders)))
    ends = {file.name[file.name.lower().rindex(suffix) :] for file in files}
    return tuple(f"*{end}" for end in sorted(ends))


def _group(
    found: Look, suffix: str, files: Sequence[InputFile], seen: Sequence[Look], patterns: tuple[str, ...]
) -> Group:
    unit = dict(found.fields).get("txt_document", "file") if found.format == "txt" else None
    each = max(1, _SAMPLED_TEXTS // max(1, len(seen)))
    texts: list[str] = []
    num_bytes = 0
    for one in seen:
        units = units_of(one.texts, unit) if unit else list(one.texts)
        part = units[:each]
        texts += part
        num_bytes += round(one.num_bytes * len(part) / max(1, len(units)))
    ratio = 3 if any(compression_of(file.name) for file in files) else 1
    size = sum(file.path.stat().st_size for file in files) * ratio
    return Group(
        look=found,
        suffix=suffix,
        num_files=len(files),
        num_bytes=size,
        patterns=patterns,
        texts=tuple(texts) if found.format else (),
        num_text_bytes=num_bytes,
    )


def _with_unit(found: Look, files: Sequence[InputFile]) -> Look:
    """Chooses the document of plain text: a file if there are many small files, else a paragraph or a line."""
    if found.fields:
        return found
    largest = max(file.path.stat().st_size for file in files)
    if len(files) >= _FEW_FILES and largest <= _LARGE_TXT_BYTES:
        return replace(found, what="text, one document per file", others=('txt_document = "paragraph" or "line"',))
    text = "".join(found.texts)
    paragraphs = units_of((text,), "paragraph")
    lines = units_of((text,), "line")
    if len(paragraphs) == len(lines) == 1:
        return replace(found, what="text, one document per file")
    by_line = len(paragraphs) == 1 or len(lines) >= _LINES_A_PARAGRAPH * len(paragraphs)
    unit, other = ("line", "paragraph") if by_line else ("paragraph", "line")
    return replace(
        found,
        fields=(("txt_document", unit),),
        what=f"text, one document per {unit}",
        others=(f'txt_document = "{other}" or "file"',),
    )


def _by_suffix(group: Group) -> bool:
    """Checks if ``auto`` finds the group's files in a folder and reads them in this format."""
    return group.look.format in _IN_FOLDERS and AUTO.get(group.suffix) == group.look.format


def _settle(groups: Sequence[Group], readable: Sequence[Group], left_out: Counter[str]) -> Survey:
    """Chooses the group that the table ``[corpus]`` describes, and groups that need a table of their own."""
    if len(readable) == 1 and readable[0].num_files == sum(
        g.num_files for g in groups if g.suffix == readable[0].suffix
    ):
        (only,) = readable
        by_suffix = _by_suffix(only)
        shown = "auto" if by_suffix else str(only.look.format)
        settled, fields = tuple(groups), only.look.fields
        # Its format finds files by their suffixes in a folder. Others need a pattern.
        if not by_suffix and only.suffix not in format_spec(shown).kinds:
            settled = tuple(replace(g, is_source=g is only) for g in groups)
            shown, fields = "auto", ()
    else:
        shown, fields = "auto", ()
        settled = tuple(
            replace(g, is_source=g in readable and (bool(g.look.fields) or not _by_suffix(g))) for g in groups
        )
    texts = [text for group in readable for text in group.texts]
    num_documents = sum(group.num_documents for group in readable)
    words = sum(
        group.num_documents * sum(len(text.split()) for text in group.texts) / max(1, len(group.texts))
        for group in readable
    )
    languages = Counter(language_of(text) for text in texts)
    return Survey(
        groups=tuple(sorted(settled, key=lambda group: group.look.format is None)),
        format=shown,
        fields=fields,
        languages=languages,
        num_documents=num_documents,
        num_words=round(words),
        left_out=left_out,
        warnings=tuple(_warnings(languages, num_documents)),
    )


def _warnings(languages: Counter[str | None], num_documents: int) -> list[str]:
    found = []
    judged = languages.total() - languages[None]
    others = judged - languages["en"]
    if judged and others > 0.5 * judged:
        found.append(
            "most of the text is not English: set split.language, redact.language and a model for it (redact.model)"
        )
    elif others > 0.02 * max(1, judged):
        found.append(
            f"about {others / judged:.0%} of the documents are not English, and the policies find little in them: see "
            "split.other_languages"
        )
    if num_documents < 20:
        found.append(
            f"only about {num_documents} documents, and all sentences of a document are in one fold: split the text "
            "into more documents (corpus.txt_document), or set split.valid_fraction and split.test_fraction to 0"
        )
    return found
