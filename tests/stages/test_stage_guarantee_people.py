"""The guarantee stage: what it says of people, whose records it counts as training does."""

import pytest
from guarantee_stage import stated
from support.contexts import artifact

from pipelines.corpus.tables import DOCUMENTS
from pipelines.policies.sharding import SHARD
from pipelines.tables import TableWriter

DOCUMENT = {"source_file": "a", "source_id": None, "num_tokens": 9, "num_chars": 9, "has_gold": False}
ROW = {"redacted_text": "x", "num_tokens": 1, "num_masked_tokens": 0, "speaker": None, "domain": None, "label": None}


def with_owners(tmp_path, method, **train):
    """The figures of people: a has two documents of 5 and 2 sentences, b one of 3, c one that is held out."""
    documents = [("d1", "a", 5, "train"), ("d2", "a", 2, "train"), ("d3", "b", 3, "train"), ("d4", "c", 9, "test")]
    private = [("d1", 0), ("d1", 1), ("d1", 4), ("d2", 1), ("d3", 2)]
    artifacts = {"split": [], "shard": []}
    for part in (0, 1):  # two partitions
        split, shard = tmp_path / f"split{part}", tmp_path / f"shard{part}"
        split.mkdir()
        shard.mkdir()
        mine = [row for at, row in enumerate(documents) if (at > 1) == part]
        with TableWriter(split / "documents.parquet", DOCUMENTS.whole) as table:
            for at, (doc_id, owner, number, fold) in enumerate(mine):
                table.append(**DOCUMENT, doc_id=doc_id, source_row=at, num_sentences=number, fold=fold, owner=owner)
        with TableWriter(shard / "private.parquet", SHARD) as table:
            for doc_id, index in (row for row in private if row[0] in {d[0] for d in mine}):
                table.append(**{"doc_id": doc_id, "sentence_index": index, **ROW})
        artifacts["split"].append(artifact("split", split, str(part)))
        artifacts["shard"].append(artifact("shard", shard, str(part)))
    settings = {"method": method, **train}
    events = {"method": method}
    corpus = {"owner_from": "field", "owner_field": "customer_id", "owner_missing": "own"}
    document = stated(tmp_path, train=settings, corpus=corpus, artifacts=artifacts, **events)
    assert document["public"]["person"]["num_people"] is None
    assert [f["num_records"] for f in document["public"]["person"]["figures"]] == [1, 4]
    person = document["person"]
    assert any("owner_missing = own" in text for text in person["assumptions"])
    return person["num_people"], {whose: f["num_records"] for f in person["figures"] for whose in f["whose"]}


@pytest.mark.parametrize(
    ("method", "train", "median", "most"),
    [
        ("crt", {}, 4, 4),
        ("crt", {"record": "dialogue"}, 2, 2),
        ("crt", {"record": "block", "sentences_per_block": 2}, 3, 3),
        ("dpsgd", {}, 7, 7),
        ("dpsgd", {"record": "block", "sentences_per_block": 2}, 4, 4),
        ("dpsgd", {"record": "dialogue"}, 2, 2),
    ],
)
def test_the_private_records_of_each_person_are_counted_as_training_counts_them(tmp_path, method, train, median, most):
    number, sizes = with_owners(tmp_path, method, **train)
    assert number == 2
    assert sizes == {"one": 1, "median": median, "most": most}


def test_without_owners_the_claims_say_so(tmp_path):
    person = stated(tmp_path)["person"]
    assert not person["is_known"]
    assert [f["num_records"] for f in person["figures"]] == [1, 4]
