"""Small models, records and shards for the tests of training."""

from dataclasses import fields

import numpy as np

from pipelines.artifacts import Target
from pipelines.methods.registry import METHODS
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.corpus import CorpusSettings, TrainingTables, read_corpus
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.records import Records, frame_of, target_positions
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.tokenizer import byte_tokenizer, loadable
from pipelines.training.data.vocabulary import control_tokens_of, learn_vocabulary
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape
from support.tables import table_at, write_rows

SPEAKERS = ("SYS", "USR")
ADDED = AddedTokens(speakers=SPEAKERS)
TOKENIZER = byte_tokenizer(ADDED)
CONTROL = control_tokens_of(loadable(TOKENIZER), ADDED)
SHAPE = ModelShape(num_layers=2, num_heads=2, embedding_size=16, context_length=32)


def tiny_model(seed=0, shape=SHAPE):
    return build_model(shape, TOKENIZER.get_vocab_size(), CONTROL, seed)


def rows_of(turns, starts=False, ends=False, domain=None):
    """One record of (speaker, text) pairs."""
    speakers, texts = [speaker for speaker, _ in turns], [text for _, text in turns]
    nothing = [None] * len(turns)
    return RecordRows(texts, speakers, [domain] * len(turns), nothing, [[] for _ in turns], starts, ends)


def ids_of(text, speaker=None):
    encoded = TOKENIZER.encode(text, add_special_tokens=False).ids
    return frame_of(rows_of([(speaker, text)]), CONTROL).encode([encoded], SHAPE.context_length)[0]


def records_of(rows):
    """Records of texts, or of (text, speaker) pairs."""
    pairs = [(row, None) if isinstance(row, str) else row for row in rows]
    ids = [ids_of(text, speaker) for text, speaker in pairs]
    targets = [int(target_positions(np.asarray(i), CONTROL).sum()) for i in ids]
    offsets = np.cumsum([0, *map(len, ids)])
    flat = np.asarray([i for row in ids for i in row], dtype=np.int32)
    return Records(
        ids=RaggedArray(flat, offsets), num_targets=np.asarray(targets, dtype=int), num_truncated=0, control=CONTROL
    )


def examples_of(records):
    """The records as the reference wants them: (ids, targets) pairs."""
    rows = [np.asarray(records.ids[i], dtype=np.int64) for i in range(len(records))]
    return [(row.tolist(), target_positions(row, CONTROL).tolist()) for row in rows]


def write_shard(path, rows):
    """``rows`` are (text, speaker) pairs."""
    shard = [
        {"doc_id": f"{at:032d}", "redacted_text": text, "speaker": speaker, "num_tokens": len(text.split())}
        | {"num_masked_tokens": text.count("<MASK>")}
        for at, (text, speaker) in enumerate(rows)
    ]
    write_rows(path, "shard", shard)


def write_sentences(path, rows):
    """``rows`` are (text, speaker, fold) triples; three sentences make a document."""
    sentences = [
        {"doc_id": f"{at // 3:032d}", "sentence_index": at % 3, "text": text, "token_ends": [len(text)]}
        | {"speaker": speaker, "fold": fold}
        for at, (text, speaker, fold) in enumerate(rows)
    ]
    write_rows(path, "sentences", sentences)


def making(kind, vocab_size=400, **changes):
    """``changes`` are those of `AddedTokens`."""
    added = AddedTokens(**changes)
    return lambda speakers, domains, texts: learn_vocabulary(kind, vocab_size, texts, added.named(speakers, domains))


def read_tables(tables, scratch, **changes):
    """`read_corpus` as most tests want it; ``changes`` are its own arguments, or those of its settings."""
    settings = {
        "view": METHODS["crt"].view,
        "unit": RecordUnit(),
        "min_speaker_rows": 1,
        "evaluate_fold": "test",
        "max_eval_sentences": 100,
    }
    names = {field.name for field in fields(CorpusSettings)}
    settings |= {name: value for name, value in changes.items() if name in names}
    others = {name: value for name, value in changes.items() if name not in names}
    return read_corpus(
        tables,
        CorpusSettings(**settings),
        scratch=Target(folder=scratch),
        progress=lambda done, total, message: None,
        **others,
    )


def corpus_of(folder, public=(), private=(), sentences=(), num_files=1, context_length=32, **settings):
    """Writes tables, the rows dealt out to ``num_files`` partitions, and reads them as the stage does."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"public": [], "private": [], "sentences": []}
    for number in range(num_files):
        for name, rows, write in (
            ("public", public, write_shard),
            ("private", private, write_shard),
            ("sentences", sentences, write_sentences),
        ):
            path = folder / f"{name}{number}.parquet"
            write(path, rows[number::num_files])
            paths[name].append(table_at(path, "sentences" if name == "sentences" else "shard"))
    settings = {
        "make_vocabulary": making("bpe_public"),
        "make_encoder": lambda vocabulary: RecordEncoder(vocabulary, context_length),
        "min_speaker_rows": 2,
        **settings,
    }
    return read_tables(TrainingTables(**paths), folder, **settings)


def all_ids(records):
    return [records.ids[i].tolist() for i in range(len(records))]
