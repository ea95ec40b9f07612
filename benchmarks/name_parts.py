"""The names of persons that lists, places in a sentence, entity models and their unions find.

    python benchmarks/name_parts.py --data-dir FOLDER [--texts 600] [--out FILE]

Each part reads the original sentence alone: *lists* of names with titles and cues (`identifiers.persons`), *places* for
names (`identifiers.places`, `identifiers.forms`, `identifiers.scripts`), spaCy's persons, and ``noisy_entities``.
Recall is over the characters of persons' names, and precision over all characters found: those in a secret of any kind
are right.

What is unfair: the lists come from the package that made the names of the mails; WNUT-17 labels no handles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final

from common import RESULTS, command_line, heading, write_json
from pii import sentences_of
from pii_texts import text_sets

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.identifiers.forms import find_forms
from pipelines.policies.detectors.identifiers.persons import find_persons
from pipelines.policies.detectors.identifiers.places import find_placed
from pipelines.policies.detectors.identifiers.scripts import find_names_in_scripts
from pipelines.policies.judging.judge import Judge, Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.registry import make_policy

SETS: Final = ("presidio-research, odd templates", "WNUT-17 dev", "mails B", "noisy E")
PERSONS: Final = frozenset({"PERSON", "NAME", "USERNAME", "USER", "name", "person", "username"})
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_MODEL: Final = "en_core_web_sm"


def of_lists(text: str) -> Iterator[Find]:
    words = list(_WORD.finditer(text))
    yield from find_persons(text, words, [word[0].lower() for word in words])


def of_places(text: str) -> Iterator[Find]:
    words = list(_WORD.finditer(text))
    yield from find_placed(text, words, [word[0].lower() for word in words])
    yield from find_forms(text)
    yield from find_names_in_scripts(text)


def by_pattern(find: Callable[[str], Iterator[Find]], requests: Sequence[Request]) -> list[set[int]]:
    """Returns the characters of persons that a function finds in each text."""
    return [
        {at for start, end, label in find(request.text) if label in PERSONS for at in range(start, end)}
        for request in requests
    ]


def by_policy(name: str, requests: Sequence[Request]) -> list[set[int]]:
    """Returns the characters of persons that a policy finds in each text."""
    judge = Judge({name: make_policy(PolicyOptions(name=name, model=_MODEL))}, None, _MODEL)
    return [
        {
            at
            for span in verdict.spans
            if span.label.upper() in PERSONS
            for at in range(request.starts[span.start_token], request.ends[span.end_token - 1])
        }
        for request, verdict in zip(requests, judge.judge(requests), strict=True)
    ]


def main() -> None:
    parser = command_line(__doc__, data_dir=True, out=RESULTS / "name_parts.json")
    parser.add_argument("--texts", type=int, default=600)
    given = parser.parse_args()
    known = text_sets(given.data_dir, 0)
    document: dict[str, Any] = {"schema_version": 1, "texts": given.texts, "sets": {}}
    for name in SETS:
        rows = sentences_of(known[name], given.texts)
        requests = [request for request, _, _ in rows]
        parts = {
            "lists": by_pattern(of_lists, requests),
            "places": by_pattern(of_places, requests),
            "spaCy": by_policy("high_entity", requests),
            "noisy_entities": by_policy("noisy_entities", requests),
        }
        shown = document["sets"][name] = {}
        for size in (1, 2, 3, 4):
            for chosen in combinations(parts, size):
                gold = found = right = caught = 0
                for number, (request, secrets, _) in enumerate(rows):
                    letters = {at for at, character in enumerate(request.text) if character.isalnum()}
                    every = {at for start, end, _ in secrets for at in range(start, end)} & letters
                    names = {
                        at for start, end, kind in secrets if kind.upper() in PERSONS for at in range(start, end)
                    } & letters
                    hidden = set[int]().union(*(parts[part][number] for part in chosen)) & letters
                    gold, caught = gold + len(names), caught + len(names & hidden)
                    found, right = found + len(hidden), right + len(hidden & every)
                shown[" + ".join(chosen)] = {
                    "recall": round(caught / max(1, gold), 3),
                    "precision": round(right / max(1, found), 3),
                }
    print(*heading("parts", *SETS), sep="\n")
    for chosen in document["sets"][SETS[0]]:
        cells = (
            f"{document['sets'][name][chosen]['recall']} / {document['sets'][name][chosen]['precision']}"
            for name in SETS
        )
        print(f"| {chosen} | {' | '.join(cells)} |")
    write_json(given.out, document)


if __name__ == "__main__":
    main()
