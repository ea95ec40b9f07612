"""Labels and surrogates in place of masks (``redact.replacement``): text and nothing else changes, and no other row."""

import json

import pytest
from from_split import Pipeline, by_hand, corpus
from pydantic import ValidationError
from support.contexts import artifact, stage_context
from support.plugins import Named
from support.tables import read_table

from pipelines.mask import MASK
from pipelines.methods.registry import METHODS
from pipelines.policies.replacement import replacement_writer
from pipelines.policies.surrogates import Replaced, restored
from pipelines.settings.gate import GateConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.shard import ShardConfig
from pipelines.stages.prepare import gate, gate_strings, shard

SECRET = b"s" * 32


class VouchesForAll(Named):
    """A conservative policy that flags nothing."""

    def find(self, sentence):
        return []


SETTINGS = {
    "policies": ("regex",),
    "patterns": {"PHONE": r"(?<=number is )\d+", "PERSON": r"Zeb \w+|Ann"},
    "conservative": f"{__name__}:VouchesForAll",
    "check_language": False,
}
TEXTS = corpus(
    [
        "my number is [5551234567]{PHONE} and I am [Zeb Quack]{PERSON}",
        "[Ann]{PERSON} and [Zeb Quack]{PERSON} called",
        "please call 5551234567 now",  # masked above, and not here
        "I am [Otto]{PERSON}",  # missed
        "good bye then",
        f"somebody wrote {MASK} here",
    ],
    ["[Zeb Quack]{PERSON} again", "my number is [77]{PHONE}", "good bye then"],
)


def prepared(folder, partitions=TEXTS, **settings):
    made = Pipeline(folder, RedactConfig(**SETTINGS | settings), secret=SECRET)
    return made, made.shards(partitions)


def table(made, name="redacted"):
    return read_table(made.made["redact", "p0"].blob(f"{name}.parquet"), name).to_pylist()


def test_masks_are_the_default_and_their_bytes_and_keys_know_of_nothing_else(tmp_path):
    plain, _ = prepared(tmp_path / "plain")
    asked, _ = prepared(tmp_path / "asked", replacement="mask")
    files = [
        {path.name: path.read_bytes() for path in made.made["redact", "p0"].folder.iterdir()} for made in (plain, asked)
    ]
    assert files[0] == files[1]
    assert files[0].keys() == {"redacted.parquet", "figures.json"}
    keyed = RedactConfig().keyed("redact")
    assert keyed == RedactConfig(replacement="mask").keyed("redact")
    assert not {"replacement", "surrogate_scope"} & keyed.keys()
    keys = [
        RedactConfig(replacement="label").keyed("redact"),
        RedactConfig(replacement="surrogate").keyed("redact"),
        RedactConfig(replacement="surrogate", surrogate_scope="corpus").keyed("redact"),
    ]
    assert all(keys.count(key) == 1 and key != keyed for key in keys)


@pytest.mark.parametrize("replacement", ["label", "surrogate"])
def test_nothing_but_the_text_of_private_rows_changes(tmp_path, replacement):
    """What is masked, flagged and public, and what a review finds, is as with masks: all of it reads spans."""
    masks, shards = prepared(tmp_path / "masks")
    other, others = prepared(tmp_path / "other", replacement=replacement)
    for row, now in zip(table(masks), table(other), strict=True):
        assert {**row, "redacted_text": None} == {**now, "redacted_text": None}
        assert (row["redacted_text"] == now["redacted_text"]) == (
            not row["spans"] or "somebody" in row["redacted_text"]
        )
    assert shards["p0", "public"] == others["p0", "public"]
    assert len(shards["p0", "private"]) == len(others["p0", "private"])
    assert masks.measured() == other.measured()
    assert masks.stable() == other.stable()
    assert any(row["is_stable"] for row in other.stable().values())


def test_what_is_written(tmp_path):
    labels, _ = prepared(tmp_path / "labels", replacement="label")
    first, second, *_, literal = [row["redacted_text"] for row in table(labels) if row["doc_id"] == "d0"]
    assert first == "my number is <CONTACT> and I am <PERSON>"
    assert second == "<PERSON> and <PERSON> called"
    assert literal == f"somebody wrote {MASK} here"
    assert not labels.made["redact", "p0"].blob("surrogates.parquet").exists()
    made, _ = prepared(tmp_path / "surrogates", replacement="surrogate")
    rows = {(row["doc_id"], row["sentence_index"]): row for row in table(made)}
    assert rows["d1", 2]["redacted_text"] == MASK  # a later copy
    names = {(r["doc_id"], r["sentence_index"], r["original"]): r["surrogate"] for r in table(made, "surrogates")}
    zebs = [surrogate for (_, _, original), surrogate in names.items() if original == "Zeb Quack"]
    assert len(zebs) == 3
    assert zebs[0] == zebs[1] != zebs[2]  # in a document, and in another one
    assert "555-01" in names["d0", 0, "5551234567"]
    for place, row in rows.items():
        known = [Replaced(s, o, "") for (*found, o), s in names.items() if tuple(found) == place]
        original = next(r.text for r in TEXTS["p0"] if (r.doc_id, r.index) == place)
        assert restored(row["redacted_text"], known) == (MASK if row["is_duplicate"] else original)
    one, _ = prepared(tmp_path / "one", replacement="surrogate", surrogate_scope="corpus")
    assert len({r["surrogate"] for r in table(one, "surrogates") if r["original"] == "Zeb Quack"}) == 1


@pytest.mark.parametrize("scope", ["document", "corpus"])
def test_a_secret_masked_by_hand_changes_one_record(tmp_path, scope):
    """The claims' neighbours: what stands in a row is a function of this row, the key and the document's name."""
    settings = {"replacement": "surrogate", "surrogate_scope": scope}
    before, _ = prepared(tmp_path / "before", **settings)
    changed = by_hand(TEXTS, [("d0", 1, 8, 17)])
    after, _ = prepared(tmp_path / "after", changed, **settings)
    pairs = list(zip(table(before), table(after), strict=True))
    assert [old["sentence_index"] for old, new in pairs if old["redacted_text"] != new["redacted_text"]] == [1]
    assert pairs[1][1]["redacted_text"].endswith(f" and {MASK} called")  # in this world there is a mask: no credit


@pytest.mark.parametrize("replacement", ["mask", "label", "surrogate"])
def test_the_gate_holds_a_planted_secret_and_nothing_for_a_surrogate(tmp_path, replacement):
    """Surrogates stand in private rows, which the gate does not search: one may be somebody's name elsewhere."""
    made, before = prepared(tmp_path, replacement=replacement)
    assert {"please call 5551234567 now"} < {row["redacted_text"] for row in before["p0", "public"]}
    config = GateConfig(max_held_fraction=1.0)
    inputs = {name: made.made[name, "p0"] for name in ("split", "redact")}
    strings = tmp_path / "strings"
    gate_strings.run(stage_context("gate_strings", strings, {"gate": config}, inputs, partition="p0"))
    searched = {"gate_strings": artifact("gate_strings", strings, "p0"), "redact": inputs["redact"]}
    out = tmp_path / "searched"
    gate.run(stage_context("gate", out, {"gate": config}, searched))
    listed = {row["string"] for row in read_table(out / "index.parquet", "gate_index").to_pylist()}
    assert {"5551234567", "zeb quack"} <= listed
    if replacement == "surrogate":
        assert not {row["surrogate"].casefold() for row in table(made, "surrogates")} & listed
    held = read_table(out / "held.parquet", "held").to_pylist()
    assert [(row["doc_id"], row["sentence_index"]) for row in held] == [("d0", 2)]
    read = {"redact": inputs["redact"], "gate": artifact("gate", out)}
    shard.run(stage_context("shard", tmp_path / "sides", {"shard": ShardConfig()}, read, partition="p0"))
    public = read_table(tmp_path / "sides/public.parquet", "shard").to_pylist()
    assert sorted(row["redacted_text"] for row in public) == ["I am Otto", "good bye then"]
    private = read_table(tmp_path / "sides/private.parquet", "shard").to_pylist()
    assert f"please call {MASK} now" in {row["redacted_text"] for row in private}
    assert not any("5551234567" in row["redacted_text"] for row in private)
    assert json.loads((out / "figures.json").read_text())["num_held_rows"] == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"replacement": "label", "collapse": False}, "collapse"),
        ({"replacement": "label", "surrogate_scope": "corpus"}, "surrogate_scope"),
        ({"replacement": "hash"}, "replacement"),
    ],
)
def test_settings_that_do_not_go_together(settings, told):
    with pytest.raises(ValidationError, match=told):
        RedactConfig(**settings)


def test_surrogates_need_the_secret_of_a_store():
    with pytest.raises(ValueError, match="secret"):
        replacement_writer("surrogate", "document", ["digits"], b"")


def test_which_methods_need_masks():
    """Those that leave masks out of a loss without noise, or mark what is below them; the others take any text."""
    needs = {"jft", "redacted", "redaction_schedule", "sdpsgd_lstm"}
    assert {name for name, spec in METHODS.items() if spec.needs_masks} == needs
