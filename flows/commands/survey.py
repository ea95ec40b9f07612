"""Surveys input files for `reticent init`, and finds settings that fit them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flows.commands.kinds import DAMAGED, MOST_REJECTED, Kind, decided, kinds_of
from flows.commands.sources import Settings, settings_of
from pipelines.corpus.detect_format import is_empty
from pipelines.corpus.formats import format_spec
from pipelines.corpus.languages import LANGUAGES, language_of
from pipelines.corpus.listing import left_out_text, list_files
from pipelines.corpus.options import SourceOptions
from pipelines.errors import InputError
from pipelines.language import MODELS, how_to_install, installed_model, without_model_text

_EVERYTHING = (SourceOptions(pattern="*", format="txt"),)
_SAMPLED_TEXTS = 500
_PARTITION_WORDS = 150_000
_LEAST_SHARE = 0.005
"""Share of documents below which a language counts as a mistake, because short texts are often misjudged."""
_STEPS = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
_WORDS_A_SENTENCE = 12
USUAL_EPOCHS = 8
_TRAINED_WORDS = 6_000_000
"""Words, over all epochs, that the tiny model reads in a quarter of an hour on two cores."""
_NAMES = {
    **{"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "nl": "Dutch"},
    "pt": "Portuguese",
}
_OF_DOCUMENTS: Final = frozenset({"txt_document", "dialogue_gap_minutes"})
"""Settings that say where a document ends."""
_BY_FIELD: Final = ("jsonl", "json", "csv", "tsv", "parquet", "huggingface")
"""Formats whose text is a field or a column."""

_WITH_SENDERS: Final = {
    "mail": "Mails name their senders",
    "mbox": "Mails name their senders",
    "stackexchange": "Posts name their authors",
    "zendesk": "Tickets name their customers",
    "intercom": "Conversations name their customers",
}

Decide = Callable[[Sequence[Kind]], Sequence[int]]
"""Function that chooses a reading for each kind of file that raises doubts; see `flows.commands.kinds.decided`."""


def take_best(kinds: Sequence[Kind]) -> Sequence[int]:
    """Takes the best reading of each kind of file."""
    return [0] * len(kinds)


def kind_text(kind: Kind) -> str:
    """Describes files of one kind in one line, with more lines for other readings and warnings."""
    number, suffix, look = len(kind.files), kind.suffix, kind.look
    files = f"{number:,} {suffix or 'file'}{'' if suffix or number == 1 else 's'}"
    read = look.format or "NOT READ"
    lines = [f"{files} ({_bytes(kind.num_bytes)}): {read}: {look.what}"]
    others = [*look.others, *(f'format = "{o.format}" ({o.what})' for o, _ in kind.others if not look.others)]
    if others:
        lines.append(f"   could also be: {'; '.join(others)}")
    lines += [f"   please confirm: {doubt}" for doubt in look.doubts]
    lines += [f"   look at this: {warning}" for warning in look.warnings]
    if kind.found.num_empty:
        lines.append(f"   {kind.found.num_empty:,} rows are empty")
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The findings of a survey.

    Attributes:
        kinds: kinds of files, readable ones first
        settings: settings of ``[corpus]``
        languages: number of sampled documents by language; None for documents that are too short
        num_documents, num_words: approximate numbers
        left_out: files that were not looked at, by suffix or reason
        warnings: problems to look at
    """

    kinds: tuple[Kind, ...]
    settings: Settings
    languages: Counter[str | None]
    num_documents: int
    num_words: int
    left_out: Counter[str]
    warnings: tuple[str, ...]

    @property
    def language(self) -> str:
        """Code of the language of most documents. English if it is unknown, or one without a usual model."""
        return _main_language(self.languages)

    @property
    def other_models(self) -> dict[str, str | None]:
        """Installed model of each further language that some documents are in; None without one."""
        return {code: installed_model(code) for code in _others(self.languages)}

    @property
    def max_rejected_fraction(self) -> float:
        """Share of rejected rows to allow: the usual one, or somewhat more than was found."""
        worst = max((kind.rejected for kind in self.kinds), default=0.0)
        known = max((DAMAGED.get(kind.look.format or "", 0.0) for kind in self.kinds), default=0.0)
        return max(MOST_REJECTED, known, math.ceil(110 * worst) / 100)

    @property
    def owner(self) -> tuple[str, str, str] | None:
        """Setting owner_from, owner_field, and the reason, for the files with the most documents; None if none tells.

        No one sets it silently: only a person knows who a document's owner is.
        """
        found = map(_owner, sorted(self.kinds, key=lambda kind: -kind.num_documents))
        return next(filter(None, found), None)

    @property
    def has_other_owners(self) -> bool:
        """True if some files do not have the `owner` that is suggested."""
        found = [_owner(kind) for kind in self.kinds if kind.look.format is not None]
        return any((one or ())[:2] != (self.owner or ())[:2] for one in found)

    @property
    def owner_line(self) -> list[str]:
        """A line on `owner` for people, if something tells."""
        if self.owner is None:
            return []
        owner_from, name, why = self.owner
        settings = f"owner_from = {owner_from}" + (f", owner_field = {name}" if name else "")
        return [f"whose text it is, is not set. {why}: the settings file has a comment on it ({settings})"]

    def document(self) -> dict[str, Any]:
        """Returns the findings for programs. They quote the first texts of each kind."""
        read = [kind for kind in self.kinds if kind.look.format is not None]
        unread = [kind for kind in self.kinds if kind.look.format is None and not is_empty(kind.look)]
        return {
            "sources": [_source(kind) for kind in read],
            "not_read": [{"name": file.name, "reason": kind.look.what} for kind in unread for file in kind.files],
            "warnings": [
                *(warning for kind in read for warning in (*kind.look.doubts, *kind.look.warnings)),
                *self.warnings,
            ],
        }

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
        lines = [line for kind in self.kinds for line in kind_text(kind).splitlines()]
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


def _main_language(languages: Counter[str | None]) -> str:
    known = [(number, code) for code, number in languages.items() if code in MODELS and code is not None]
    return max(known, default=(0, "en"))[1]


def _others(languages: Counter[str | None]) -> list[str]:
    """Returns the further languages of at least `_LEAST_SHARE` of the documents, without text in other scripts."""
    least, main = _LEAST_SHARE * languages.total(), _main_language(languages)
    return sorted(c for c, n in languages.items() if c in LANGUAGES and c != main and n >= least and c is not None)


def _owner(kind: Kind) -> tuple[str, str, str] | None:
    """Returns owner_from, owner_field and the reason for the files of one kind; None if nothing tells."""
    form = kind.look.format
    if form is not None and kind.look.owner:
        return "field", kind.look.owner, f"The field {kind.look.owner} looks like the id of a person"
    if form in _WITH_SENDERS:
        return "sender", "", f"{_WITH_SENDERS[form]}"
    if form is not None and kind.found.has_names and kind.found.has_speakers:
        return "sender", "", "Dialogues name their speakers. This fits if one of them in each is the customer"
    return None


def _source(kind: Kind) -> dict[str, Any]:
    fields = dict(kind.look.fields)
    return {
        "format": kind.look.format,
        "files": len(kind.files),
        "documents": kind.num_documents,
        "rows": kind.num_sentences,
        "text_field": fields.get("text_field", "text") if kind.look.format in _BY_FIELD else None,
        "has_speakers": kind.found.has_speakers,
        "sample": kind.found.shown,
        **({"is_estimate": True} if kind.is_estimate else {}),
    }


def _bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def survey(inputs: Sequence[str], decide: Decide = take_best) -> Survey:
    """Looks at all files, and reads them, or a part of many.

    Args:
        inputs: absolute paths of files and folders, or patterns
        decide: function that chooses among the readings of files that raise doubts

    Raises:
        InputError: an input does not exist, or nothing in the inputs can be read.
    """
    files = list_files(inputs, Path("/"), "auto", _EVERYTHING)
    kinds = kinds_of(files)
    doubtful = [kind for kind in kinds if kind.look.doubts]
    chosen = dict(zip(map(id, doubtful), decide(doubtful) if doubtful else (), strict=True))
    kinds = [decided(kind, chosen.get(id(kind), 0)) for kind in kinds]
    readable = [kind for kind in kinds if kind.look.format is not None]
    if not readable:
        seen = "; ".join(line for kind in kinds for line in kind_text(kind).splitlines())
        raise InputError(
            f"nothing in {', '.join(inputs)} can be read as a corpus: {seen}. If a table has a column with text, write "
            "its name as text_field into the table [corpus] of a settings file. docs/formats.md names the formats. To "
            "write a reader of your own, see docs/extending.md"
        )
    return _settle(inputs, kinds, readable, files.left_out)


def _settle(inputs: Sequence[str], kinds: Sequence[Kind], readable: Sequence[Kind], left_out: Counter[str]) -> Survey:
    """Finds settings under which a run reads each file in the way that was chosen for it."""
    settings = settings_of(inputs, kinds)
    texts = [text for kind in readable for text in kind.found.texts[:_SAMPLED_TEXTS]]
    num_documents = sum(kind.num_documents for kind in readable)
    words = sum(
        kind.num_documents * sum(len(t.split()) for t in kind.found.texts) / max(1, len(kind.found.texts))
        for kind in readable
    )
    languages = Counter(language_of(text) for text in texts)
    return Survey(
        kinds=tuple(sorted(kinds, key=lambda kind: kind.look.format is None)),
        settings=settings,
        languages=languages,
        num_documents=num_documents,
        num_words=round(words),
        left_out=left_out,
        warnings=tuple(_warnings(languages, num_documents, [kind.look.format or "" for kind in readable])),
    )


def _warnings(languages: Counter[str | None], num_documents: int, formats: Sequence[str]) -> list[str]:
    found = []
    main, judged = _main_language(languages), languages.total() - languages[None]
    if judged and languages[main] < 0.5 * judged and languages.most_common(1)[0][0] != main:
        found.append(
            "most of the text is in a language without a usual model: set split.language, redact.language and a model "
            "for it (redact.model)"
        )
    if judged and installed_model(main) is None:
        found.append(f"there is no model of the text's language: run `{how_to_install(MODELS[main])}`")
    for code in _others(languages):
        if languages[code] > 0.02 * judged and installed_model(code) is None:
            found.append(without_model_text({code: languages[code]}, "looked-at document"))
    if num_documents < 20:
        chosen = {f"corpus.{name}" for form in formats for name in {*format_spec(form).settings} & _OF_DOCUMENTS}
        split = f"split the text into more documents ({' or '.join(sorted(chosen))}), or " if chosen else ""
        found.append(
            f"only about {num_documents} documents, and all sentences of a document are in one fold: {split}set "
            "split.valid_fraction and split.test_fraction to 0"
        )
    return found
