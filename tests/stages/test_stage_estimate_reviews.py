"""The estimate stage with reviewers, with a proxy, and with domains that are drawn on their own."""

from __future__ import annotations

import json

import pytest
from stage_corpora import write_stability
from support.contexts import artifact, stage_context
from support.tables import read_table, write_rows

from pipelines.errors import InputError
from pipelines.miss_rate.learnt import sampled_keys, write_learnt
from pipelines.miss_rate.rates import delta2_of, false_negative_rate_of, worst_label_of
from pipelines.miss_rate.review_log import Decision, DecisionLog, Secret, sentence_key
from pipelines.miss_rate.sampling import Partition
from pipelines.miss_rate.tables import SAMPLE
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.estimate import EstimateConfig
from pipelines.settings.redact import RedactConfig
from pipelines.stages.prepare.estimate import run

STORE = b"secret of the store"
TEXT = "call {name} Doe at 555 now"


def text_of(i):
    return TEXT.format(name=f"Jane{i:02}")


class Reviewed:
    """Twelve sentences "call Jane07 Doe at 555 now"; `555` is masked, and `Doe` in the first six."""

    def __init__(self, folder, domains=None):
        self.folder = folder
        for stage in ("split", "redact", "sample", "stability"):
            (folder / stage).mkdir()
        write_stability(folder / "stability" / "stability.parquet", [("d", i) for i in range(12)], 6)
        self.domains = domains or (lambda i: None)
        starts, ends = [0, 5, 12, 16, 19, 23], [4, 11, 15, 18, 22, 26]
        sentences = [{"sentence_index": i, "text": text_of(i), "domain": self.domains(i)} for i in range(12)]
        for i, row in enumerate(sentences):
            tokens = [row["text"][a:b] for a, b in zip(starts, ends, strict=True)]
            assert tokens[1:3] == [f"Jane{i:02}", "Doe"]
        common = {"token_starts": starts, "token_ends": ends}
        write_rows(folder / "split" / "sentences.parquet", "sentences", sentences, **common)
        write_rows(folder / "split" / "documents.parquet", "documents", [{"num_sentences": 12, "num_tokens": 72}])
        write_rows(folder / "split" / "gold.parquet", "gold", [])
        self.redact(lambda i: [(2, 3)] if i < 6 else [])
        for name, rows in (("sample", range(12)), ("screening", range(3))):
            drawn = [{"sentence_index": i, "inclusion_probability": self.chance(i)} for i in rows]
            common = {"doc_id": "d", "partition": "p", "replicate": 0}
            write_rows(folder / "sample" / f"{name}.parquet", "sample", drawn, **common)
        strata = sorted({(self.domains(i), self.chance(i)) for i in range(12)}, key=str)
        figures = {
            "is_census": False,
            "replicates": [{"num_sentences": 12}],
            "num_distinct_sentences": 12,
            "strata": [{"domain": d, "inclusion_probability": p} for d, p in strata],
            "warnings": [],
        }
        (folder / "sample" / "figures.json").write_text(json.dumps(figures))
        self.log = DecisionLog(folder / "reviews" / "decisions.jsonl")

    def chance(self, i):
        return 0.1 if self.domains(i) == "small" else 0.01

    def redact(self, masks_of, copies=()):
        span = {"start": 0, "end": 1, "label": "X", "policy": "p", "score": 1.0}
        rows = [
            {
                "sentence_index": i,
                "spans": [span | {"start_token": a, "end_token": b} for a, b in [*masks_of(i), (4, 5)]],
                "domain": self.domains(i),
                "is_duplicate": i in copies,
            }
            for i in range(12)
        ]
        write_rows(self.folder / "redact" / "redacted.parquet", "redacted", rows, num_tokens=6)

    def judge(self, i, secrets, trusted=(), reviewer="ana", **values):
        fields = {"id": f"{reviewer}{i:06}", "at": "2026-01-01", "key": sentence_key(STORE, text_of(i))} | values
        made = Decision(reviewer=reviewer, secrets=tuple(Secret(*s) for s in secrets), trusted=tuple(trusted), **fields)
        self.log.append([made])

    def run(self, redact=None, **config):
        out = self.folder / f"out-{len(list(self.folder.iterdir()))}"
        has_log = self.log.path.exists()
        ctx = stage_context(
            "estimate",
            out,
            {
                "estimate": EstimateConfig(**config),
                "redact": redact or RedactConfig(policies=("digits",)),
                "corpus": CorpusConfig(),
            },
            {
                "sample": self.folder / "sample",
                **{name: artifact(name, self.folder / name, "p") for name in ("split", "redact", "stability")},
            },
            scratch=self.folder,
            secret=STORE,
            reviews=(self.log.path, self.log.path.stat().st_size) if has_log else None,
        )
        run(ctx)
        self.screened = read_table(out / "screened.parquet", "shard").to_pylist()
        return json.loads((out / "figures.json").read_text())


NAME, PHONE = (5, 15, "NAME"), (19, 22, "X")


def test_reviews_say_what_was_missed(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(12):
        corpus.judge(i, [NAME, PHONE] if i < 9 else [PHONE], trusted=[(19, 22)])
    found = corpus.run()
    assert found["source"] == "human"
    assert found["covers_corpus"]
    assert (found["num_secret_spans"], found["num_missed_spans"]) == (9 + 12, 9)  # Jane is open, Doe masked or not
    assert found["num_missed_tokens"] == 6 * 1 + 3 * 2
    assert found["false_negative_rate"]["value"] == pytest.approx(9 / 21)
    assert found["precision"] == pytest.approx((12 + 6) / 18)
    assert found["by_label"]["PERSON"]["num_missed_spans"] == 9
    assert found["num_trusted_spans"] == 12
    assert false_negative_rate_of(found).upper > 9 / 21
    # JFT's manual screening: everything a reviewer saw is masked.
    assert [row["redacted_text"] for row in corpus.screened] == ["call <MASK> at <MASK> now"] * 3
    assert found["num_screened_sentences"] == 3


def test_labels_of_all_policies_and_earlier_reviews_share_one_list(tmp_path):
    corpus = Reviewed(tmp_path)
    earlier = ["CARDINAL", "DATE+PHONE_NUMBER", "PHONE_NUMBER", "PHONE"]
    for i in range(12):
        corpus.judge(i, [NAME, (19, 22, earlier[i % 4])])
    found = corpus.run()
    assert list(found["by_label"]) == ["CONTACT", "NUMBER", "PERSON"]
    assert found["by_label"]["CONTACT"]["num_secret_spans"] == 9
    assert found["worst_label"]["num_labels"] == 3
    two = corpus.run(labels=("PERSON", "REST"), map_labels={"NUMBER": "REST"})
    assert list(two["by_label"]) == ["PERSON", "REST"]
    upper, upper_of_two = (
        row["false_negative_rate_upper"] for row in (found["by_label"]["CONTACT"], two["by_label"]["REST"])
    )
    assert upper_of_two < upper  # more secrets each, and fewer labels at once


def test_an_unfinished_review_is_no_statement_on_the_corpus(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(5):
        corpus.judge(i, [PHONE])
    found = corpus.run()
    assert (found["source"], found["num_sampled_sentences"], found["num_unreviewed_sentences"]) == ("human", 5, 7)
    assert not found["covers_corpus"]
    assert found["labelled_share"] == pytest.approx(5 / 12)
    assert found["mu"].endswith("; of the reviewed sentences only")
    assert any("not reviewed yet" in warning for warning in found["warnings"])


def test_reviews_outlive_a_change_of_policy(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(12):
        corpus.judge(i, [NAME, PHONE], trusted=[(19, 22)])
    before = corpus.run()
    corpus.redact(lambda i: [(1, 3)])
    after = corpus.run()
    assert before["num_missed_spans"] == 12
    assert after["num_missed_spans"] == 0
    assert after["num_sampled_sentences"] == 12
    assert after["false_negative_rate"]["upper"] > 0


def test_disputes_count_for_the_stricter_and_are_told(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(12):
        corpus.judge(i, [PHONE])
        corpus.judge(i, [PHONE, NAME] if i == 0 else [PHONE], reviewer="ben")
    found = corpus.run()
    assert (found["num_disputed_sentences"], found["num_missed_spans"]) == (1, 1)
    assert any("--adjudicate" in warning for warning in found["warnings"])
    assert len(corpus.screened) == 2  # the disputed one is not clean


def test_nothing_was_reviewed(tmp_path):
    corpus = Reviewed(tmp_path)
    assert corpus.run()["source"] == "not_measured"
    assert corpus.screened == []
    with pytest.raises(InputError, match="reticent review"):
        corpus.run(source="human")


def test_a_proxy_is_named_as_one_and_carries_no_guarantee(tmp_path):
    corpus = Reviewed(tmp_path)
    corpus.redact(lambda i: [])
    found = corpus.run(source="proxy", proxy=("digits",))
    assert found["source"] == "proxy"
    assert found["num_secret_spans"] == 24  # Jane07 and 555
    assert found["num_missed_spans"] == 12
    assert "PROXY" in found["assumptions"][0]
    assert any("no guarantee" in warning for warning in found["warnings"])
    assert (false_negative_rate_of(found), delta2_of(found), worst_label_of(found)) == (None, None, None)


@pytest.mark.parametrize("values", [{"source": "proxy"}, {"proxy": ("digits",)}, {"source": "proxy", "proxy": ("no",)}])
def test_a_proxy_needs_its_policies(values):
    with pytest.raises(ValueError):
        EstimateConfig(**values)


def test_domains_drawn_on_their_own_are_weighted_back(tmp_path):
    corpus = Reviewed(tmp_path, domains=lambda i: "small" if i < 6 else "large")
    for i in range(12):  # every name of the small domain is missed, none is there in the large one
        corpus.judge(i, [NAME, PHONE] if i < 6 else [PHONE])
    found = corpus.run()
    # small: 6 missed of 12, each for 10 sentences; large: 0 of 6, each for 100.
    assert found["false_negative_rate"]["value"] == pytest.approx(6 * 10 / (12 * 10 + 6 * 100))
    assert found["num_missed_spans"] == 6
    assert found["by_domain"]["small"]["false_negative_rate"] == pytest.approx(0.5)
    assert found["by_domain"]["large"]["num_missed_spans"] == 0
    assert found["by_domain"]["large"]["false_negative_rate_upper"] > 0


def test_only_the_bytes_of_this_run_are_read(tmp_path):
    corpus = Reviewed(tmp_path)
    corpus.judge(0, [PHONE])
    found = corpus.run()
    corpus.judge(1, [PHONE])
    assert found["num_sampled_sentences"] == 1
    assert corpus.run()["num_sampled_sentences"] == 2


def learnt_by_a_model(folder, which):
    model = folder / "model"
    model.mkdir(exist_ok=True)
    write_learnt(model, STORE, [sentence_key(STORE, text_of(i)) for i in which])
    return RedactConfig(policies=("classifier", "digits"), classifier=str(model))


def test_sentences_that_a_policy_learnt_from_are_no_evidence(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(12):  # the six that were learnt from hold no miss
        corpus.judge(i, [PHONE] if i < 6 else [NAME, PHONE], trusted=[(19, 22)])
    naive = corpus.run()
    assert (naive["num_learnt_sentences"], naive["false_negative_rate"]["value"]) == (0, pytest.approx(6 / 18))
    found = corpus.run(redact=learnt_by_a_model(tmp_path, range(6)))
    assert (found["num_learnt_sentences"], found["num_sampled_sentences"]) == (6, 6)
    assert found["false_negative_rate"]["value"] == pytest.approx(6 / 12)
    assert "without the sentences that a policy learnt from" in found["mu"]
    assert found["worst_label"]["mu"].endswith("learnt from")
    assert any("6 sampled sentences are left out" in warning for warning in found["warnings"])
    assert found["num_unreviewed_sentences"] == 0


def test_a_sample_that_was_learnt_from_measures_nothing(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(12):
        corpus.judge(i, [PHONE], trusted=[(19, 22)])
    found = corpus.run(redact=learnt_by_a_model(tmp_path, range(12)))
    assert found["source"] == "not_measured"
    assert "sample.draw" in found["warnings"][0]
    assert false_negative_rate_of(found) is None
    assert len(corpus.screened) == 3  # what people screened is trained on, and is no evidence


def test_copies_that_are_left_of_a_sample_that_was_learnt_from_measure_nothing(tmp_path):
    corpus = Reviewed(tmp_path)
    corpus.redact(lambda i: [], copies=(10, 11))
    for i in range(10):
        corpus.judge(i, [NAME, PHONE])
    found = corpus.run(redact=learnt_by_a_model(tmp_path, range(10)))  # who learnt noted reviewed sentences only
    assert (found["source"], found["miss_rate"]) == ("not_measured", None)


def test_all_of_a_sample_is_noted_copies_included(tmp_path):
    corpus = Reviewed(tmp_path)
    corpus.redact(lambda i: [], copies=(10, 11))
    partition = Partition("p", *(artifact(name, tmp_path / name, "p") for name in ("split", "redact")))
    sample = artifact("sample", tmp_path / "sample").table(SAMPLE)
    assert sampled_keys(sample, [partition], STORE) == {sentence_key(STORE, text_of(i)) for i in range(12)}


def with_large(corpus, drawn):
    """Says that all sentences are large ones, and puts the last two into the large part alone where it was drawn."""
    path = corpus.folder / "sample"
    rows = [
        {"sentence_index": i, "replicate": int(i >= 10), "inclusion_probability": 0.01}
        for i in range(12 if drawn else 10)
    ]
    write_rows(path / "sample.parquet", "sample", rows, doc_id="d", partition="p")
    size = len([0] * 6) + 4 * 3  # six tokens, three marked words
    sizes = {"above": size - 1, "num_population_sentences": 4, "num_population_tokens": 24, "most_tokens": 6}
    figures = json.loads((path / "figures.json").read_text()) | {"num_population_sentences": 1_000}
    figures["large"] = {"num_sentences": drawn, "classes": [sizes | {"num_sentences": drawn}]}
    (path / "figures.json").write_text(json.dumps(figures))


def test_reviews_of_the_replicates_stay_valid_and_their_bounds_allow_for_unread_large_sentences(tmp_path):
    corpus = Reviewed(tmp_path)
    with_large(corpus, 2)
    for i in range(10):
        corpus.judge(i, [NAME, PHONE], trusted=[(19, 22)])
    before = corpus.run()
    assert before["covers_corpus"]  # claims are issued as before, with a wider bound
    assert (before["num_unreviewed_sentences"], before["large_sentences"]["num_unreviewed"]) == (0, 2)
    assert not before["large_sentences"]["is_reviewed"]
    assert before["large_sentences"]["most_missed_secrets"] > 0
    assert any("review its 2 sentences left" in warning for warning in before["warnings"])
    corpus.judge(10, [PHONE], trusted=[(19, 22)])
    assert corpus.run()["large_sentences"]["num_unreviewed"] == 1  # a part of the large part does not count
    corpus.judge(11, [PHONE], trusted=[(19, 22)])
    after = corpus.run()
    assert after["large_sentences"] == {
        "num_reviewed": 12,
        "num_unreviewed": 0,
        "is_reviewed": True,
        "most_missed_secrets": None,
    }
    assert after["false_negative_rate"]["value"] == pytest.approx(10 / 22)
    assert after["false_negative_rate"]["upper"] < before["false_negative_rate"]["upper"]


def test_a_sample_of_an_older_version_has_a_valid_and_wider_bound(tmp_path):
    corpus = Reviewed(tmp_path)
    for i in range(12):
        corpus.judge(i, [NAME, PHONE], trusted=[(19, 22)])
    figures = corpus.run()  # no `large` in the figures of its sample; no sentence is twice the mean
    assert figures["large_sentences"]["is_reviewed"]
    with_large(corpus, 0)
    wide = corpus.run()
    assert not wide["large_sentences"]["is_reviewed"]
    assert wide["false_negative_rate"]["upper"] > figures["false_negative_rate"]["upper"]
    assert any("was not drawn: set sample.large_sentences" in warning for warning in wide["warnings"])
