"""The labelled secrets that policies find, and the other text that they mask: one table over all labelled text.

    python benchmarks/pii.py --data-dir FOLDER [--seed 0] [--texts 0] [--sets NAME;...] [--rows NAME;...]
        [--policy NAMES]... [--config FILE]... [--out FILE] [--write-docs]

Label-agnostic: a masked secret is masked, whatever the policy calls it. Sentences are cut and redacted as a run does
(``redact.stabilise``), each text being a document. By set and by row:

* *characters*: recall, precision and F2 of the characters of secrets, white space aside;
* *token recall*, *precision* and *masked*, over tokens of the pipeline; *span recall*: secrets with every token masked;
* *tokens/s* of processor time in one process, models loaded, over all sets.

Rows: mask everything; Presidio alone; spaCy's entities alone; each other policy that needs no setting; the default of
``reticent init``; the same with ``propagate``; and any of your own by ``--policy`` (a union, comma-separated) or
``--config`` (the ``[redact]`` table of a settings file). ``--write-docs`` puts the table into docs/policies.md.

What is unfair: sets that are not "held out" were looked at while `identifiers` was written (docs/policies.md says
which); the names and numbers of mails, simulator and presidio-research are generated, and the lists of names that
`identifiers` reads come from the same package as those of the first two. WNUT-17 and BTC label names only: what is
masked of their handles and numbers counts as wrong.
"""

from __future__ import annotations

import datetime
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import RESULTS as ALL_RESULTS
from common import ROOT, command_line, heading, write_json
from data_sets import chunks_of
from pii_texts import TextSet, plain_texts, text_sets

from flows.commands.init import OWN_POLICIES
from flows.commands.redact import redactor_spec
from flows.docs.tables import page as with_table
from pipelines.corpus.split import Splitter
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Request
from pipelines.policies.judging.scoring import f2
from pipelines.policies.protocol import Sentence
from pipelines.policies.redact import token_mask
from pipelines.settings.loading import load_settings

EVERYTHING = "mask everything"
DEFAULT = "default"
BUILT_IN = {
    "Presidio alone": ("presidio",),
    "spaCy alone (high_entity)": ("high_entity",),
    "addresses": ("addresses",),
    "identifiers": ("identifiers",),
    "customersim": ("customersim",),
    "digits": ("digits",),
    "default without identifiers": tuple(name for name in OWN_POLICIES if name != "identifiers"),
    DEFAULT: OWN_POLICIES,
    "default, propagate": (*OWN_POLICIES, "propagate"),
}
RESULTS = ALL_RESULTS / "pii.json"
PAGE = ROOT / "docs" / "policies.md"
MAKER = "python benchmarks/pii.py --write-docs"

Row = tuple[Request, list[tuple[int, int, str]], str]
"""A sentence, the secrets in it, and its document."""


def sentences_of(texts: TextSet, most: int = 0) -> list[Row]:
    """Returns sentences as the split stage cuts them, each with the parts of secrets that it holds; or whole texts."""
    chosen = list(texts.texts())
    if most and len(chosen) > most:
        chosen = [chosen[number * len(chosen) // most] for number in range(most)]
    if texts.mode == "whole":
        cut = Splitter(max_sentence_tokens=10**6, cut_fields=True).tokens
        return [(Request(text, *cut(text)), gold, str(number)) for number, (text, gold) in enumerate(chosen)]
    return [
        (request, inside, str(number)) for number, request, inside in chunks_of(chosen, texts.mode, cut_fields=True)
    ]


def scores(rows: Iterable[Row], masks: Iterable[Sequence[int]]) -> dict[str, Any]:
    """Returns the figures of one set and one row of the table."""
    count: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for (request, gold, _), mask in zip(rows, masks, strict=True):
        sentence = Sentence(request.text, request.starts, request.ends)
        length = len(request.text)
        is_gold, is_masked = bytearray(length), bytearray(length)
        tokens: set[int] = set()
        for start, end, kind in gold:
            widened = sentence.widen(start, end)
            if widened is None:
                continue
            is_gold[start:end] = b"\x01" * (end - start)
            tokens.update(range(*widened))
            total[kind] += 1
            missed[kind] += not all(mask[widened[0] : widened[1]])
        for start, end, masked in zip(request.starts, request.ends, mask, strict=True):
            if masked:
                is_masked[start:end] = b"\x01" * (end - start)
        for character, wanted, hidden in zip(request.text, is_gold, is_masked, strict=True):
            if not character.isspace():
                count.update(gold=wanted, hidden=hidden, both=wanted & hidden)
        count.update(tokens=len(mask), masked=sum(mask), secret=len(tokens), found=sum(mask[i] for i in tokens))
    recall = count["both"] / count["gold"] if count["gold"] else None
    precision = count["both"] / count["hidden"] if count["hidden"] else None
    return {
        "character_recall": recall,
        "character_precision": precision,
        "character_f2": f2(precision or 0.0, recall),
        "token_recall": count["found"] / count["secret"] if count["secret"] else None,
        "token_precision": count["found"] / count["masked"] if count["masked"] else None,
        "span_recall": 1 - missed.total() / total.total() if total else None,
        "masked": count["masked"] / count["tokens"],
        "num_tokens": count["tokens"],
        "num_secrets": total.total(),
        "missed_by_kind": {kind: [missed[kind], total[kind]] for kind in sorted(total)},
    }


def measure(sets: Mapping[str, list[Row]], spec: RedactorSpec | None) -> dict[str, Any]:
    """Measures all sets by one union; None masks everything."""
    found: dict[str, Any] = {"sets": {}}
    seconds, num_tokens = 0.0, 0
    redactor = Redactor.from_spec(spec) if spec is not None else None
    if redactor is not None:
        redactor.judge([row[0] for row in next(iter(sets.values()))[:8]])  # loads what is loaded once
    for name, rows in sets.items():
        requests = [request for request, _, _ in rows]
        if redactor is None:
            masks = [bytearray(b"\x01" * len(request.starts)) for request in requests]
        else:
            began = time.process_time()
            verdicts = redactor.judge(requests, [document for _, _, document in rows])
            seconds += time.process_time() - began
            masks = [token_mask(len(r.starts), v.spans) for r, v in zip(requests, verdicts, strict=True)]
        found["sets"][name] = scores(rows, masks)
        num_tokens += found["sets"][name]["num_tokens"]
    found["tokens_per_second"] = round(num_tokens / seconds) if seconds else None
    return found


def mean(sets: Mapping[str, Any], names: Sequence[str], figure: str) -> float | None:
    """Returns the plain mean over the sets that have the figure."""
    values = [sets[name][figure] for name in names if name in sets and sets[name][figure] is not None]
    return sum(values) / len(values) if values else None


def tables(document: Mapping[str, Any]) -> str:
    """Returns the Markdown between the marks."""
    held = [name for name, about in document["sets"].items() if about["held_out"]]
    load = document["load_average"]
    lines = [
        f"`{document['command']}`, {document['date']}, {document['num_cores']} cores, load {load[0]} at the start and "
        f"{load[1]} at the end. Mean over the {len(held)} held-out sets:",
        "",
        *heading("policies", "character F2", "token recall", "span recall", "precision", "masked", "tokens/s"),
    ]
    figures = ("character_f2", "token_recall", "span_recall", "token_precision", "masked")
    for row, found in document["rows"].items():
        cells = " | ".join(_number(mean(found["sets"], held, figure)) for figure in figures)
        speed = f"{found['tokens_per_second']:,}" if found["tokens_per_second"] else ""
        lines.append(f"| {row} | {cells} | {speed} |")
    lines += [
        "",
        "Each set, character F2 / token recall / masked:",
        "",
        *heading("text", "secrets", "held out", "Presidio", "spaCy", "`identifiers`", "default"),
    ]
    shown = ("Presidio alone", "spaCy alone (high_entity)", "identifiers", DEFAULT)
    for name, about in document["sets"].items():
        of_set = [document["rows"][row]["sets"][name] for row in shown if row in document["rows"]]
        cells = " | ".join(
            " / ".join(_number(found[f]) for f in ("character_f2", "token_recall", "masked")) for found in of_set
        )
        lines.append(f"| {name} | {of_set[0]['num_secrets']:,} | {'yes' if about['held_out'] else 'no'} | {cells} |")
    if document["plain"]:
        lines += [
            "",
            "Share of tokens masked in text that holds no identifiers (its persons and places are known to everybody):",
            "",
            *heading("policies", *document["plain"]),
        ]
        masking = ("identifiers", "spaCy alone (high_entity)", "default without identifiers", DEFAULT)
        for row in (row for row in masking if row in document["rows"]):
            cells = " | ".join(_number(document["rows"][row]["sets"][name]["masked"]) for name in document["plain"])
            lines.append(f"| {row} | {cells} |")
    if "mails B" in document["sets"]:
        before, after = (document["rows"][row]["sets"]["mails B"]["missed_by_kind"] for row in (shown[1], DEFAULT))
        lines += [
            "",
            "Secrets of the mails (B, held out) that are not masked whole, with `high_entity` and with the default:",
            "",
            *heading("kind", "secrets", "`high_entity`", "default"),
            *(f"| {k.lower()} | {after[k][1]:,} | {before[k][0]:,} | {after[k][0]:,} |" for k in sorted(after)),
        ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def write_docs(document: Mapping[str, Any], page: Path = PAGE) -> None:
    """Puts the tables between their marks.

    Raises:
        ValueError: the marks are missing.
    """
    page.write_text(with_table(page.read_text("utf-8"), "pii", tables(document), MAKER), "utf-8")


def main() -> None:
    parser = command_line(__doc__, data_dir=True, out=RESULTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", type=int, default=0, help="at most so many texts of each set, evenly spread; 0: all")
    parser.add_argument("--sets", default="", help="only these, separated by semicolons")
    parser.add_argument("--rows", default="", help="only these of the built-in rows, separated by semicolons")
    parser.add_argument("--policy", action="append", default=[], help="one more row: a union, comma-separated")
    parser.add_argument("--config", action="append", default=[], type=Path, help="one more row: a settings file")
    parser.add_argument("--dates-and-numbers", default="careful", help="redact.dates_and_numbers of all rows")
    parser.add_argument("--write-docs", action="store_true", help="also the table of docs/policies.md")
    given = parser.parse_args()
    chosen = {name.strip() for name in given.sets.split(";") if name.strip()}
    known = text_sets(given.data_dir, given.seed)
    if not chosen <= known.keys():
        parser.error(f"--sets: unknown {sorted(chosen - known.keys())}; known: {', '.join(known)}")
    sets = {name: found for name, found in known.items() if not chosen or name in chosen}
    plain = plain_texts(given.data_dir) if not chosen else {}
    wanted = {row.strip() for row in given.rows.split(";") if row.strip()}
    specs: dict[str, RedactorSpec | None] = {EVERYTHING: None}
    options = {"dates_and_numbers": given.dates_and_numbers}
    specs |= {row: redactor_spec(names, options) for row, names in BUILT_IN.items() if not wanted or row in wanted}
    specs |= {names: redactor_spec([names], options) for names in given.policy}
    for path in given.config:
        settings: Any = load_settings(path, {}).stages["redact"]
        specs[path.stem] = settings.redactor_spec()
    load = [round(os.getloadavg()[0], 1)]
    rows = {name: sentences_of(found, given.texts) for name, found in (sets | plain).items()}
    document: dict[str, Any] = {
        "schema_version": 1,
        "command": f"python benchmarks/pii.py --data-dir FOLDER --seed {given.seed} --texts {given.texts} --write-docs",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "num_cores": os.cpu_count(),
        "policies": {row: list(spec.policies) if spec is not None else [] for row, spec in specs.items()},
        "sets": {name: {"held_out": found.held_out, "mode": found.mode} for name, found in sets.items()},
        "plain": list(plain),
        "rows": {},
    }
    for row, spec in specs.items():
        document["rows"][row] = measure(rows, spec)
        document["load_average"] = [*load, round(os.getloadavg()[0], 1)]
        write_json(given.out, document)
        print(row, _number(mean(document["rows"][row]["sets"], list(sets), "character_f2")), flush=True)
    if given.write_docs:
        write_docs(document)


if __name__ == "__main__":
    main()
