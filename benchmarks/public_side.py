"""The sentences that a conservative policy leaves public, and those of them that bear a secret, on unseen text.

    python benchmarks/public_side.py --data-dir FOLDER [--policies conservative,calibrated] [--mask high_entity]
        [--part held-out|looked-at] [--out FILE]

``held-out`` parts were neither fitted on nor looked at when `calibrated` was made or its limits set; ``looked-at``
ones were one or both. Every distinct sentence counts once, as deduplication leaves it, and bears a secret if any copy
does. It is *missed* if it bears one and the policy does not flag it. ``num_missed_unmasked`` counts those of them in
which ``--mask`` masks nothing either: only they become public. Plain sentences bear no secret; unmasked ones hold no
mask, whatever they bear.

What is unfair: labels are the data sets' own. MultiDoGO's are slots, also where they tell nothing ("phone service"),
and some names have none; WNUT-17 and BTC label firms and works, and hold tokens where a person writes text; WikiText-2
has no labels, so nothing is missed there. `conservative` was looked at on all parts but noisy E. Intervals:
Clopper-Pearson, 95 %, for sentences drawn as these were, independently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from common import RESULTS, command_line, write_json
from data_sets import Text, customersim, ner, noisy_sentences, presidio_research, sentences_of, wikitext
from policy_misses import multidogo

from pipelines.corpus.customersim import simulate
from pipelines.intervals import clopper_pearson
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Request

Corpora = dict[str, tuple[str, Callable[[], Iterable[Text]]]]
"""The mode of cutting into sentences, and the texts, by name of a corpus."""


def job(seed: int, dialogues: int = 1_000) -> Iterator[Text]:
    """Yields the turns of the built-in job, each once: one dialogue in ten is of template set B."""
    seen = set()
    for made in (*simulate(dialogues - dialogues // 10, seed), *simulate(dialogues // 10, seed, "B")):
        at = 0
        for line in made["text"].splitlines():
            start = at + len("SYS: ")
            text = line[len("SYS: ") :]
            if line not in seen:
                inside = [s for s in made["spans"] if start <= s["start"] < start + len(text)]
                yield text, [(s["start"] - start, s["end"] - start, s["label"]) for s in inside]
            seen.add(line)
            at += len(line) + 1


def corpora(folder: Path, part: str) -> Corpora:
    def labelled(name: str) -> tuple[str, Callable[[], Iterable[Text]]]:
        return "turns", lambda: ner(folder, name)

    def noisy(which: str) -> tuple[str, Callable[[], Iterable[Text]]]:
        return "turns", lambda: noisy_sentences(which, 6_000, 7)

    def articles(name: str) -> tuple[str, Callable[[], Iterable[Text]]]:
        return "rules", lambda: ((line, []) for line in wikitext(folder, name, headings=True))

    if part == "held-out":
        changes = {"": str, " in small letters": str.lower, " in capitals": str.upper}
        presidio = {
            f"presidio-research{name}": ("rules", lambda change=change: presidio_research(folder, change))
            for name, change in changes.items()
        }
        return {
            "MultiDoGO test": ("turns", lambda: multidogo(folder, "test")),
            "WNUT-17 dev": labelled("wnut17_dev"),
            "BTC dev": labelled("btc_dev"),
            **presidio,
            "noisy E": noisy("E"),
            "WikiText-2 test": articles("test"),
            "CustomerSim test": ("turns", lambda: customersim(folder)),
            "built-in job, each turn once": ("turns", lambda: job(0)),
        }
    return {
        "MultiDoGO dev": ("turns", lambda: multidogo(folder, "dev")),
        "MultiDoGO train": ("turns", lambda: multidogo(folder, "train")),
        "WNUT-17 train": labelled("wnut17_train"),
        "BTC train": labelled("btc_train"),
        **{f"noisy {which}": noisy(which) for which in "ABCD"},
        "WikiText-2 valid": articles("valid"),
    }


def figures(texts: Iterable[Text], mode: str, policies: tuple[str, ...], mask: tuple[str, ...]) -> dict[str, Any]:
    """Returns shares and counts by conservative policy."""
    distinct: dict[str, tuple[Request, bool]] = {}
    for request, gold in sentences_of(texts, mode):
        bears_one = bool(gold) or (request.text in distinct and distinct[request.text][1])
        distinct[request.text] = (request, bears_one)
    rows = list(distinct.values())
    requests = [request for request, _ in rows]
    masked = [bool(v.spans) for v in Redactor.from_spec(RedactorSpec(policies=mask, stabilise=True)).judge(requests)]
    bears = [bears_one for _, bears_one in rows]
    found: dict[str, Any] = {
        "num_sentences": len(rows),
        "num_bearing_a_secret": sum(bears),
        "num_unmasked": len(rows) - sum(masked),
    }
    for policy in policies:
        redactor = Redactor.from_spec(RedactorSpec(policies=("digits",), conservative=policy))
        redactor.judge(requests[:10])  # loads lists and models
        began = time.process_time()
        judged = redactor.judge(requests)
        seconds = time.process_time() - began
        public = [not verdict.flagged for verdict in judged]
        missed = sum(p and b for p, b in zip(public, bears, strict=True))
        interval = clopper_pearson(missed, sum(bears), 0.95) if any(bears) else None
        found[policy] = {
            "num_missed": missed,
            "missed": None if interval is None else [round(limit, 5) for limit in interval],
            "num_missed_unmasked": sum(p and b and not m for p, b, m in zip(public, bears, masked, strict=True)),
            "public_of_plain": _share(p for p, b in zip(public, bears, strict=True) if not b),
            "public_of_unmasked": _share(p for p, m in zip(public, masked, strict=True) if not m),
            "sentences_per_second": round(len(rows) / seconds),
            "public": _share(p and not m for p, m in zip(public, masked, strict=True)),
        }
    return found


def _share(of: Iterable[bool]) -> float | None:
    listed = list(of)
    return round(sum(listed) / len(listed), 4) if listed else None


def main() -> None:
    parser = command_line(__doc__, data_dir=True, out=RESULTS / "public_side.json")
    parser.add_argument("--policies", default="conservative")
    parser.add_argument("--mask", default="high_entity")
    parser.add_argument("--part", choices=("held-out", "looked-at"), default="held-out")
    parser.add_argument("--texts", type=int, help="at most so many of each corpus: to see that it runs")
    given = parser.parse_args()
    policies, mask = tuple(given.policies.split(",")), tuple(given.mask.split(","))
    document = {
        "command": f"python benchmarks/public_side.py --data-dir FOLDER --policies {given.policies} "
        f"--mask {given.mask} --part {given.part}",
        "corpora": {
            name: figures(islice(texts(), given.texts), mode, policies, mask)
            for name, (mode, texts) in corpora(given.data_dir, given.part).items()
        },
    }
    print(write_json(given.out, document))


if __name__ == "__main__":
    main()
