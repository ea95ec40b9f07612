"""What each method reads, which rows make a record, and which tokens are private."""

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny import all_ids, making, read_tables
from support.training_tables import row_of, write_tables

from pipelines.artifacts import Target
from pipelines.errors import ConfigError, StageError
from pipelines.methods.registry import METHODS
from pipelines.methods.view import unread_stages, with_typed_masks
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.row_store import RowStore
from pipelines.training.data.rows import original_rows, private_ranges, split_private, typed_rows

BLOCKS = RecordUnit(kind="block", sentences_per_block=3)
DIALOGUES = RecordUnit(kind="dialogue")


def corpus_rows(secret="Ann Lee", extra=()):
    rows = []
    for number in range(6):
        doc = f"doc-{number}"
        rows += [
            row_of(doc, 0, f"Hello from shop {number}.", "SYS"),
            row_of(doc, 1, "I am {" + (secret if number == 2 else f"Bo {number}") + "}, hello.", "USR"),
            row_of(doc, 2, "What can I do for you?", "SYS", is_duplicate=number > 0),
            row_of(doc, 3, "Track it, please.", "USR"),
            row_of(doc, 4, f"It is at {{{number} Elm St}} now.", "SYS"),
        ]
    rows += [
        row_of("open", i, text, "SYS") for i, text in enumerate(["We are open.", "Come in.", "Do sit down.", "Tea?"])
    ]
    rows += [row_of("other", i, text) for i, text in enumerate(["No secret here.", "None at all.", "Nor any here."])]
    rows += [row_of("held", i, f"Held {{{secret}}} out {i}.", "USR", "test") for i in range(4)]
    return [*rows, *extra]


VIEWS = {name: spec.view for name, spec in METHODS.items()} | {"jft_phase_one": METHODS["jft"].first_phase.view}


def read(folder, rows, method="crt", unit=None, num_partitions=1, context_length=400, unread=(), **changes):
    """Reads the tables of ``rows``, but for those of the names ``unread``."""
    tables = replace(write_tables(folder, rows, num_partitions), **dict.fromkeys(unread, ()))
    arguments = {
        "view": VIEWS[method],
        "unit": unit or RecordUnit(),
        "make_vocabulary": making("bytes"),
        "make_encoder": lambda vocabulary: RecordEncoder(vocabulary, context_length),
        "speakers": ("SYS", "USR"),
    }
    return read_tables(tables, folder, **{**arguments, **changes})


def texts(corpus, records):
    """What the records say, control tokens left out."""
    return sorted(corpus.vocabulary.backend.decode(ids) for ids in all_ids(records))


def texts_of(rows, column, keep=lambda redacted: True):
    """The same of the tables; a mask and the blank before it are one control token."""
    found = [(s[column] if column == "text" else r[column]) for s, r in rows if r["fold"] == "train" and keep(r)]
    return sorted(text.replace(" <MASK>", "").replace("<MASK>", "") for text in found)


@pytest.mark.parametrize("method", VIEWS)
def test_each_method_reads_the_text_that_the_design_gives_it(tmp_path, method):
    rows = corpus_rows()
    corpus = read(tmp_path, rows, method)
    redacted = texts_of(rows, "redacted_text")
    original = texts_of(rows, "text")
    expected = {
        "crt": (
            texts_of(rows, "redacted_text", lambda row: not row["num_masked_tokens"]),
            texts_of(rows, "redacted_text", lambda row: row["num_masked_tokens"]),
        ),
        "redacted": (redacted, []),
        "anonymized": (redacted, []),
        "jft": ([], original),
        "jft_phase_one": (redacted, []),
        "redaction_schedule": (redacted, original),
        "dpsgd": ([], original),
        "no_dp": (original, []),
        "sdpsgd_lstm": ([], original),
    }[method]
    assert (texts(corpus, corpus.nonprivate_examples), texts(corpus, corpus.private_examples)) == expected
    assert "Ann Lee" not in "".join(texts(corpus, corpus.nonprivate_examples)) or method == "no_dp"
    no_promise = {"dpsgd": "none", "jft": "none", "sdpsgd_lstm": "none", "no_dp": "unknown"}
    assert corpus.nonprivate_order == no_promise.get(method, "content_hash")
    assert (corpus.private_examples.is_private is not None) == (method == "sdpsgd_lstm")


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(["Ann", "the 4th", "Bo  Ek", "here", ".", "12", "it is"]), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    gap=st.sampled_from([" ", "  ", " - "]),
)
def test_masks_with_a_type_stand_where_the_usual_ones_do(tmp_path_factory, pieces, gap):
    folder = tmp_path_factory.mktemp("typed")
    marked = gap.join(f"{{{text}}}" if is_masked else text for text, is_masked in pieces)
    row = row_of("d", 0, marked)
    paths = write_tables(folder, [row])
    for name in ("NAME", "OTHER"):
        found = list(typed_rows(paths.sentences, paths.redacted, [f"<{name}>"]))
        expected = row[1]["redacted_text"].replace("<MASK>", "<NAME>" if name == "NAME" else "<MASK>")
        assert [r.text.strip() for r in found] == [expected.strip()]


@pytest.mark.parametrize("method", ["redacted", "anonymized"])
def test_typed_masks_are_tokens_of_their_own(tmp_path, method):
    make = making("bytes", masks=("<MASK>", "<NAME>"))
    rows = corpus_rows()
    corpus = read(tmp_path, rows, method, unread=["public"], view=with_typed_masks(VIEWS[method]), make_vocabulary=make)
    control = corpus.vocabulary.control
    ids = [row for row in all_ids(corpus.nonprivate_examples) if control.typed_masks["<NAME>"] in row]
    assert len(ids) == 12  # a name or an address in two rows of six dialogues
    assert sum(control.mask in row for row in all_ids(corpus.nonprivate_examples)) == 5  # later copies
    assert texts(corpus, corpus.nonprivate_examples) == texts_of(rows, "redacted_text")
    batch = corpus.nonprivate_examples.collate(np.arange(len(corpus.nonprivate_examples)))
    asked = set(batch.labels[batch.weights > 0].tolist())
    assert (control.typed_masks["<NAME>"] in asked) == (method == "anonymized")
    assert corpus.num_private_without_noise == len(corpus.nonprivate_examples)


def test_a_vocabulary_without_added_tokens(tmp_path):
    make = making("bytes", masks=(), has_speakers=False)
    corpus = read(tmp_path, corpus_rows(), "dpsgd", DIALOGUES, make_vocabulary=make)
    control = corpus.vocabulary.control
    assert (control.mask, control.other_speaker, dict(control.speakers)) == (None, None, {})
    assert corpus.vocabulary.backend.get_vocab_size() == 256 + 3
    found = corpus.vocabulary.backend.decode(next(i for i in all_ids(corpus.private_examples) if len(i) > 80))
    assert "Hello from shop" in found
    assert ". I am" in found  # rows are parted although no speaker's token parts them


def test_duplicates_of_original_text_are_records_of_their_own(tmp_path):
    corpus = read(tmp_path, corpus_rows(), "dpsgd")
    assert texts(corpus, corpus.private_examples).count("What can I do for you?") == 6


@pytest.mark.parametrize("method", ["dpsgd", "no_dp"])
def test_methods_on_original_text_need_neither_shards_nor_the_redacted_tables(tmp_path, method):
    corpus = read(tmp_path, corpus_rows(), method, unread=["public", "private", "redacted"])
    assert len(corpus.nonprivate_examples) + len(corpus.private_examples) == 37


def test_what_need_not_be_read_is_known_beforehand():
    unread = {name: unread_stages(view, tokenizer_reads_public_rows=False) for name, view in VIEWS.items()}
    assert unread["dpsgd"] == unread["no_dp"] == unread["jft"] == {"shard", "redact"}
    assert unread["sdpsgd_lstm"] == {"shard"}
    assert all(unread[name] == {"redact"} for name in ("crt", "redacted", "jft_phase_one", "redaction_schedule"))
    assert unread_stages(VIEWS["dpsgd"], tokenizer_reads_public_rows=True) == {"redact"}


@pytest.mark.parametrize(
    ("method", "unit"), [(m, u) for m in VIEWS for u in (RecordUnit(), BLOCKS, DIALOGUES)],
    ids=lambda value: getattr(value, "kind", value),
)  # fmt: skip
def test_a_longer_secret_changes_exactly_one_record(tmp_path, method, unit):
    longer = "Ann-Sophie Lee van der Oever-Kingsley the Third of Somewhere Very Far"
    both = [read(tmp_path / s[:4], corpus_rows(s), method, unit, context_length=90) for s in ("Ann", longer)]
    assert all_ids(both[0].nonprivate_examples) == all_ids(both[1].nonprivate_examples) or method == "no_dp"
    name = "nonprivate_examples" if method == "no_dp" else "private_examples"
    ours, theirs = (all_ids(getattr(corpus, name)) for corpus in both)
    assert len(ours) == len(theirs)
    changed = [at for at in range(len(ours)) if ours[at] != theirs[at]]
    reads_secret = method not in ("crt", "redacted", "anonymized", "jft_phase_one")
    assert len(changed) == int(reads_secret)
    for at in changed:
        assert len(theirs[at]) > len(ours[at]) or len(ours[at]) == 90


@pytest.mark.parametrize("unit", [BLOCKS, DIALOGUES], ids=lambda unit: unit.kind)
def test_a_record_of_several_rows_is_private_as_soon_as_one_of_them_is(tmp_path, unit):
    corpus = read(tmp_path, corpus_rows(), "crt", unit)
    public, private = texts(corpus, corpus.nonprivate_examples), texts(corpus, corpus.private_examples)
    if unit is BLOCKS:
        other = "No secret here. None at all. Nor any here."
        assert sorted(public) == [other, "Tea?", "We are open.Come in.Do sit down."]
        assert len(private) == 12
    else:
        assert public == ["No secret here. None at all. Nor any here.", "We are open.Come in.Do sit down.Tea?"]
        assert len(private) == 6
    assert all("Track it" not in text for text in public)


def test_blocks_hold_whole_rows_in_order_and_are_cut_at_their_own_end(tmp_path):
    corpus = read(tmp_path, corpus_rows(), "dpsgd", BLOCKS, context_length=48)
    speakers, bos = corpus.vocabulary.control.speakers, corpus.vocabulary.control.bos
    encode = lambda text: corpus.vocabulary.backend.encode(text, add_special_tokens=False).ids  # noqa: E731
    first = [bos, speakers["SYS"], *encode("Hello from shop 2."), speakers["USR"], *encode("I am Ann Lee, hello.")]
    found = [ids for ids in all_ids(corpus.private_examples) if ids[: len(first)] == first]
    assert len(found) == 1
    assert len(found[0]) == 48
    second = [bos, speakers["USR"], *encode("Track it, please."), speakers["SYS"], *encode("It is at 2 Elm St now.")]
    assert [*second, corpus.vocabulary.control.eos] in all_ids(corpus.private_examples)
    assert corpus.private_examples.num_truncated == 6


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1000),
    num_partitions=st.integers(1, 3),
    method=st.sampled_from(["crt", "redaction_schedule"]),
    unit=st.sampled_from([RecordUnit(), BLOCKS, DIALOGUES]),
)
def test_what_is_trained_on_without_noise_does_not_show_the_corpus_order(
    tmp_path_factory, seed, num_partitions, method, unit
):
    rows = corpus_rows()
    documents = list({row[0]["doc_id"] for row in rows})
    documents = [documents[i] for i in np.random.default_rng(seed).permutation(len(documents))]
    shuffled = sorted(rows, key=lambda row: documents.index(row[0]["doc_id"]))
    first = read(tmp_path_factory.mktemp("order"), rows, method, unit)
    second = read(tmp_path_factory.mktemp("order"), shuffled, method, unit, num_partitions)
    assert all_ids(first.nonprivate_examples) == all_ids(second.nonprivate_examples)
    assert all_ids(first.private_examples) == all_ids(second.private_examples)
    assert second.nonprivate_order == "content_hash"


def _marked(corpus):
    records = corpus.private_examples
    return [(records.ids[i].tolist(), records.is_private[i].astype(bool).tolist()) for i in range(len(records))]


def _parts(corpus):
    """(public text, private text) of each record."""
    return sorted(
        tuple(
            corpus.vocabulary.backend.decode([t for t, p in zip(*record, strict=True) if p == kind])
            for kind in (False, True)
        )
        for record in _marked(corpus)
    )


def test_tokens_are_marked_where_the_policies_found_something(tmp_path):
    extra = [
        row_of("more", 0, "failed on this", failed_closed=True),
        row_of("more", 1, "{Ann} {Lee}, {Bo}"),
        row_of("more", 2, "flagged but clean", flagged=True),
    ]
    parts = _parts(read(tmp_path, corpus_rows(extra=extra), "sdpsgd_lstm"))
    assert ("I am, hello.", " Ann Lee") in parts
    assert ("It is at now.", " 2 Elm St") in parts
    assert ("", "failed on this") in parts
    assert (",", "Ann Lee Bo") in parts
    assert ("flagged but clean", "") in parts
    assert parts.count(("What can I do for you?", "")) == 1
    assert parts.count(("", "What can I do for you?")) == 5


def test_held_out_tokens_are_marked_too(tmp_path):
    held_out = read(tmp_path, corpus_rows(), "sdpsgd_lstm").held_out.records
    assert all(marks.sum() == len(" Ann Lee") for marks in (held_out.is_private[i] for i in range(4)))


@pytest.mark.parametrize("unit", [RecordUnit(), DIALOGUES], ids=lambda unit: unit.kind)
@pytest.mark.parametrize("secret", ["X", "Annie", "12 Elm", "'s", "hello", "\N{SNOWMAN}"])
def test_public_tokens_do_not_depend_on_private_text(tmp_path, secret, unit):
    public = [row_of(f"pub{i}", 0, f"Annie Elm said hello, a.b c {i}") for i in range(9)]

    def glued(name):
        marked = "{" + name + "}"
        return [row_of("glue", 0, f"a.{marked}b, a{marked} {marked}.c {marked}"), row_of("glue", 1, marked + "s")]

    found = []
    for name in ("Ann", secret):
        rows = corpus_rows(name, [*glued(name), *public])
        corpus = read(tmp_path / str(len(found)), rows, "sdpsgd_lstm", unit, make_vocabulary=making("bpe_public"))
        assert corpus.vocabulary.kind == "bpe_public"
        found.append([[t for t, p in zip(*record, strict=True) if not p] for record in _marked(corpus)])
    assert found[0] == found[1]


_TEXT = st.text(alphabet="ab ,.\n", max_size=14)


@settings(max_examples=200, deadline=None)
@given(text=_TEXT, cuts=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=4))
def test_pieces_cover_the_text_and_every_private_character(text, cuts):
    ranges = [(min(a, b, len(text)), min(max(a, b), len(text))) for a, b in cuts]
    pieces = split_private(text, ranges)
    assert "".join(piece for piece, _ in pieces) == text
    flags = [flag for piece, flag in pieces for _ in piece]
    assert all(flags[i] for start, end in ranges for i in range(start, end))
    kinds = [flag for _, flag in pieces]
    assert all(a != b for a, b in itertools.pairwise(kinds))
    wrongly = [i for i, flag in enumerate(flags) if flag and not any(s <= i < e for s, e in ranges)]
    assert all(text[i].isspace() for i in wrongly)


def test_a_masked_row_without_spans_is_private_as_a_whole():
    clean = {"is_duplicate": False, "failed_closed": False, "num_masked_tokens": 0, "spans": []}
    assert private_ranges("four", clean) == ()
    for change in ({"is_duplicate": True}, {"failed_closed": True}, {"num_masked_tokens": 1}):
        assert private_ranges("four", clean | change) == ((0, 4),)


def test_tables_that_do_not_belong_together_are_refused(tmp_path):
    rows = corpus_rows()
    good = write_tables(tmp_path / "a", rows)
    swapped = [(s, r | {"sentence_index": r["sentence_index"] + 7}) for s, r in rows]
    for number, other in enumerate((rows[:-1], swapped)):
        bad = write_tables(tmp_path / f"b{number}", other)
        with pytest.raises(StageError, match="rerun redact") as raised:
            list(original_rows(good.sentences, "train", bad.redacted))
        assert "Ann" not in str(raised.value)
    with pytest.raises(StageError, match="rerun redact"):
        list(original_rows(good.sentences, "train", []))


@pytest.mark.parametrize(
    "arguments", [{"kind": "block"}, {"sentences_per_block": 3}, {"kind": "block", "sentences_per_block": 0}]
)
def test_units_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ConfigError, match="sentences_per_block"):
        RecordUnit(**arguments)


def test_texts_are_not_held_in_memory(tmp_path):
    text = "x" * 4_000
    rows = [row_of(f"d{i}", 0, f"{i} {text}") for i in range(1_500)]
    paths = write_tables(tmp_path, rows)
    del rows
    tracemalloc.start()
    store = RowStore(Target(folder=tmp_path), "rows", RecordUnit())
    store.add(original_rows(paths.sentences, "train"), is_private=True)
    before_last = tracemalloc.get_traced_memory()[0]
    stored = store.records()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(stored) == 1_500
    assert max(before_last, after) < 1_000_000  # of 6 MB of text
    assert stored[3].texts[0].endswith(text)
