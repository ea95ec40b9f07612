"""Extraction: a memorised secret comes out, what is common does not count, and documents hold no string."""

import json
import random
from itertools import product

import numpy as np
import pytest
from support.memorised import trained_on
from support.torch_threads import one_thread  # noqa: F401

from pipelines.attacks.extraction import ALL, search, tag_prompts, targeted, targets
from pipelines.attacks.prompting import EMPTY, Decoding
from pipelines.attacks.secret_search import DistinctSample, WrittenText, edits_between
from pipelines.gate.strings import Choice
from pipelines.training.encoded import Record

KEY = bytes(32)
CHOICE = Choice()
EVERY_LABEL = Choice(labels=frozenset({"ID", "PHONE", "PERSON", "DATE"}))


@pytest.mark.parametrize(
    ("string", "match"),
    [
        ("341752", "verbatim"),
        ("My id is 341752.", "verbatim"),
        ("41752", None),  # a part of a word
        ("555-123-4567", "verbatim"),
        ("555 1234567", "regrouped"),
        ("(5551)234567", "regrouped"),
        ("123 456", None),  # five digits of the number, and one of the next group's, make no group
        ("Annabel Lee-Smyth", "edited"),
        ("Annabell Lee Smith", "edited"),
        ("Aqnabel Lqe Smith", "edited"),
        ("Annabela Lea Smyth", None),  # three edits of eighteen characters
        ("12 Long Street", "one_word_off"),
        ("12 Very Long Street", "one_word_off"),
        ("12 Very Old Street", None),
        ("Annabel Lee Jones", "one_word_off"),
        ("Annabel Jones", None),  # one of two words
        ("Ann", None),
    ],
)
def test_how_a_string_is_found(string, match):
    written = WrittenText(
        ["My ID is 341752.", "call 555 123 4567 now", "it is Annabel Lee Smith", "12 quite Long Street, upstairs"],
        CHOICE,
        KEY,
    )
    assert written.match(CHOICE.normalise(string)) == match


def test_long_strings_are_found_whole():
    text = " ".join(f"word{n}" for n in range(30))
    written = WrittenText([text], CHOICE, KEY)
    words = text.split()
    assert written.has(" ".join(words[3:20]))
    assert not written.has(" ".join([*words[3:19], "other"]))
    assert written.has(" ".join(words[3:11]))
    assert not written.has(" ".join([*words[3:10], "other"]))


def test_nothing_is_found_across_two_texts():
    written = WrittenText(["call Annabel Lee", "Smith, 555 12", "34567 please"], CHOICE, KEY)
    assert [written.match(text) for text in ("annabel lee smith", "5551234567", "lee smith")] == [
        "one_word_off",  # "Annabel Lee" alone
        None,
        None,
    ]


def test_edit_distance_agrees_with_its_definition():
    def definition(left, right):
        if not left or not right:
            return len(left) + len(right)
        return min(
            definition(left[1:], right) + 1,
            definition(left, right[1:]) + 1,
            definition(left[1:], right[1:]) + (left[0] != right[0]),
        )

    words = ["".join(letters) for size in range(4) for letters in product("ab", repeat=size)]
    for left, right in product(words, words):
        for most in (0, 1, 2):
            assert edits_between(left, right, most) == min(definition(left, right), most + 1)


def test_edited_strings_are_found_wherever_they_differ():
    secret, rng = "annabel lee smith", random.Random(0)
    for at in range(len(secret)):
        if secret[at] == " ":
            continue
        for changed in (
            secret[:at] + "q" + secret[at + 1 :],
            secret[:at] + secret[at + 1 :],
            f"{secret[:at]}q{secret[at:]}",
        ):
            filler = " ".join(rng.choices(["well", "yes", "annabel", "so"], k=5))
            written = WrittenText([f"{filler} {changed} {filler}"], CHOICE, KEY)
            assert written.match(secret) == "edited", changed


def test_the_sample_of_a_long_stream_is_bounded_and_its_size_is_estimated():
    written = WrittenText([], CHOICE, KEY)
    estimates, kept = [], []
    for stream in range(12):
        sample = DistinctSample(100)
        for number in range(2_000):
            for _ in range(2):
                sample.add(written.digest(f"{stream}/{number}"), number)
            assert len(sample.items) <= 100
        estimates.append(len(sample.items) / sample.share)
        kept.append(len(sample.items))
    # About 1.2 / sqrt(100) relative (Flajolet 1990), over 12 streams.
    assert np.mean(estimates) == pytest.approx(2_000, rel=4 * 0.12 / np.sqrt(12))
    assert np.mean(kept) > 50
    few = DistinctSample(100)
    for number in range(100):
        few.add(written.digest(str(number)), number)
    assert (few.share, sorted(few.items.values())) == (1.0, list(range(100)))


def test_counts_are_of_distinct_secrets_and_stand_beside_the_reference_and_decoys():
    secrets = [
        *[("ID", "341752")] * 5,
        ("ID", "998877"),
        ("ID", "111222"),
        ("PHONE", "555 123 4567"),
        ("PHONE", "341752"),
        ("DATE", "Monday"),
        ("ID", "."),
    ]
    found = search(
        secrets,
        written=["My ID is 341752. Monday", "555123 4567"],
        written_by_reference=["Monday 111222", "Monday"],
        choice=EVERY_LABEL,
        decoys=[("ID", "Monday"), ("ID", "777777"), ("ID", "341-752"), ("PERSON", "Nobody")],
    )
    ids, phones, dates = (found.by_label[label] for label in ("ID", "PHONE", "DATE"))
    assert (ids.num_secrets, ids.num_distinct, ids.num_verbatim, ids.verbatim.value) == (7, 3, 1, 1 / 3)
    assert (ids.num_verbatim_reference, ids.num_model_only, ids.num_reference_only) == (1, 1, 1)
    assert ids.p_value == pytest.approx(3 / 4)  # one head or more of two tosses
    assert (phones.num_verbatim, phones.near.num_hits, phones.near_kinds) == (1, 1, {"regrouped": 1})
    # What is common comes out of both: nothing of it is the model's alone.
    assert (dates.num_verbatim, dates.num_model_only, dates.p_value) == (1, 0, 1.0)
    # "Monday" is a secret too, so it is no decoy; "341-752" is a string of its own, and its digits came out.
    assert (ids.verbatim_decoys.num_hits, ids.near_decoys.num_hits, ids.near_decoys.num_units) == (0, 1, 2)
    assert dates.verbatim_decoys is None
    together = found.by_label[ALL]
    assert (together.num_distinct, together.num_verbatim, together.num_secrets) == (5, 2, 10)
    assert found.left_out == {"too_short": 1}
    assert ids.verbatim.low < 1 / 3 < ids.verbatim.high


def test_of_many_secrets_all_are_searched_for_and_rates_are_of_a_sample():
    secrets = [("ID", str(10**6 + number)) for number in range(3_000)]
    written = [string for _, string in secrets[::4]]
    found = search(secrets, written=written, written_by_reference=[], choice=CHOICE, max_held=200).by_label["ID"]
    assert (found.num_verbatim, found.num_secrets, found.num_model_only) == (750, 3_000, 750)
    assert found.share_held < 0.1
    assert found.verbatim.num_units <= 200
    assert found.num_distinct == pytest.approx(3_000, rel=0.5)
    assert found.verbatim.num_hits / found.verbatim.num_units == pytest.approx(0.25, abs=0.17)  # 4 standard errors


def row(text, *secrets):
    spans = [{"start": text.index(s), "end": text.index(s) + len(s), "label": label} for s, label in secrets]
    return {"text": text, "speaker": "USR", "domain": None, "spans": spans}


def test_targets_are_drawn_uniformly_with_what_stands_before_them():
    rows = [row(f"I am Ann{n} and {n}{n}{n}", (f"Ann{n}", "PERSON"), (f"{n}{n}{n}", "ID")) for n in range(20)]
    (first, *_) = targets([rows[3]], CHOICE, 5, np.random.default_rng(0))
    assert (first.label, first.secret, list(first.prompt.texts)) == ("PERSON", "Ann3", ["I am"])
    assert not any(text in repr(first) for text in ("Ann3", "I am"))
    drawn = [t.secret for seed in range(400) for t in targets(rows, CHOICE, 4, np.random.default_rng(seed))]
    assert len(drawn) == 1_600
    counts = [drawn.count(secret) for secret in {t.secret for t in targets(rows, CHOICE, 40, np.random.default_rng(0))}]
    assert len(counts) == 40
    assert all(abs(count - 40) < 4.5 * np.sqrt(40 * 0.9) for count in counts)
    assert targets(rows, Choice(labels=frozenset({"PLACE"})), 4, np.random.default_rng(0)) == []


def test_targeted_rates_stand_beside_those_of_other_secrets():
    given = targets(
        [row("one 111111", ("111111", "ID")), row("two 222222", ("222222", "ID")), row("see Mo", ("Mo", "PERSON"))],
        CHOICE,
        9,
        np.random.default_rng(0),
    )
    found = targeted(
        given,
        written=[["111111", "222222"], ["no"], ["Mo 111111"]],
        written_by_reference=[["222222"], ["222222"], [""]],
        choice=CHOICE,
    )
    assert (found["ID"].model.value, found["ID"].reference.value) == (0.5, 0.5)
    assert found["ID"].chance == 0.5  # 222222 after "one", not 111111 after "two"
    assert (found["PERSON"].model.value, found["PERSON"].chance) == (1.0, None)
    assert (found[ALL].model.num_hits, found[ALL].chance) == (2, 0.5)
    assert targeted([], written=[], written_by_reference=[], choice=CHOICE) == {}


SECRET = "341752"


@pytest.fixture(scope="module")
def models():
    """Of two small models one has read the secret."""
    seen = [Record(texts=[f"My ID is {SECRET}."], speakers=["USR"]), Record(texts=["see you Monday"], speakers=["SYS"])]
    return trained_on(seen), trained_on([seen[1], Record(texts=["My ID is here."], speakers=["USR"])])


def test_a_memorised_secret_comes_out_of_the_model_that_read_it(models):
    rows = [row(f"My ID is {SECRET}.", (SECRET, "ID")), row("see you Monday", ("Monday", "DATE"))]
    prompts = [EMPTY, *tag_prompts([("USR", None), ("SYS", None), ("USR", None)])]
    assert len(prompts) == 3
    texts = []
    for model in models:
        rng = np.random.default_rng(0)
        drawn = Decoding(kind="sampling", num=8, max_new_tokens=20).write(model, prompts, rng)
        found = Decoding(kind="beams", max_new_tokens=20, num_beams=2).write(model, prompts, rng)
        texts.append([text for each in [*drawn, *found] for text in each])
    told = []
    strings = [(span["label"], r["text"][span["start"] : span["end"]]) for r in rows for span in r["spans"]]
    result = search(strings, written=texts[0], written_by_reference=texts[1], choice=EVERY_LABEL, report=told.append)
    assert (result.by_label["ID"].num_verbatim, result.by_label["ID"].num_verbatim_reference) == (1, 0)
    assert (result.by_label["DATE"].num_verbatim, result.by_label["DATE"].num_model_only) == (1, 0)
    assert {(f.label, f.string, f.match) for f in told} >= {("ID", SECRET, "verbatim")}
    given = targets(rows, EVERY_LABEL, 9, np.random.default_rng(0))
    greedy = Decoding(kind="greedy", max_new_tokens=12)
    answers = [greedy.write(model, [t.prompt for t in given], np.random.default_rng(0)) for model in models]
    found = targeted(given, written=answers[0], written_by_reference=answers[1], choice=EVERY_LABEL)
    assert (found["ID"].model.value, found["ID"].reference.value) == (1.0, 0.0)
    assert (found["DATE"].model.value, found["DATE"].reference.value) == (1.0, 1.0)
    document = json.dumps([result.document(), {label: r.document() for label, r in found.items()}])
    assert all(word not in document for word in (SECRET, "Monday", "see", "My ID"))
    assert all(word not in repr([result, told, given]) for word in (SECRET, "Monday", "My ID"))
