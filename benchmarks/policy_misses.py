"""The sentences that `conservative` misses, and the tokens that masking policies find, on noisy and on real text.

    python benchmarks/policy_misses.py [--data-dir FOLDER] [--sentences 12000] [--seed 7]

The noisy sets are those of ``tests/policies/detectors/noisy``; each file says whether it was looked at when a policy
was changed. With a folder of corpora: MultiDoGO (every slot label is a secret), CustomerSim (no labels, so only the
public share) and presidio-research, as it is and in small letters, in capitals, without punctuation, and with 3 % of
the letters written twice. Intervals: Clopper-Pearson, 95 %, which takes sentences as independent; those of one frame
are not quite.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from common import RESULTS, command_line, write_json
from data_sets import (
    DOMAINS,
    SETS,
    Text,
    customersim,
    multidogo_words,
    noisy_sentences,
    presidio_research,
    sentences_of,
)

from pipelines.intervals import clopper_pearson
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.protocol import Sentence
from pipelines.policies.redact import token_mask

PI = ("addresses", "high_entity", "presidio", "propagate")
CUSTOMERSIM_KINDS = {"NAME", "ADDRESS", "PHONE", "CODE"}


def by_sentence(texts: Iterable[Text], mode: str = "turns") -> dict[str, Any]:
    """Counts the sentences that `conservative` leaves public, and those of them that bear a secret."""
    rows = list(sentences_of(texts, mode))
    judged = Redactor.from_spec(RedactorSpec(policies=("digits",), conservative="conservative")).judge(
        [request for request, _ in rows]
    )
    public = [not verdict.flagged for verdict in judged]
    bearing = [is_public for is_public, (_, gold) in zip(public, rows, strict=True) if gold]
    others = [is_public for is_public, (_, gold) in zip(public, rows, strict=True) if not gold]
    figures: dict[str, Any] = {
        "num_sentences": len(rows),
        "public": round(sum(public) / len(public), 4),
        "num_bearing_a_secret": len(bearing),
        "public_of_the_others": round(sum(others) / len(others), 4),
    }
    if bearing:
        low, high = clopper_pearson(sum(bearing), len(bearing), 0.95)
        figures |= {"num_missed": sum(bearing), "missed": round(sum(bearing) / len(bearing), 5)}
        figures |= {"low": round(low, 5), "high": round(high, 5)}
    return figures


def token_recall(texts: Iterable[Text], policies: tuple[str, ...], kinds: set[str] | None = None) -> dict[str, Any]:
    """Measures the share of the secrets' tokens that policies mask as in a run; each text is a document."""
    rows = list(sentences_of(texts, "turns"))
    found = total = masked = tokens = 0
    spec = RedactorSpec(policies=policies, stabilise=True)
    verdicts = Redactor.from_spec(spec).judge([request for request, _ in rows])
    for (request, gold), verdict in zip(rows, verdicts, strict=True):
        mask = token_mask(len(request.starts), verdict.spans)
        sentence = Sentence(*request[:3])
        wanted = {
            token
            for start, end, kind in gold
            if (kinds is None or kind in kinds) and (tokens_of := sentence.widen(start, end)) is not None
            for token in range(*tokens_of)
        }
        found, total = found + sum(mask[token] for token in wanted), total + len(wanted)
        masked, tokens = masked + sum(mask), tokens + len(mask)
    return {
        "num_tokens_of_secrets": total,
        "token_recall": round(found / total, 4),
        "masked": round(masked / tokens, 4),
    }


def multidogo(folder: Path, part: str) -> Iterator[Text]:
    """Yields the turns of MultiDoGO; any slot label makes a sentence one with a secret."""
    for domain in DOMAINS:
        for words, slots in multidogo_words(folder, domain, part):
            text = " ".join(words)
            yield text, [(0, len(text), "SLOT")] if set(slots) - {"O"} else []


def main() -> None:
    parser = command_line(__doc__, data_dir=False, out=RESULTS / "policy_misses.json")
    parser.add_argument("--sentences", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    folder = " --data-dir FOLDER" if given.data_dir is not None else ""
    command = f"python benchmarks/policy_misses.py{folder} --sentences {given.sentences} --seed {given.seed}"
    rng = random.Random(given.seed)
    changes: dict[str, Callable[[str], str]] = {
        "as it is": str,
        "lower case": str.lower,
        "capitals": str.upper,
        "no punctuation": lambda text: re.sub(r"[^\w\s]", "", text),
        "typos": lambda text: re.sub(r"[a-z]", lambda m: m[0] * (1 + (rng.random() < 0.03)), text),
    }
    document: dict[str, Any] = {"command": command, "conservative": {}, "masking": {}}
    for which in SETS:
        made = list(noisy_sentences(which, given.sentences, given.seed))
        document["conservative"][f"noisy {which}"] = by_sentence(made)
        document["masking"][f"customersim, its kinds, noisy {which}"] = token_recall(
            made[:3_000], ("customersim",), CUSTOMERSIM_KINDS
        )
        document["masking"][f"{','.join(PI)}, noisy {which}"] = token_recall(made[:3_000], PI)
    if given.data_dir is not None:
        for part in ("test", "train"):
            document["conservative"][f"MultiDoGO {part}"] = by_sentence(multidogo(given.data_dir, part))
        document["conservative"]["CustomerSim test"] = by_sentence(customersim(given.data_dir))
        for name, change in changes.items():
            document["conservative"][f"presidio-research, {name}"] = by_sentence(
                presidio_research(given.data_dir, change), "rules"
            )
    print(write_json(given.out, document))


if __name__ == "__main__":
    main()
