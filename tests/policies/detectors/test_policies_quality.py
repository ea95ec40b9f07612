"""Recall of `customersim` on both template sets, and what `conservative` lets pass."""

import csv
import json

import pytest

from pipelines.corpus.customersim import simulate
from pipelines.corpus.split import Splitter
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy


def lines_of(template_set, num_dialogues):
    """(line without its speaker, gold spans in it)."""
    for dialogue in simulate(num_dialogues, 11, template_set):
        at = 0
        for line in dialogue["text"].splitlines():
            tag = line.index(": ") + 2
            spans = [
                (s["start"] - at - tag, s["end"] - at - tag)
                for s in dialogue["spans"]
                if at <= s["start"] < at + len(line)
            ]
            yield line[tag:], spans
            at += len(line) + 1


@pytest.mark.parametrize(("template_set", "least"), [("A", 0.99), ("B", 0.98)])
def test_customersim_finds_secrets_in_wordings_and_formats_of_both_sets(template_set, least):
    policy = make_policy(PolicyOptions(name="customersim"))
    splitter = Splitter()
    found = total = masked = tokens = 0
    for text, gold in lines_of(template_set, 150):
        starts, ends = splitter.tokens(text)
        sentence = Sentence(text, starts, ends)
        mask = {i for s in policy.find(sentence) for i in range(s.start_token, s.end_token)}
        masked, tokens = masked + len(mask), tokens + len(starts)
        for span in gold:
            wanted = set(range(*sentence.widen(*span)))
            total, found = total + len(wanted), found + len(wanted & mask)
    assert found / total >= least
    assert masked / tokens < 0.2


@pytest.mark.slow
def test_customersim_finds_the_values_of_the_published_database(shared_data):
    """Where they stand in the published dialogues (a few names: most of the database is of other dialogues), and each
    value in an answer of its own."""
    folder = shared_data / "customersim"
    with (folder / "database_500.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = {row["name"] for row in rows}
    lines = [
        turn.partition(": ")[2]
        for part in ("train", "valid", "test")
        for line in (folder / f"{part}.jsonl").open(encoding="utf-8")
        if any(name in line for name in names)
        for turn in json.loads(line)["text"].splitlines()
    ]
    found = [(line, name) for line in lines for name in sorted(names) if name in line]
    assert len(found) >= 5
    frames = ("{}", "Sure, it is {}.", "My number is {}.")
    found += [
        (frames[i % 3].format(row[column]), row[column])
        for i, row in enumerate(rows[::2])
        for column in ("name", "address", "phone_number", "order_number")
        if column != "name" or i % 3 < 2
    ]
    policy = make_policy(PolicyOptions(name="customersim"))
    splitter = Splitter()
    num_masked = 0
    for text, value in found:
        sentence = Sentence(text, *splitter.tokens(text))
        mask = {i for s in policy.find(sentence) for i in range(s.start_token, s.end_token)}
        start = text.index(value)
        num_masked += set(range(*sentence.widen(start, start + len(value)))) <= mask
    assert num_masked / len(found) >= 0.99


def judged(policy, splitter, texts):
    """For each sentence: whether it would be public, and whether it bears a secret."""
    for text, gold in texts:
        for sentence in next(iter(splitter.split([text]))):
            end = sentence.char_start + len(sentence.text)
            bears = any(a < end and b > sentence.char_start for a, b in gold)
            row = Sentence(sentence.text, sentence.token_starts, sentence.token_ends)
            yield not policy.find(row), bears


SECRETS = [
    "john smith",
    "Priya",
    "12 elm st",
    "555-123-4567",
    "j.doe@x.com",
    "seventy nine",
    "delhi",
    "acme ltd",
    "03/04/1999",
]
FRAMES = ["my name is {}", "i live at {} thanks", "please call {}", "{}", "it was {} i think", "we met {} on the train"]


def test_conservative_flags_secrets_however_they_are_written():
    policy = make_policy(PolicyOptions(name="conservative"))

    splitter = Splitter(mode="turns")
    for secret in SECRETS:
        for frame in FRAMES:
            text = frame.format(secret)
            for written in (
                text,
                text.upper(),
                text.title(),
                text.replace(".", "").replace("-", " "),
                text.capitalize(),
            ):
                assert not any(public for public, _ in judged(policy, splitter, [(written, [])])), written
    plain = "thank you very much for your help today. i would like to change my order please. where is it now?"
    assert all(public for public, _ in judged(policy, Splitter(mode="rules"), [(plain, [])]))


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["airline", "insurance", "media"])
def test_conservative_on_multidogo(shared_data, domain):
    rows = []
    for line in (shared_data / "multidogo" / domain / "test.tsv").read_text("utf-8", "replace").splitlines()[1:]:
        columns = line.split("\t")
        if len(columns) == 7 and len(columns[4].split()) == len(columns[5].split()):
            rows.append((" ".join(columns[4].split()), [(0, 1)] if set(columns[5].split()) - {"O"} else []))
    verdicts = list(judged(make_policy(PolicyOptions(name="conservative")), Splitter(mode="turns"), rows))
    bearing = [public for public, bears in verdicts if bears]
    assert sum(bearing) / len(bearing) <= 0.01
    assert sum(public for public, _ in verdicts) / len(verdicts) >= 0.2
