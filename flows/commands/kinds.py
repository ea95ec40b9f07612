"""Groups input files by what they are, and confirms each reading with the real reader, for `reticent init`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flows.commands.measured import SAMPLED_TEXTS, Measure, Measured
from pipelines.corpus.detect_format import HEAD_BYTES, is_empty, looks_of, units_of
from pipelines.corpus.fields import Look
from pipelines.corpus.formats import compression_of, suffix_of
from pipelines.corpus.listing import InputFile
from pipelines.errors import ConfigError, InputError

EXACT_BYTES: Final = 20_000_000
"""Size of the input up to which every file is read completely."""
DAMAGED: Final = {"multidogo": 0.05}
"""Rejected fraction to allow for published corpora with known damage: up to 4 % of MultiDoGO's lines are broken."""
MOST_REJECTED: Final = 0.01
_USABLE: Final = 0.2
"""Rejected fraction up to which a reading is offered, with a question."""
_CLOSE: Final = 0.15
_CERTAIN: Final = 0.9
_ALIKE: Final = 0.8
_FEW_ALIKE: Final = 5
_MANY_SUFFIXES: Final = 4
_HEADS_BYTES: Final = 64 << 20
_SMALL_HEAD: Final = 64 << 10
_LOOKED_AT: Final = 20_000
_READ_FILES: Final = 40
_FEW_FILES: Final = 50
_LARGE_TXT_BYTES: Final = 1_000_000
_LINES_A_PARAGRAPH: Final = 50
_COMPRESSION: Final = 3
_BY_FILE: Final = frozenset({"html", "markdown", "docx", "mail"})
"""Formats of which each file is a document."""
_OTHERS: Final = 2
LEFT_OUT: Final = "left out by your decision"


@dataclass(kw_only=True)
class Kind:
    """Files that are read in the same way, or not at all.

    Attributes:
        look: format and findings that they share
        files: files
        others: other plausible readings, best first, with what they find
        found: findings of the real reader in the files, or in some of them
        is_estimate: flag that only a part of the files was read
        num_bytes: decompressed size, about
        rejected: share of rejected rows that must be allowed
    """

    look: Look
    files: list[InputFile]
    others: list[tuple[Look, Measured]] = field(default_factory=list)
    found: Measured = field(default_factory=Measured)
    is_estimate: bool = False
    num_bytes: int = 0
    rejected: float = 0.0

    @property
    def suffix(self) -> str:
        """Suffix that all of the files have, or an empty text."""
        suffixes = {suffix_of(file.name) for file in self.files}
        return suffixes.pop() if len(suffixes) == 1 else ""

    @property
    def scale(self) -> float:
        """Factor from what was read to all of the files."""
        return max(1.0, self.num_bytes / max(1, self.found.num_bytes)) if self.is_estimate else 1.0

    @property
    def num_documents(self) -> int:
        """Number of documents, an estimate if `is_estimate`."""
        if self.is_estimate and self.look.format in _BY_FILE:
            return len(self.files)
        return round(self.found.num_documents * self.scale)

    @property
    def num_sentences(self) -> int:
        """Number of sentences and turns, an estimate if `is_estimate`."""
        return round(self.found.num_sentences * self.scale)


def kinds_of(files: Sequence[InputFile]) -> list[Kind]:
    """Groups files by what they are, and reads them."""
    sizes = {file.name: size_of(file) for file in files}
    looks = _all_looks(files, sizes)
    grouped: dict[object, Kind] = {}
    for file, best in zip(files, _chosen(files, looks), strict=True):
        kind = grouped.setdefault(_key(best, file, files), Kind(look=best, files=[]))
        kind.files.append(file)
    measure = Measure()
    by_name = {file.name: found or [] for file, found in zip(files, looks, strict=True)}
    unseen = {file.name for file, found in zip(files, looks, strict=True) if found is None}
    is_exact = sum(sizes.values()) <= EXACT_BYTES
    made: list[Kind] = []
    for kind in grouped.values():
        common = _common(kind, by_name, sizes)
        if any(file.name in unseen for file in kind.files):
            common.look = replace(common.look, doubts=(*common.look.doubts, "some of these files were not looked at"))
        made += _confirmed(common, by_name, measure, is_exact)
    merged: dict[object, Kind] = {}
    for kind in made:  # a reading that failed may have led to the kind of other files
        key = _key(kind.look, kind.files[0], files)
        if key in merged:
            merged[key].files += kind.files
            merged[key].found.add(kind.found)
            merged[key].num_bytes += kind.num_bytes
        else:
            merged[key] = kind
    return list(merged.values())


def size_of(file: InputFile) -> int:
    """Returns the approximate decompressed size of a file, in bytes."""
    try:
        size = file.path.stat().st_size
    except OSError:
        return 0
    return size * (_COMPRESSION if compression_of(file.name) else 1)


def _all_looks(files: Sequence[InputFile], sizes: dict[str, int]) -> list[list[Look] | None]:
    """Looks at the beginning of each file, because one among many may be different. None for files not looked at."""
    step = max(1, -(-len(files) // _LOOKED_AT))
    left = _HEADS_BYTES
    looks: list[list[Look] | None] = []
    for number, file in enumerate(files):
        if number % step and looks:
            looks.append(None)
            continue
        head = HEAD_BYTES if left > 0 else _SMALL_HEAD
        left -= min(head, sizes[file.name])
        looks.append(looks_of(file.path, file.name, head))
    return looks


def _chosen(files: Sequence[InputFile], looks: Sequence[Sequence[Look] | None]) -> list[Look]:
    """Chooses a reading for each file. A doubtful file, or one not looked at, follows most others of its suffix."""
    counts: dict[str, Counter[object]] = {}
    by_kind: dict[object, Look] = {}
    for file, found in zip(files, looks, strict=True):
        if found and not is_empty(found[0]):
            counts.setdefault(suffix_of(file.name), Counter())[found[0].kind] += 1
            by_kind.setdefault(found[0].kind, found[0])
    chosen = []
    for file, found in zip(files, looks, strict=True):
        number = counts.get(suffix_of(file.name), Counter())
        main, most = next(iter(number.most_common(1)), (None, 0))
        if not found:
            chosen.append(by_kind[main] if main in by_kind else Look(format=None, what="not looked at"))
            continue
        best = found[0]
        if best.score < _CERTAIN and most >= max(_FEW_ALIKE, _ALIKE * number.total()):
            best = next((look for look in found if look.kind == main), best)
        chosen.append(best)
    return chosen


def _key(look: Look, file: InputFile, files: Sequence[InputFile]) -> object:
    """Returns what the files of one kind have in common."""
    if look.format is None:
        return None, look.what if not look.is_table else file.name, suffix_of(file.name)
    suffixes = {suffix_of(other.name) for other in files} if look.format == "txt" else set()
    by_suffix = look.format == "txt" and len(suffixes) <= _MANY_SUFFIXES
    return look.kind, suffix_of(file.name) if by_suffix else None


def _common(kind: Kind, looks: dict[str, list[Look]], sizes: dict[str, int]) -> Kind:
    """Completes a kind: its look is that of its largest file, with the warnings and doubts of all."""
    files = sorted(kind.files, key=lambda file: -sizes[file.name])
    same = {file.name: look for file in files for look in looks[file.name] if look.kind == kind.look.kind} or {
        files[0].name: kind.look
    }
    first = next(iter(same.values()))
    doubts = tuple(dict.fromkeys(doubt for look in same.values() for doubt in look.doubts))
    warnings: dict[str, list[str]] = {}
    for name, look in same.items():
        for warning in look.warnings:
            warnings.setdefault(warning, []).append(name)
    told = tuple(
        f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {warning}"
        for warning, names in warnings.items()
    )
    first = replace(first, warnings=told, doubts=doubts[:3])
    if first.format == "txt":
        first = _with_unit(first, kind.files, sizes)
    kind.look = first
    kind.num_bytes = sum(sizes[file.name] for file in files)
    return kind


def _with_unit(found: Look, files: Sequence[InputFile], sizes: dict[str, int]) -> Look:
    """Chooses the document of plain text: a file if there are many small files, else a paragraph or a line."""
    if "txt_document" in dict(found.fields):
        return found
    largest = max(sizes[file.name] for file in files)
    if len(files) >= _FEW_FILES and largest <= _LARGE_TXT_BYTES:
        return replace(found, what="text, one document per file", others=('txt_document = "paragraph" or "line"',))
    text = "".join(found.texts)
    paragraphs, lines = units_of((text,), "paragraph"), units_of((text,), "line")
    if len(paragraphs) == len(lines) == 1:
        return replace(found, what="text, one document per file")
    by_line = len(paragraphs) == 1 or len(lines) >= _LINES_A_PARAGRAPH * len(paragraphs)
    unit, other = ("line", "paragraph") if by_line else ("paragraph", "line")
    return replace(
        found,
        fields=tuple(sorted((*found.fields, ("txt_document", unit)))),
        what=f"text, one document per {unit}",
        others=(f'txt_document = "{other}" or "file"',),
    )


def _confirmed(kind: Kind, looks: dict[str, list[Look]], measure: Measure, is_exact: bool) -> list[Kind]:
    """Reads the files of a kind. Files that the reading does not fit get their next reading, or none."""
    if kind.look.format is None:
        kind.others = _others(kind, looks, measure)
        if not kind.look.doubts and kind.others and kind.others[0][0].score >= kind.look.score - _CLOSE:
            kind.look = replace(kind.look, doubts=(f"it could also be {kind.others[0][0].format}",))
        return [kind]
    try:
        total, each = _read(kind.files, kind.look, measure, is_exact)
    except (ConfigError, InputError) as error:  # such as a missing package, or no permission
        return [replace(kind, look=Look(format=None, what=str(error), score=kind.look.score))]
    limit = DAMAGED.get(kind.look.format, MOST_REJECTED)
    bad = [file for file in kind.files if file.name in each and _is_bad(each[file.name], limit)]
    if not total.num_documents and not bad:
        return [Kind(look=Look(format=None, what="only empty rows"), files=kind.files, num_bytes=kind.num_bytes)]
    if not bad or (total.num_documents and total.rejected_share <= limit and len(bad) < len(kind.files)):
        return [_judged(kind, total, looks, measure, is_exact, 0.0)]
    is_mixed = len(bad) < len(kind.files) and is_exact
    worst = max(each[file.name].rejected_share for file in bad)
    if total.num_documents and total.rejected_share <= _USABLE and not (is_mixed and worst > _USABLE):
        return [_judged(kind, total, looks, measure, is_exact, total.rejected_share)]
    failed = {file.name for file in bad} if is_mixed else {file.name for file in kind.files}
    made = []
    if good := [file for file in kind.files if file.name not in failed]:
        total, _ = _read(good, kind.look, measure, is_exact)
        kept = replace(kind, files=good, num_bytes=sum(map(size_of, good)))
        made.append(_judged(kept, total, looks, measure, is_exact, total.rejected_share))
    reason = _reason(kind.look, [each[name] for name in failed if name in each])
    groups: dict[object, Kind] = {}
    for file in (file for file in kind.files if file.name in failed):
        found = looks[file.name]
        at = next((n for n, look in enumerate(found) if look.kind == _base(kind.look).kind), len(found))
        looks[file.name] = rest = found[at + 1 :]
        look = next((look for look in rest if look.format is not None), None) or Look(format=None, what=reason)
        groups.setdefault(_key(look, file, kind.files), Kind(look=look, files=[])).files.append(file)
    sizes = {file.name: size_of(file) for file in kind.files}
    for group in groups.values():
        made += _confirmed(_common(group, looks, sizes), looks, measure, is_exact)
    return made


def _base(look: Look) -> Look:
    """Returns a look at plain text without the unit that was chosen for all files."""
    if look.format != "txt":
        return look
    return replace(look, fields=tuple((k, v) for k, v in look.fields if k != "txt_document"))


def _is_bad(found: Measured, limit: float) -> bool:
    return found.reasons.total() > 0 and (not found.num_documents or found.rejected_share > limit)


def _reason(look: Look, found: Sequence[Measured]) -> str:
    reasons = sum((one.reasons for one in found), Counter())
    shown = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common(3)) or "no text"
    return f"as {look.format}, its rows are rejected ({shown})"


def _read(
    files: Sequence[InputFile], look: Look, measure: Measure, is_exact: bool
) -> tuple[Measured, dict[str, Measured]]:
    """Reads all files, or the beginnings of some. Returns the sum, and the findings by file."""
    step = 1 if is_exact else max(1, len(files) // _READ_FILES)
    each = {}
    total = Measured()
    chosen = files[::step]
    for file in chosen:
        most = max(1, SAMPLED_TEXTS // len(chosen))
        found = each[file.name] = measure.file(file, look, is_whole=is_exact, most_texts=most)
        total.add(found)
    return total, each


def _judged(
    kind: Kind, total: Measured, looks: dict[str, list[Look]], measure: Measure, is_exact: bool, rejected: float
) -> Kind:
    """Completes a kind with the findings and the doubts that they raise, and reads its other candidates."""
    look, doubts = kind.look, list(kind.look.doubts)
    if rejected:
        shown = ", ".join(f"{number:,} {reason}" for reason, number in total.reasons.most_common(3))
        doubts.append(f"{rejected:.1%} of the rows would be rejected ({shown})")
    if total.repeats and not any("repeat" in doubt for doubt in doubts):
        doubts.append("most documents repeat, as instructions and templates do")
    others = _others(kind, looks, measure)
    close = next((o for o, _ in others if o.score >= look.score - _CLOSE and look.score < _CERTAIN), None)
    if close is not None and not doubts:
        doubts.append(f"{close.format} fits about as well")
    kind.look = replace(look, doubts=tuple(doubts))
    kind.others, kind.found, kind.rejected = others, total, rejected
    kind.is_estimate = not is_exact and (not total.is_whole or len(kind.files) > _READ_FILES)
    return kind


def _others(kind: Kind, looks: dict[str, list[Look]], measure: Measure) -> list[tuple[Look, Measured]]:
    """Returns the best other readings of the largest file that the real reader can use."""
    largest = max(kind.files, key=size_of)
    known = (kind.look.kind, _base(kind.look).kind)
    others: list[tuple[Look, Measured]] = []
    for other in looks[largest.name]:
        if other.format is None or other.kind in known or len(others) == _OTHERS:
            continue
        if other.format == "txt":
            other = _with_unit(other, kind.files, {file.name: size_of(file) for file in kind.files})
        try:
            found = measure.file(largest, other, is_whole=False)
        except (ConfigError, InputError):
            continue
        if found.num_documents and found.rejected_share <= _USABLE:
            others.append((other, found))
    return others


def decided(kind: Kind, choice: int) -> Kind:
    """Returns a kind with the reading of a person's choice.

    Args:
        kind: files of one kind
        choice: 0 for the present reading, 1 or more for one of `Kind.others`, -1 to leave the files out
    """
    if choice == 0:
        return kind
    if choice < 0:
        return Kind(look=Look(format=None, what=LEFT_OUT), files=kind.files, num_bytes=kind.num_bytes)
    look, _ = kind.others[choice - 1]
    is_exact = kind.num_bytes <= EXACT_BYTES
    total, _ = _read(kind.files, look, Measure(), is_exact)
    made = Kind(look=look, files=kind.files, found=total, num_bytes=kind.num_bytes, rejected=total.rejected_share)
    made.is_estimate = not is_exact and (not total.is_whole or len(kind.files) > _READ_FILES)
    return made
