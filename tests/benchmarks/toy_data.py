"""Small made-up files in the places and formats of the data sets that benchmarks read."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from wordnet import MEDICAL, PREMISES, SENSITIVE

from pipelines.corpus.customersim import simulate

FIRST = ("Mary", "Ann", "Peter", "Omar", "Ines", "Ravi", "Lena", "Hugo")
LAST = ("Jones", "Keller", "Smith", "Garcia", "Novak", "Tanaka", "Diallo", "Berg")
PLACES = ("Paris", "Boston", "Mumbai", "Leeds", "Oslo", "Lima")
WORDS = """
    the old bridge crosses a wide river near the mill and many people walk there in summer while boats carry stone and
    wood from small villages to the market where traders sell bread cheese wool tools books and fresh fruit every
    morning before a long train leaves its station with letters for distant towns
""".split()  # noqa: SIM905
SLOTS = {
    "airline": (("booking code", "booking_confirmation_number", "QX"), ("aisle seat", "seat_type", "aisle")),
    "insurance": (("policy number", "policyid", "PL"), ("family car", "car_model", "sedan")),
    "media": (("data plan", "datacategoryvalues", "GB"), ("internet router", "service_type", "fibre")),
}
FOLDS = ("train", "dev", "test")


def write_toy_data(folder: Path) -> Path:
    """Writes them all."""
    draw = random.Random(0)
    _wikitext2(folder / "wikitext2", draw)
    _multidogo(folder / "multidogo", draw)
    _ner(folder / "ner", draw)
    _customersim(folder / "customersim")
    _presidio_research(folder / "presidio_research", draw)
    _sst2(folder / "sst2", draw)
    _e2e(folder / "e2e", draw)
    _gpt2_tokenizer(folder / "gpt2_tokenizer")
    _wordnet(folder / "wordnet")
    return folder


def _name(draw: random.Random) -> str:
    return f"{draw.choice(FIRST)} {draw.choice(LAST)}"


def _sentence(draw: random.Random) -> str:
    words = draw.choices(WORDS, k=14)
    words[draw.randrange(2, 14)] = f"{_name(draw)} of {draw.choice(PLACES)}" if draw.random() < 0.4 else "quietly"
    return f"{words[0].capitalize()} {' '.join(words[1:])} ."


def _lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rows(path: Path, rows: Iterable[object]) -> None:
    _lines(path, map(json.dumps, rows))


def _wikitext2(folder: Path, draw: random.Random) -> None:
    for name, size in (("train", 240), ("valid", 120), ("test", 120)):
        lines = []
        for number in range(size):
            if number % 8 == 0:
                lines += [" ", f" = {name} article {number} = ", " "]
            lines.append(f" {' '.join(_sentence(draw) for _ in range(3))} ")
        _lines(folder / f"wiki.{name}.raw", lines)


def _said(domain: str, draw: random.Random) -> Iterator[tuple[str, str]]:
    (first, label, start), (second, other, value) = SLOTS[domain]
    yield "hi good morning", "O O O"
    yield f"my {first} is {start}{draw.randrange(10_000)} please", f"O O O O {label} O"
    yield f"i am {_name(draw).lower()} from {draw.choice(PLACES).lower()}", "O O name name O city"
    yield f"i would like {second} {value} instead", f"O O O O O {other} O"
    yield f"write to user{draw.randrange(99)}@example.com today", "O O email_address O"
    yield "ok thank you very much", "O O O O O"


def _multidogo(folder: Path, draw: random.Random) -> None:
    for domain in SLOTS:
        for fold in FOLDS:
            lines = ["conversationId\tturnNumber\tsentenceNumber\tutteranceId\tutterance\tslot-labels\tintent"]
            for number in range(40):
                name = f"{domain}-{fold}-{number:04d}"
                for turn, (text, labels) in enumerate(_said(domain, draw)):
                    lines.append(f"{name}\t{2 * turn}\t0\t<CONV>{name}<TURN>{turn}\t{text}\t{labels}\tcontentonly")
            _lines(folder / domain / f"{fold}.tsv", lines)


def _ner(folder: Path, draw: random.Random) -> None:
    for name, (person, place) in {
        "btc_dev": ("PER", "LOC"),
        "btc_train": ("PER", "LOC"),
        "wnut17_dev": ("person", "location"),
        "wnut17_train": ("person", "location"),
    }.items():
        lines = []
        for _ in range(60):
            given, family = _name(draw).split()
            tagged = [(word, "O") for word in draw.choices(WORDS, k=5)]
            tagged += [(given, f"B-{person}"), (family, f"I-{person}"), ("in", "O")]
            tagged += [(draw.choice(PLACES), f"B-{place}"), ("today", "O")]
            lines += [f"{word}\t{tag}" for word, tag in tagged] + [""]
        _lines(folder / f"{name}.conll", lines)


def _customersim(folder: Path) -> None:
    for seed, name in enumerate(("train", "valid", "test")):
        _rows(folder / f"{name}.jsonl", simulate(30, seed))


def _presidio_research(folder: Path, draw: random.Random) -> None:
    rows = []
    for number in range(60):
        name, place = _name(draw), draw.choice(PLACES)
        text = f"{name} moved to {place} and the old bridge is near"
        spans = [
            {"entity_type": kind, "entity_value": value, "start_position": text.index(value)}
            for kind, value in (("PERSON", name), ("GPE", place))
        ]
        spans = [{**span, "end_position": span["start_position"] + len(span["entity_value"])} for span in spans]
        if number % 3 == 0:
            text, spans = " ".join(draw.choices(WORDS, k=8)), []
        rows.append({"full_text": text, "masked": text, "spans": spans, "template_id": number, "metadata": None})
    folder.mkdir(parents=True)
    (folder / "synth_dataset_v2.json").write_text(json.dumps(rows), encoding="utf-8")


def _sst2(folder: Path, draw: random.Random) -> None:
    feelings = ("dull and slow", "charming and warm")
    rows = [(number % 2, f"{feelings[number % 2]} {' '.join(draw.choices(WORDS, k=6))}") for number in range(300)]
    _lines(folder / "train.tsv", ["label\tsentence", *(f"{label}\t{text}" for label, text in rows[:240])])
    _rows(
        folder / "dev.jsonl", ({"idx": n, "a": text, "label": str(label)} for n, (label, text) in enumerate(rows[240:]))
    )
    _lines(
        folder / "sst_test_labelled_1821.tsv", ["label\tcontent", *(f"{label}\t{text}" for label, text in rows[240:])]
    )


def _e2e(folder: Path, draw: random.Random) -> None:
    pairs = []
    for _ in range(160):
        place, area = f"The {draw.choice(LAST)} Inn", draw.choice(("riverside", "city centre"))
        table = f"name[{place}], eatType[pub], area[{area}]"
        pairs.append((table, f"{place} is a pub in the {area} ."))
    _rows(folder / "train_tok.jsonl", ({"mr": table, "ref_tokenised": text} for table, text in pairs))
    _rows(folder / "valid_tok.jsonl", ({"mr": table, "ref_tokenised": text} for table, text in pairs[:40]))
    for name in ("devset", "testset_w_refs"):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("mr", "ref"), *pairs[:60]])


def _gpt2_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator([*WORDS, *FIRST, *LAST], trainers.BpeTrainer(vocab_size=400, show_progress=False))
    folder.mkdir(parents=True)
    made.save(str(folder / "tokenizer.json"))
    ranked = sorted(made.get_vocab(), key=made.get_vocab().__getitem__)
    words = [f"\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}{word}" for word in dict.fromkeys(WORDS)]
    (folder / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate([*words, *ranked])}))


def _wordnet(folder: Path) -> None:
    """A word or two of each part of speech, as wndb(5WN) says."""
    nouns = [
        "00001740 03 n 01 entity 0 000 | that which exists",
        "00001930 17 n 01 bridge 0 001 @ 00001740 n 0000 | a way",
        *(
            f"{2_000 + number:08} 26 n 01 {noun} 0 001 @ 00001740 n 0000 | {gloss}"
            for number, (noun, gloss) in enumerate({**SENSITIVE, **PREMISES, **MEDICAL}.items())
        ),
    ]
    for part, letter, lines in (
        ("noun", "n", nouns),
        ("verb", "v", ["00001740 29 v 01 walk 0 000 01 + 02 00 | go on foot"]),
        ("adj", "a", ["00001740 00 a 01 old 0 000 | not young"]),
        ("adv", "r", ["00001740 02 r 01 quietly 0 000 | without noise"]),
    ):
        _lines(folder / f"data.{part}", ["  1 a licence", *lines])
        index = (f"{line.split()[4]} {letter} 1 0 1 0 {line.split()[0]}" for line in lines)
        _lines(folder / f"index.{part}", ["  1 a licence", *index])
        _lines(folder / f"{part}.exc", ["went go"] if part == "verb" else [])
