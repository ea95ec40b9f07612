"""The tutorial's loop: detectors learn from reviews, and are measured on sentences that they never saw."""

import argparse
import os
import runpy
from pathlib import Path

import pytest
from support import REPOSITORY

DATA = Path(os.environ.get("RETICENT_TEST_DATA", REPOSITORY.parent / "shared" / "data"))


@pytest.mark.slow
def test_the_miss_rate_falls_and_no_sentence_is_both_lesson_and_evidence(tmp_path):
    if not (DATA / "multidogo").is_dir():
        pytest.skip(f"multidogo is not below {DATA}; set RETICENT_TEST_DATA to the folder of the papers' corpora")
    improve = runpy.run_path(str(REPOSITORY / "docs" / "tutorials" / "improve.py"))
    given = argparse.Namespace(data_dir=DATA, rounds=2, fraction=0.2, domains=["media"], iterations=40)
    first, second = improve["run"](given, tmp_path)
    assert (first["num_learnt_sentences"], first["source"], second["source"]) == (0, "human", "human")
    assert second["num_learnt_sentences"] > 0
    assert second["num_sentences"] < first["num_sentences"]
    assert second["whole_text"]["miss_rate"] < first["whole_text"]["miss_rate"]
    for row in (first, second):
        assert row["estimate_of_next"] == "not_measured"
        assert row["next_on_the_same_sample"]["miss_rate"] < row["miss_rate"]
