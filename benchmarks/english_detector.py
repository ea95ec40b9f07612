"""The finds of the small English detector on text that its recipe did not use, beside the default policies.

    python benchmarks/english_detector.py --data-dir FOLDER --of-btc FOLDER --of-wnut FOLDER [--shipped FOLDER]
    python benchmarks/english_detector.py --data-dir FOLDER --choose /tmp/of_btc:btc_dev
    python benchmarks/english_detector.py --data-dir FOLDER --choose /tmp/of_wnut:wnut17_train
    python benchmarks/english_detector.py --data-dir FOLDER --of-btc FOLDER --threshold 0.7 --out FILE

The folders are those of `benchmarks/train_english_detector.py`: the one learnt from the Broad Twitter Corpus is judged
on the dev part of WNUT-17 and the other way round; the one that ships, on presidio-research and MultiDoGO. Tokens are
those of a run. Precision: what is masked as a person and is one; what is masked and is anything labelled.

``--choose`` never sees the set that is judged: it prints recall, precision and F2 of persons by threshold on texts of
the set that a detector learnt from, but which it did not learn (a dev part; of a train part, the fifth of
``--hold-out``), labelled as the recipe labels them, and the threshold with the highest F2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from common import RESULTS, command_line, write_json
from data_sets import Text, multidogo, presidio_research, sentences_of
from train_english_detector import parted, tweets

from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.scoring import f2
from pipelines.policies.learning.examples import read_conll
from pipelines.policies.protocol import Sentence

UNION = ("addresses", "high_entity", "identifiers", "presidio")
INFORMAL = ("addresses", "identifiers", "token_classifier")
"""The detector in place of spaCy's entities, which take many words of informal text for persons."""
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PERSONS = {"PERSON", "name", "NAME"}


def conll(path: Path) -> list[Text]:
    """Reads texts and labels as they are: handles are persons only if they are labelled so."""
    with path.open(encoding="utf-8") as lines:
        return [(example.text, list(example.spans)) for example in read_conll(lines, path.name)]


def score(
    texts: Iterable[Text], policies: tuple[str, ...], folder: Path | None, threshold: float | None = None
) -> dict[str, Any]:
    """Measures token recall of persons and of all, precision, and the masked share."""
    rows = list(sentences_of(texts, "turns"))
    options: dict[str, Any] = (
        {} if folder is None else {"token_classifier": str(folder.absolute()), "token_classifier_device": "cpu"}
    )
    if folder is not None and threshold is not None:
        options["token_classifier_threshold"] = threshold
    spec = RedactorSpec(policies=policies, options=options, stabilise=True)
    counts = dict.fromkeys(("person", "persons", "any", "all", "masked", "tokens", "called", "right"), 0)
    for (request, gold), verdict in zip(
        rows, Redactor.from_spec(spec).judge([request for request, _ in rows]), strict=True
    ):
        sentence = Sentence(*request[:3])
        persons: set[int] = set()
        labelled: set[int] = set()
        for start, end, kind in gold:
            tokens = set(range(*(sentence.widen(start, end) or (0, 0))))
            labelled |= tokens
            persons |= tokens if kind in PERSONS else set()
        mask = {token for span in verdict.spans for token in range(span.start_token, span.end_token)}
        called = {t for s in verdict.spans if s.label in PERSONS for t in range(s.start_token, s.end_token)}
        found = {
            "person": len(mask & persons),
            "persons": len(persons),
            "any": len(mask & labelled),
            "all": len(labelled),
            "masked": len(mask),
            "tokens": sentence.num_tokens,
            "called": len(called),
            "right": len(called & persons),
        }
        counts = {name: counts[name] + number for name, number in found.items()}
    return {
        "num_tokens_of_persons": counts["persons"],
        "person_recall": round(counts["person"] / counts["persons"], 3),
        "person_precision": round(counts["right"] / max(1, counts["called"]), 3),
        "recall": round(counts["any"] / counts["all"], 3),
        "precision": round(counts["any"] / max(1, counts["masked"]), 3),
        "masked": round(counts["masked"] / counts["tokens"], 4),
    }


def choose(data_dir: Path, folder: Path, part: str) -> None:
    """Prints the figures of each threshold, and the one with the highest F2 of persons."""
    examples = tweets(data_dir / "ner" / f"{part}.conll")
    held_out = parted(examples)[0] if part.endswith("_train") else examples
    texts: list[Text] = [(example.text, list(example.spans)) for example in held_out]
    found = {}
    for threshold in THRESHOLDS:
        figures = score(texts, ("token_classifier",), folder, threshold)
        found[threshold] = f2(figures["person_precision"], figures["person_recall"]) or 0.0
        rates = (figures["person_recall"], figures["person_precision"], round(found[threshold], 3))
        print(part, threshold, *rates, flush=True)
    print("highest F2:", max(found, key=found.__getitem__))


def main() -> None:
    parser = command_line(__doc__, data_dir=True, out=RESULTS / "english_detector.json")
    parser.add_argument("--of-btc", type=Path)
    parser.add_argument("--of-wnut", type=Path)
    parser.add_argument("--shipped", type=Path)
    parser.add_argument("--threshold", type=float, help="threshold of the detectors; by default that of their folder")
    parser.add_argument("--choose", metavar="FOLDER:PART", help="only choose a threshold on held-out texts")
    given = parser.parse_args()
    if given.choose:
        folder, _, part = given.choose.rpartition(":")
        choose(given.data_dir, Path(folder), part)
        return
    ner = given.data_dir / "ner"
    sets = [("WNUT-17 dev, learnt from BTC", conll(ner / "wnut17_dev.conll"), given.of_btc)]
    sets += [("BTC dev, learnt from WNUT-17", conll(ner / "btc_dev.conll"), given.of_wnut)]
    if given.shipped is not None:
        research = list(presidio_research(given.data_dir, str))
        sets += [("presidio-research", research, given.shipped)]
        lower = list(presidio_research(given.data_dir, str.lower))
        sets += [("presidio-research, lower case", lower, given.shipped)]
        sets += [("MultiDoGO dev", list(multidogo(given.data_dir, "dev")), given.shipped)]
    document: dict[str, Any] = {}
    for name, texts, folder in sets:
        if folder is not None:
            document[name] = {
                "union": score(texts, UNION, None),
                "detector": score(texts, ("token_classifier",), folder, given.threshold),
                "addresses, identifiers and detector": score(texts, INFORMAL, folder, given.threshold),
                "union and detector": score(texts, (*UNION, "token_classifier"), folder, given.threshold),
            }
            print(name, json.dumps(document[name], indent=1), flush=True)
    write_json(given.out, document)


if __name__ == "__main__":
    main()
