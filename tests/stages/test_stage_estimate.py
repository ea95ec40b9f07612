"""The estimate stage: joins sample, gold and redaction, and goes on without gold."""

from __future__ import annotations

import json

import pytest
from stage_corpora import write_stability
from support.contexts import artifact, stage_context
from support.tables import write_rows

from pipelines.errors import InputError, StageError
from pipelines.miss_rate.learnt import write_learnt
from pipelines.miss_rate.rates import false_negative_rate_of, worst_label_of
from pipelines.miss_rate.review_log import sentence_key
from pipelines.settings.estimate import EstimateConfig
from pipelines.settings.redact import RedactConfig
from pipelines.stages.prepare.estimate import run

REPLICATES = 2


class Corpus:
    """Two partitions of ten sentences of ten tokens; sentence 0 of each is never sampled."""

    redact = None

    def __init__(self, folder, gold=True, labelled=("a", "b"), empty=False):
        self.folder = folder
        for name in ("a", "b"):
            for stage in ("split", "redact", "stability"):
                (folder / stage / name).mkdir(parents=True)
            write_stability(folder / "stability" / name / "stability.parquet", [(name, i) for i in range(10)], 10)
            documents = [
                {"doc_id": doc_id, "fold": fold, "num_sentences": number, "has_gold": gold and doc_id in labelled}
                for doc_id, fold, number in ((name, "train", 10), ("empty", "train", 0), ("held out", "test", 5))
            ]
            write_rows(folder / "split" / name / "documents.parquet", "documents", documents, num_tokens=100)
            write_gold(
                self, name, [(i, i, "NAME") for i in range(10 if gold and not empty and name in labelled else 0)]
            )
            self.write_redacted(name, [self.redacted_row(name, i) for i in range(10)])
        sampled = [
            {"doc_id": name, "sentence_index": i, "partition": name, "replicate": replicate}
            for replicate in range(REPLICATES)
            for name in ("a", "b")
            for i in range(1, 10)
        ]
        write_rows(folder / "sample" / "sample.parquet", "sample", sampled, inclusion_probability=0.9)
        self.write_figures(is_census=False)

    def write_redacted(self, name, rows):
        write_rows(self.folder / "redact" / name / "redacted.parquet", "redacted", rows)

    def write_figures(self, is_census):
        figures = {
            "is_census": is_census,
            "replicates": [{"num_sentences": 18}] * REPLICATES,
            "num_distinct_sentences": 18,
            "strata": [{"domain": None, "inclusion_probability": 0.9}],
            "large": {"num_sentences": 0, "classes": []},
            "warnings": ["a warning of the sample"],
        }
        (self.folder / "sample" / "figures.json").write_text(json.dumps(figures))

    @staticmethod
    def redacted_row(name, i):
        # a: everything is caught, a9 is a duplicate. b: 1 to 3 are missed, of which 1 is public.
        missed = name == "b" and i <= 3
        is_duplicate = name == "a" and i == 9
        span = {
            "start_token": 2,
            "end_token": 3 if missed else 4,
            "start": 0,
            "end": 1,
            "label": "NAME",
            "policy": "names",
            "score": 1.0,
        }
        is_public = name == "b" and i == 1
        return {
            "doc_id": name,
            "sentence_index": i,
            "spans": [] if is_public or is_duplicate else [span],
            "num_tokens": 10,
            "is_duplicate": is_duplicate,
        }

    def run(self, **config):
        out = self.folder / f"out-{len(list(self.folder.iterdir()))}"
        inputs = {
            stage: [artifact(stage, self.folder / stage / name, name) for name in ("a", "b")]
            for stage in ("split", "redact", "stability")
        }
        inputs["sample"] = self.folder / "sample"
        configs = {"estimate": EstimateConfig(**config)} | ({"redact": self.redact} if self.redact else {})
        self.counts = run(stage_context("estimate", out, configs, inputs, scratch=self.folder))
        return json.loads((out / "figures.json").read_text())


def test_gold_is_compared_with_what_was_masked(tmp_path):
    found = Corpus(tmp_path).run()
    assert found["source"] == "gold"
    assert found["num_sampled_sentences"] == 18
    assert found["num_tokens"] == 180
    assert found["num_kept_sentences"] == 17
    # Duplicate a9 holds no secret of its own; b1 is public and lacks both tokens, b2 and b3 lack one.
    assert (found["num_secret_spans"], found["num_missed_spans"], found["num_escaped_spans"]) == (17, 3, 1)
    assert found["num_missed_tokens"] == 4
    assert found["miss_rate"]["value"] == pytest.approx(4 / 180)
    assert found["false_negative_rate"]["value"] == pytest.approx(3 / 17)
    assert found["false_negative_rate"]["upper"] > 3 / 17
    assert found["delta2"]["value"] == pytest.approx(1 / 17)
    assert found["recall"] == pytest.approx(30 / 34)
    assert found["precision"] == 1.0
    assert "a warning of the sample" in found["warnings"]


def test_a_census_is_exact(tmp_path):
    corpus = Corpus(tmp_path)
    corpus.write_figures(is_census=True)
    found = corpus.run()
    assert found["is_census"]
    assert (found["covers_corpus"], found["labelled_share"]) == (True, 1.0)
    assert found["false_negative_rate"] == {"value": 3 / 17, "upper": 3 / 17, "confidence": 1.0}


@pytest.mark.parametrize(
    ("gold", "config", "reason"), [(False, {}, "no training document"), (True, {"source": "none"}, "none")]
)
def test_without_gold_the_run_goes_on_and_says_so(tmp_path, gold, config, reason):
    found = Corpus(tmp_path, gold=gold).run(**config)
    assert found["source"] == "not_measured"
    assert found["miss_rate"] is None
    assert found["false_negative_rate"] is None
    assert reason in found["warnings"][0]
    assert found["num_sampled_sentences"] == 18


def test_gold_that_is_asked_for_must_be_there(tmp_path):
    with pytest.raises(InputError, match="gold_field"):
        Corpus(tmp_path, gold=False).run(source="gold")


def test_a_sampled_sentence_that_was_not_redacted_stops_the_run(tmp_path):
    corpus = Corpus(tmp_path)
    corpus.write_redacted("b", [corpus.redacted_row("b", i) for i in range(9)])
    with pytest.raises(StageError, match="1 of 9 sampled sentences"):
        corpus.run()


def test_what_a_stage_returns_and_writes_holds_no_text(tmp_path):
    corpus = Corpus(tmp_path)
    found = corpus.run()
    assert set(corpus.counts) == {"source", "num_sampled_sentences", "num_secret_spans", "num_screened_sentences"}
    assert "doc_id" not in json.dumps(found)


def test_the_same_input_gives_the_same_bytes(tmp_path):
    corpus = Corpus(tmp_path)
    assert corpus.run() == corpus.run()


def test_documents_without_labels_are_not_taken_for_clean_ones(tmp_path):
    """Every secret of `b` is missed or caught all the same; nobody looked, so `a` alone is judged."""
    corpus = Corpus(tmp_path, labelled=("a",))
    corpus.write_figures(is_census=True)
    found = corpus.run()
    assert found["num_sampled_sentences"] == 9
    assert (found["num_tokens"], found["num_secret_spans"]) == (90, 8)
    assert (found["is_census"], found["covers_corpus"], found["labelled_share"]) == (False, False, 0.5)
    assert found["false_negative_rate"]["upper"] > 0
    assert "labelled documents only" in found["mu"]
    assert any("50.000% of the training sentences" in warning for warning in found["warnings"])
    assert false_negative_rate_of(found).upper == found["false_negative_rate"]["upper"]


def test_an_empty_list_of_labels_is_a_label(tmp_path):
    corpus = Corpus(tmp_path, empty=True)
    corpus.write_figures(is_census=True)
    found = corpus.run()
    assert found["source"] == "gold"
    assert found["is_census"]
    assert found["num_secret_spans"] == 0
    assert found["false_negative_rate"]["value"] is None
    assert worst_label_of(found) is None


def test_labels_on_held_out_documents_measure_nothing(tmp_path):
    found = Corpus(tmp_path, labelled=("held out",)).run()
    assert found["source"] == "not_measured"
    assert not found["covers_corpus"]


def write_gold(corpus, name, rows):
    """Rows: (sentence, secret, label)."""
    made = [{"sentence_index": i, "label": label, "secret_id": secret_id} for i, secret_id, label in rows]
    place = {"doc_id": name, "start": 10, "end": 20, "start_token": 2, "end_token": 4}
    write_rows(corpus.folder / "split" / name / "gold.parquet", "gold", made, **place)


def test_a_secret_over_two_sentences_is_one_and_missed_if_a_piece_is(tmp_path):
    corpus = Corpus(tmp_path)
    # b1 is public and missed; b3 is missed; b4 is masked. a9 is a duplicate; a0 was not sampled.
    write_gold(corpus, "b", [(1, 0, "NAME"), (4, 0, "NAME"), (3, 1, "NAME"), (4, 1, "NAME"), (5, 2, "NAME")])
    write_gold(corpus, "a", [(0, 0, "NAME"), (1, 0, "NAME"), (8, 1, "NAME"), (9, 1, "NAME"), (9, 2, "NAME")])
    found = corpus.run()
    # b: three secrets, two missed, one of them in a public row. a: a secret counts where it starts, so the one of a0
    # is outside the sample; that of a8 counts, its piece in a duplicate does not; that of a9 alone is no secret.
    assert (found["num_secret_spans"], found["num_missed_spans"], found["num_escaped_spans"]) == (4, 2, 1)
    assert found["num_missed_tokens"] == 2 + 1


def test_a_piece_outside_the_sample_still_gives_the_secret_away(tmp_path):
    corpus = Corpus(tmp_path)
    write_gold(corpus, "a", [(4, 0, "NAME")])
    write_gold(corpus, "b", [(4, 0, "NAME"), (0, 0, "NAME")])
    rows = [corpus.redacted_row("b", i) for i in (4, *range(4), *range(5, 10))]
    rows[1]["spans"] = []  # b0, which is missed and was not sampled, comes second
    corpus.write_redacted("b", rows)
    found = corpus.run()
    assert (found["num_secret_spans"], found["num_missed_spans"], found["num_escaped_spans"]) == (2, 1, 1)


def test_a_kind_that_is_always_missed_shows_beside_the_average(tmp_path):
    corpus = Corpus(tmp_path)
    write_gold(corpus, "a", [(i, i, "NAME") for i in range(10)])
    write_gold(corpus, "b", [(i, i, "RARE" if i in (2, 3) else "NAME") for i in range(2, 10)])
    corpus.write_figures(is_census=True)
    found = corpus.run()
    assert found["false_negative_rate"]["value"] == pytest.approx(2 / 16)
    assert found["worst_label"]["false_negative_rate"] == {"value": 1.0, "upper": 1.0, "confidence": 1.0}
    assert found["worst_label"]["num_labels"] == 2
    gamma, escape = worst_label_of(found)
    assert (gamma.upper, escape.upper) == (1.0, 0.0)


def test_a_kind_that_the_sample_did_not_meet_has_no_bound_below_one(tmp_path):
    corpus = Corpus(tmp_path)
    write_gold(corpus, "a", [(i, i, "UNSEEN" if i == 0 else "NAME") for i in range(9)])
    found = corpus.run()
    assert found["by_label"]["UNSEEN"]["num_secret_spans"] == 0
    assert found["by_label"]["NAME"]["false_negative_rate_upper"] < 1
    assert found["worst_label"]["false_negative_rate"]["upper"] == 1.0


def test_gold_labels_of_sentences_that_a_policy_learnt_from_are_left_out(tmp_path):
    corpus = Corpus(tmp_path)
    for name in ("a", "b"):
        rows = [{"doc_id": name, "sentence_index": i, "text": f"{name}{i}"} for i in range(10)]
        write_rows(tmp_path / "split" / name / "sentences.parquet", "sentences", rows, token_starts=[0], token_ends=[2])
    (tmp_path / "model").mkdir()
    secret = stage_context("estimate", tmp_path / "unused", {}, {}, scratch=tmp_path).run.secret
    write_learnt(tmp_path / "model", secret, [sentence_key(secret, f"a{i}") for i in range(10)])
    corpus.redact = RedactConfig(policies=("classifier",), classifier=str(tmp_path / "model"))
    found = corpus.run()
    assert (found["num_sampled_sentences"], found["num_secret_spans"], found["num_missed_spans"]) == (9, 9, 3)
    assert found["mu"].endswith("learnt from")
    corpus.write_figures(is_census=True)
    assert not corpus.run()["is_census"]  # of the rest alone
    corpus.redact = None
    assert corpus.run()["is_census"]
