"""The secrets that the policies of ``reticent init`` leave open in short texts of many kinds.

    python benchmarks/short_texts.py [--texts FILE] [--policies NAMES] [--dates-and-numbers MODE] [--show] [--out FILE]

A secret is open *whole* if none of its letters and digits is masked, and *in part* if some are. A text without a secret
counts as masked if anything in it is. Intervals: Clopper-Pearson, two-sided 95 %, as if the texts were drawn at random.

What is unfair: one author made up the texts. Several secrets of a text are counted as if they were independent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common import RESULTS, ROOT, command_line, heading, write_json

from flows.commands.init import OWN_POLICIES
from pipelines.intervals import clopper_pearson
from reticent import redact

TEXTS = ROOT / "tests" / "policies" / "detectors" / "short_texts.txt"
_MARKS = re.compile("⟦(.*?)⟧", re.DOTALL)


class ShortText(NamedTuple):
    """A text with the secrets in it.

    Attributes:
        kind: kind of text. A kind that begins with "clean" has no secret.
        text: text without marks.
        secrets: half-open ranges of characters.
    """

    kind: str
    text: str
    secrets: list[tuple[int, int]]


def read(path: Path = TEXTS) -> list[ShortText]:
    """Reads texts with marked secrets (`tests/policies/detectors/short_texts.txt` describes the form)."""
    texts = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            kind, _, marked = line.partition("\t")
            marked = marked.replace("\\n", "\n").replace("\\t", "\t")
            secrets = [(m.start(1) - 2 * n - 1, m.end(1) - 2 * n - 1) for n, m in enumerate(_MARKS.finditer(marked))]
            texts.append(ShortText(kind, _MARKS.sub(r"\1", marked), secrets))
    return texts


def score(
    texts: Sequence[ShortText], masked: Sequence[Sequence[tuple[int, int]]]
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Counts secrets and texts by kind.

    Returns:
        Counts by kind (``texts``, ``secrets``, ``whole``, ``part``, ``masked``), and a line on each failure.
    """
    counts: dict[str, Counter[str]] = {}
    failures = []
    for item, ranges in zip(texts, masked, strict=True):
        count = counts.setdefault(item.kind, Counter(texts=0))
        hidden = {at for start, end in ranges for at in range(start, end)}
        count["texts"] += 1
        if not item.secrets and hidden:
            count["masked"] += 1
            failures.append(f"masked {[item.text[a:b] for a, b in ranges]} in {item.text!r}")
        for start, end in item.secrets:
            letters = [at for at in range(start, end) if item.text[at].isalnum()]
            num_open = sum(at not in hidden for at in letters)
            state = "whole" if num_open == len(letters) else "part" if num_open else "found"
            count.update(["secrets", state])
            if num_open:
                failures.append(f"{state} {item.text[start:end]!r} in {item.text!r}")
    return counts, failures


def share(count: int, total: int) -> dict[str, Any]:
    if not total:
        return {"count": 0, "of": 0, "share": None, "low": 0.0, "high": 1.0}
    low, high = clopper_pearson(count, total, 0.95)
    return {"count": count, "of": total, "share": count / total, "low": low, "high": high}


def main() -> None:
    parser = command_line(__doc__, out=RESULTS / "short_texts.json")
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--policies", default=",".join(OWN_POLICIES))
    parser.add_argument("--dates-and-numbers", default="careful")
    parser.add_argument("--show", action="store_true", help="also every failure")
    given = parser.parse_args()
    texts = read(given.texts)
    policies = given.policies.split(",")
    results = redact([item.text for item in texts], policies=policies, dates_and_numbers=given.dates_and_numbers)
    ranges = [[(find.start, find.end) for find in result.finds] for result in results]
    counts, failures = score(texts, ranges)
    if given.show:
        print("\n".join(failures))
    total = sum(counts.values(), Counter())
    clean = sum(1 for item in texts if not item.secrets)
    document = {
        "schema_version": 1,
        "policies": policies,
        "dates_and_numbers": given.dates_and_numbers,
        "whole": share(total["whole"], total["secrets"]),
        "part": share(total["part"], total["secrets"]),
        "clean_texts_masked": share(total["masked"], clean),
        "kinds": {kind: dict(count) for kind, count in sorted(counts.items())},
    }
    print(*heading("kind", "texts", "secrets", "open whole", "in part", "masked though clean"), sep="\n")
    for kind, count in sorted(counts.items()):
        print(
            f"| {kind} | " + " | ".join(str(count[c]) for c in ("texts", "secrets", "whole", "part", "masked")) + " |"
        )
    print({name: document[name] for name in ("whole", "part", "clean_texts_masked")})
    write_json(given.out, document)


if __name__ == "__main__":
    main()
