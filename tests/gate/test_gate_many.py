"""More masked strings than are held at once: hashes nominate, and what is found is what one pass would find."""

from contextlib import contextmanager
from itertools import islice, product

import pytest
from gate_corpora import through_the_gate
from hypothesis import example, given
from hypothesis import strategies as st
from support.patches import patching
from support.tables import table_writer

from pipelines.artifacts import Target
from pipelines.gate import hash_filter, masked_strings
from pipelines.gate.hash_filter import HashedStrings, key_of
from pipelines.gate.index import indexes_to_search, write_index
from pipelines.gate.masked_strings import MaskedStrings
from pipelines.gate.strings import Choice, StringIndex, fragments, words_of
from pipelines.gate.tables import GATE_INDEX, GATE_STRINGS
from pipelines.settings.gate import GateConfig
from pipelines.tables import Table

CHOICE = Choice()
WORDS = ("an", "ann", "lee", "é", "5", "55", "555", "0", "x1", "manner")
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), max_size=6)
STRINGS = st.dictionaries(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join).map(CHOICE.normalise), st.just("NAME")
)


@contextmanager
def at_most(*, text, hashes):
    """So many strings at once."""
    with patching() as patch:
        patch.constant(masked_strings, "CHUNK_STRINGS", text)
        patch.constant(masked_strings, "HASHED_STRINGS", hashes)
        patch.constant(hash_filter, "_TEXTS", 2)
        yield


def table_of(path, strings):
    path.unlink(missing_ok=True)
    with table_writer(path, "gate_strings") as writer:
        for string, label in strings:
            writer.append(string=string, label=label, count=1)
    return Table(path, GATE_STRINGS)


def normal(texts):
    return [CHOICE.words(text) for text in texts]


def holds(may_hold, number):
    return may_hold is not None and next(islice(may_hold(), number, None))


@given(strings=STRINGS, texts=TEXTS, text=st.integers(1, 4), hashes=st.integers(1, 5))
@example(strings={"5 55": "NAME", "55 5": "NAME"}, texts=["call 555"], text=1, hashes=1)
@example(strings={"5 0 5 0 5 0 5 0 5": "NAME", "an": "NAME"}, texts=["5 0 5 0 5 0 5 0 5"], text=1, hashes=1)
@example(strings={"an an": "NAME", "an an an": "NAME"}, texts=["an an"], text=1, hashes=1)
def test_what_is_found_is_what_one_pass_finds(tmp_path_factory, strings, texts, text, hashes):
    folder = tmp_path_factory.mktemp("many")
    tables = [table_of(folder / f"{n}.parquet", sorted(strings.items())[n::2]) for n in range(2)]
    words = normal(texts)
    whole = StringIndex(strings)
    with at_most(text=text, hashes=hashes):
        many = MaskedStrings(tables, CHOICE, Target(folder=folder))
        assert many.are_few == (len(strings) <= text)
        chunks = list(many.to_search([lambda n=n: iter(words[n::2]) for n in range(2)]))
        for number, said in enumerate(words):
            indexes = [StringIndex(chunk) for chunk, places in chunks if holds(places[number % 2], number // 2)]
            assert set().union(*(index.find(said) for index in indexes)) == whole.find(said)
            assert set().union(*(index.places(said) for index in indexes)) == whole.places(said)
        every = {word for said in words for word in said}
        parts = set().union(*(some.parts_of(every) for some in many.singles()))
        assert parts & whole.singles == fragments(whole.singles, every)
        listed = [string for chunk in many.chunks() for string in chunk]
        assert sorted(listed) == sorted(whole.labels)  # none twice
        with table_writer(folder / "index.parquet", "gate_index") as writer:
            assert write_index(writer, many.chunks(), parts) == len(listed)
        index = Table(folder / "index.parquet", GATE_INDEX)
        later = list(indexes_to_search(index, lambda: iter(words)))
        for said in words:
            assert set().union(*(some.find(said) for some, _ in later)) == whole.find(said)
        assert set().union(*(of for _, of in later)) <= parts


def test_a_string_of_several_partitions_is_one_with_all_its_labels(tmp_path):
    tables = [table_of(tmp_path / f"{n}.parquet", [("ann lee", label)]) for n, label in enumerate(("B", "A", "B"))]
    with at_most(text=2, hashes=2):
        many = MaskedStrings(tables, CHOICE, Target(folder=tmp_path))
        assert [chunk for chunk in many.chunks() if chunk] == [{"ann lee": "A+B"}]
        assert many.searched == {"A": 1, "B": 2}
        assert not many.are_few


def test_only_what_may_stand_there_is_searched_as_text(tmp_path):
    """Otherwise the time would grow with the square of the text."""
    strings = [(f"w{number:04d}", "NAME") for number in range(1_000)] + [("ann lee", "NAME"), ("ann lou", "NAME")]
    table = table_of(tmp_path / "strings.parquet", sorted(strings))
    passes = []

    def texts():
        passes.append(None)
        return iter(normal(["Ann Lou", *["nobody"] * 20, "w0007", "w 7"]))

    with at_most(text=10, hashes=2_000):
        many = MaskedStrings([table], CHOICE, Target(folder=tmp_path))
        ((chunk, (may_hold, elsewhere)),) = many.to_search([texts, lambda: iter(normal(["nobody"]))])
        assert chunk == {"ann lou": "NAME", "w0007": "NAME"}
        assert [number for number, may in enumerate(islice(may_hold(), 100)) if may] == [0, 21]
        assert elsewhere is None
        assert len(passes) == 1
        assert list(many.singles()) == list(many.hashed())  # made once
    with at_most(text=10, hashes=501):
        assert len(list(MaskedStrings([table], CHOICE, Target(folder=tmp_path)).to_search([texts]))) == 1
        assert len(passes) == 1 + 2


def test_hashes_that_agree_by_chance_find_nothing_more(tmp_path, patch):
    named = [(0, "ann"), (0, "bob"), (0, "joe zed")]
    patch(HashedStrings, "candidates_in", lambda self, texts: named)
    table = table_of(tmp_path / "strings.parquet", [("ann", "NAME"), ("bob", "NAME"), ("joe zed", "NAME")])
    with at_most(text=1, hashes=9):
        chunks = MaskedStrings([table], CHOICE, Target(folder=tmp_path)).to_search([lambda: iter([["bob"]])])
        assert [found for chunk, _ in chunks if (found := StringIndex(chunk).find(["bob"]))] == [{"bob"}]


def test_a_number_is_known_by_its_digits_whatever_its_groups():
    assert {key_of(string) for string in ("5 55", "55 5", "555")} == {"555"}
    assert key_of("ann 5") == "ann 5"
    for one, other in product(("555 0100", "5550 100", "5 5 5 0 1 0 0"), repeat=2):
        assert HashedStrings([one]).named_in([words_of(other)]) == {"5550100"} | ({one} if one == other else set())


@pytest.mark.parametrize("config", [GateConfig(), GateConfig(enabled=False)])
def test_counts_are_the_same(tmp_path, config):
    rows = [[("I am Zed Quux", [(5, 13)], True), ("all is well", [], False), ("Zedder here", [], False)]] * 2
    one = through_the_gate(tmp_path / "one", rows, config)
    with at_most(text=1, hashes=1):
        many = through_the_gate(tmp_path / "many", rows, config)
    assert many.figures == one.figures
    assert many.index == one.index
    assert one.figures["num_public_rows"] == (4 if config.enabled else 0)
