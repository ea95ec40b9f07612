"""What is masked in one sentence and stands in another is held there: it is neither published nor read as it is."""

import itertools

import pytest
from gate_corpora import through_the_gate
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.tables import read_table

from pipelines.corpus.tables import SENTENCES
from pipelines.errors import PrivacyGateError
from pipelines.gate import masked_strings
from pipelines.gate.hits import ranges_of
from pipelines.gate.strings import Choice, StringIndex, places_of_words, words_of
from pipelines.graph import GRAPH
from pipelines.mask import MASK
from pipelines.policies.held import HELD, held_rows, masked_text
from pipelines.policies.tables import REDACTED
from pipelines.settings.gate import GateConfig
from pipelines.settings.train import TrainConfig
from pipelines.tables import Table
from pipelines.training.data.rows import original_rows, typed_rows

ANY_TEXT = st.text(st.sampled_from("abZÉéßİıſﬁ１2 3-'’.,don王伟e\u0301Σςk\u212a"), max_size=30)
HOLD = GateConfig(max_held_fraction=1.0)
TABLES = (("sentences", SENTENCES), ("redacted", REDACTED))


@pytest.mark.parametrize("case_sensitive", [False, True])
@settings(deadline=None, max_examples=300)
@given(text=ANY_TEXT | st.text(max_size=20))
def test_words_and_their_places_are_the_same_words(case_sensitive, text):
    places = places_of_words(text, case_sensitive=case_sensitive)
    assert [word for word, _, _ in places] == words_of(text, case_sensitive=case_sensitive)
    for word, start, end in places:
        assert 0 <= start < end <= len(text)
        assert word in " ".join(words_of(text[start:end], case_sensitive=case_sensitive)) or len(word) == 1


@settings(deadline=None, max_examples=300)
@given(st.lists(ANY_TEXT, min_size=1, max_size=4), ANY_TEXT)
def test_whatever_is_found_is_masked(masked, text):
    choice = Choice()
    strings = {string: "NAME" for found in masked if (string := choice.normalise(found))}
    assume("mask" not in strings)
    index = StringIndex(strings)
    ranges = ranges_of(text, strings, choice)
    assert bool(ranges) == bool(index.find(words_of(text)))
    assert all(0 <= start < end <= len(text) for start, end in ranges)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))
    assert not index.find(words_of(masked_text(text, ranges)))


# --- planted secrets ----------------------------------------------------------------------------------------------

NAMES = [
    "Zebulon Quackenbush",
    "O'Brien",
    "José Núñez",
    "5551234567",
    "Ann-Marie Ó Súil",
    "Rich Hall",
    "X9KQ77",
    "王小伟",
]
PLAIN = ["all is well", "thank you so much", "please call me back", "it isn't here", "say it again", "I don't know"]


def spelt(name):
    """Ways in which one is written that the gate takes for equal."""
    ways = [name, name.lower(), name.upper(), name.replace(" ", "\u00a0"), name.replace(" ", " - "), f"({name})"]
    ways += [name.replace("'", "’"), name.replace("é", "e").replace("ú", "u").replace("ñ", "n")]
    if name.isdigit():
        ways += [f"{name[:3]}-{name[3:6]}-{name[6:]}", f"+1 ({name[:3]}) {name[3:6]} {name[6:]}"]
    return st.sampled_from(ways)


@st.composite
def planted(draw):
    """Partitions of rows, and which of them hold a planted secret that would be public."""
    chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    rows = [(f"I am {name}", [(5, 5 + len(name))], draw(st.booleans())) for name in chosen]
    rows += [(text, [], False) for text in draw(st.lists(st.sampled_from(PLAIN), max_size=6))]
    for name in draw(st.lists(st.sampled_from(chosen), max_size=5)):
        plain = draw(st.sampled_from(PLAIN))
        text = draw(st.sampled_from([f"{plain} {{}}", f"{{}}'s {plain}", f"{plain}, {{}}, {plain}"]))
        rows.append((text.format(draw(spelt(name))), [], draw(st.sampled_from([False, False, True]))))
    rows = draw(st.permutations(rows))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=2)))
    partitions = [rows[a:b] for a, b in itertools.pairwise([0, *cuts, len(rows)])]
    return partitions, chosen


@settings(deadline=None, max_examples=60)
@given(planted())
def test_every_planted_find_is_held_and_none_is_public(tmp_path_factory, corpus):
    partitions, chosen = corpus
    index = StringIndex({" ".join(words_of(name)): "NAME" for name in chosen})
    out = through_the_gate(tmp_path_factory.mktemp("gate"), partitions, HOLD)
    expected = {
        (f"d{number}", at)
        for number, rows in enumerate(partitions)
        for at, (text, spans, flagged) in enumerate(rows)
        if not spans and not flagged and index.find(words_of(text))
    }
    assert out.held == expected
    assert not any(index.find(words_of(row["redacted_text"])) for row in out.public)
    of_held = [row for row in out.private if (row["doc_id"], row["sentence_index"]) in out.held]
    assert len(of_held) == len(expected)
    assert all(MASK in r["redacted_text"] and not index.find(words_of(r["redacted_text"])) for r in of_held)
    assert len(out.public) + len(out.private) == sum(map(len, partitions))
    assert out.figures["num_held_rows"] == len(expected)
    assert out.figures["num_public_rows"] == len(out.public)
    # Each find is explained: by a row that it stands in, and one in which its string is masked.
    assert {(hit["doc_id"], hit["sentence_index"]) for hit in out.hits} == expected
    for hit in out.hits:
        text, spans, _ = partitions[int(hit["masked_doc_id"][1:])][hit["masked_sentence_index"]]
        assert hit["string"] == " ".join(words_of(text[slice(*spans[0])]))


LEAKS = [
    [("I am Zebulon Quackenbush", [(5, 24)], True), ("all is well", [], False)],
    [("ask zebulon quackenbush", [], False), ("call Ann Xy", [(5, 11)], True), ("ann xy, and zebulon", [], False)],
]


def test_bytes_do_not_depend_on_the_number_of_passes(tmp_path, patch):
    def files(name):
        out = through_the_gate(tmp_path / name, LEAKS, HOLD)
        return {
            p.relative_to(out.folder): p.read_bytes()
            for p in sorted(out.folder.rglob("*.*"))
            if p.is_file() and p.name != "index.parquet"
        }

    one = files("one")
    patch.constant(masked_strings, "CHUNK_STRINGS", 1)
    assert files("many") == one
    assert len(one) > 10


def test_the_run_stops_past_the_share_that_may_be_held(tmp_path):
    enough = GateConfig(max_held_fraction=0.4)
    assert through_the_gate(tmp_path / "a", LEAKS, enough).figures["num_held_rows"] == 2
    with pytest.raises(PrivacyGateError, match=r"2 of 5 training rows.*max_held_fraction = 0\.3") as caught:
        through_the_gate(tmp_path / "b", LEAKS, GateConfig(max_held_fraction=0.3))
    assert "zebulon" not in str(caught.value).lower()
    hits = read_table(tmp_path / "b/failures/hits.parquet", "gate_hits").to_pylist()
    assert [hit["string"] for hit in hits] == ["zebulon quackenbush", "ann xy"]


def test_only_other_held_rows_change_what_trainings_are_keyed_by(tmp_path):
    def keyed(name, partitions, config=HOLD):
        folder = through_the_gate(tmp_path / name, partitions, config).folder / "gate"
        return [(folder / f"{file}.json").read_bytes() for file in ("passed", "held")]

    nothing = keyed("a", [LEAKS[0]])
    assert nothing[0] == nothing[1]  # so keys of before, of trainings that read the second one, stay what they are
    assert keyed("b", [LEAKS[0]], GateConfig(enabled=False)) == nothing
    assert keyed("c", [[*LEAKS[0], ("I am Bob Xu", [(5, 11)], True)]]) == nothing  # another list
    held = keyed("d", LEAKS)
    assert held[0] == nothing[0]
    assert held[1] not in (nothing[1], keyed("e", LEAKS, GateConfig(ignore=("ann xy",), max_held_fraction=1))[1])


@pytest.mark.parametrize("method", ["crt", "redacted", "dpsgd", "jft", "sdpsgd_lstm", "redaction_schedule", "no_dp"])
def test_methods_that_read_masks_beside_the_shards_read_what_is_held(method):
    for typed in ((), ("PERSON",)) if method == "redacted" else ((),):
        config = TrainConfig(method=method, typed_masks=typed)
        (edge,) = (e for e in GRAPH["train"].edges_read({"train": config}) if e.stage == "gate")
        assert edge.files == (("held.json",) if method == "sdpsgd_lstm" or typed else ("passed.json",))


def test_marked_and_typed_text_hides_what_is_held(tmp_path):
    folder = through_the_gate(tmp_path, LEAKS, HOLD).folder
    held = held_rows([Table(folder / "gate/held.parquet", HELD)])
    tables = [[Table(folder / f"p{n}/{name}.parquet", schema) for n in range(2)] for name, schema in TABLES]
    marked = {(r.doc_id, r.sentence_index): r for r in original_rows(tables[0], "train", tables[1], held)}
    assert marked["d1", 0].private_chars == ((4, 23),)
    assert marked["d1", 2].private_chars == ((0, 6),)
    typed = {(r.doc_id, r.sentence_index): r.text for r in typed_rows(*tables, ("<NAME>",), held)}
    assert typed["d1", 0] == f"ask {MASK}"
    assert typed["d0", 0] == "I am <NAME>"
    assert typed["d1", 2] == f"{MASK}, and zebulon"
