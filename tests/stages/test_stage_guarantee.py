"""The guarantee stage: from files to claims, with the settings of the stages before it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from pipelines.context import Artifact, StageContext
from pipelines.miss_rate.estimate import MU, MU_OF_ONE_LABEL, not_measured
from pipelines.stages.dedup import DedupConfig
from pipelines.stages.guarantee import GuaranteeConfig, run
from pipelines.stages.redact import RedactConfig

EVENTS = {
    "schema_version": 1,
    "method": "crt",
    "record": "sentence",
    "num_private_records": 1000,
    "num_public_records": 500,
    "event": {
        "type": "self_composed",
        "count": 10,
        "event": {
            "type": "poisson_sampled",
            "sample_rate": 0.1,
            "event": {"type": "gaussian", "noise_multiplier": 4.0},
        },
    },
    "target_delta": 1e-5,
    "target_epsilon": None,
    "relation": "replace_one",
    "max_grad_norm": 0.5,
    "insecure_test_seed": False,
    "tokenizer": {"kind": "bytes", "trained_on": "none"},
    "public_order": "content_hash",
    "assumption_notes": [],
}
RATE = {"value": 0.05, "upper": 0.1, "confidence": 0.95}
ESTIMATE = {
    "source": "gold",
    "is_census": False,
    "mu": MU,
    "false_negative_rate": RATE,
    "delta2": {"value": 0.0, "upper": 0.01, "confidence": 0.95},
    "covers_corpus": True,
    "worst_label": {
        "num_labels": 2,
        "mu": MU_OF_ONE_LABEL,
        "false_negative_rate": {"value": 0.1, "upper": 0.3, "confidence": 0.95},
        "delta2": {"value": 0.0, "upper": 0.02, "confidence": 0.95},
    },
}


def claims(tmp_path, estimate=ESTIMATE, dedup=None, redact=None, guarantee=None, **events):
    (tmp_path / "train").mkdir()
    (tmp_path / "estimate").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "train" / "events.json").write_text(json.dumps({**EVENTS, **events}))
    (tmp_path / "estimate" / "figures.json").write_text(json.dumps(estimate))
    ctx = StageContext(
        stage="guarantee",
        partition=None,
        configs={
            "guarantee": GuaranteeConfig(**(guarantee or {})),
            "dedup": DedupConfig(**(dedup or {})),
            "redact": RedactConfig(**(redact or {})),
        },
        inputs={
            name: (Artifact(stage=name, partition=None, key="k", private_dir=tmp_path / name),)
            for name in ("train", "estimate")
        },
        private_dir=tmp_path / "out",
        scratch_dir=tmp_path,
    )
    counts = run(ctx)
    found = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert counts["num_claims"] == len(found["claims"])
    assert counts["num_refused"] == sum(c["refused"] is not None for c in found["claims"])
    assert found["schema_version"] == 1
    return {(c["notion"], c["group_size"]): c for c in found["claims"]}


def test_the_defaults_make_every_row_private_and_claim_the_raw_corpus(tmp_path):
    found = claims(tmp_path)
    one = found["confidentiality", 1]
    assert one["corpus"] == "raw"
    assert one["dedup_stability"] == 1
    assert one["delta"] == 1e-5
    assert one["is_guarantee"]
    assert found["bayesian_confidentiality", 1]["epsilon"] < one["epsilon"]
    assert {("group_confidentiality", 2), ("group_confidentiality", 10)} <= set(found)


def test_a_conservative_policy_brings_delta2_in(tmp_path):
    found = claims(tmp_path, redact={"conservative": "conservative"})
    assert "0.01" in found["confidentiality", 1]["refused"]
    assert "0.02" in found["bayesian_confidentiality", 1]["refused"]  # an epsilon at delta 0.02 promises nothing
    assert found["bayesian_confidentiality", 1]["epsilon"] is None


def test_the_bayesian_claim_uses_the_worst_label(tmp_path):
    one = claims(tmp_path)["bayesian_confidentiality", 1]
    assert one["delta"] == pytest.approx(0.3 * 1e-5)
    assert one["mu"] == MU_OF_ONE_LABEL


def test_labels_of_a_part_of_the_corpus_reach_the_claims(tmp_path):
    found = claims(tmp_path, estimate={**ESTIMATE, "covers_corpus": False})
    assert "only a part" in found["bayesian_confidentiality", 1]["refused"]
    assert found["confidentiality", 1]["is_guarantee"]


def test_the_conservative_policy_may_tie_rows_together_too(tmp_path):
    name = "pipelines.policies.digits:DigitsPolicy"
    one = claims(tmp_path, redact={"policies": ("digits",), "conservative": name})["confidentiality", 1]
    assert any(f"plug-ins: {name};" in text for text in one["assumptions"])


def test_normalised_copies_and_public_rows_leave_no_claim_before_deduplication(tmp_path):
    """A copy in other letters can move between the masked, private rows and the public ones, which have no noise."""
    found = claims(tmp_path, dedup={"normalise": "casefold"}, redact={"conservative": "conservative"})
    one = found["confidentiality_of_caught_secrets", 1]
    assert (one["corpus"], one["dedup_stability"]) == ("deduplicated", None)
    assert any("without noise; no claim about the corpus before" in text for text in one["assumptions"])


@pytest.mark.parametrize(
    ("dedup", "corpus", "stability"),
    [
        ({"verify": False}, "deduplicated", None),
        ({"mode": "mask_all"}, "raw", 3),
        ({"normalise": "casefold"}, "raw", 3),
    ],
)
def test_the_dedup_settings_decide_what_the_claim_is_about(tmp_path, dedup, corpus, stability):
    one = claims(tmp_path, dedup=dedup)["confidentiality", 1]
    assert one["corpus"] == corpus
    assert one["dedup_stability"] == stability


def test_copies_that_stand_elsewhere_in_their_conversations_are_paid_for(tmp_path):
    assert claims(tmp_path, reads_places=True)["confidentiality", 1]["dedup_stability"] == 3


def test_an_unmeasured_run_still_gets_its_claims(tmp_path):
    estimate = not_measured(num_sampled_sentences=1, is_census=False, confidence=0.95, reason="no gold")
    found = claims(tmp_path, estimate=estimate, guarantee={"groups": (3,)})
    assert "not measured" in found["bayesian_confidentiality", 1]["refused"]
    assert found["confidentiality", 1]["is_guarantee"]
    assert found["group_confidentiality", 3]["num_missed"] == 3


def test_uncollapsed_masks_reach_the_claims(tmp_path):
    assert "collapse" in claims(tmp_path, redact={"collapse": False})["bayesian_confidentiality", 1]["refused"]


def test_groups_are_checked_and_sorted():
    assert GuaranteeConfig(groups=(10, 2, 2)).groups == (2, 10)
    with pytest.raises(ValidationError):
        GuaranteeConfig(groups=(0,))


def test_stage_modules_are_cheap_to_import():
    code = (
        "import sys, pipelines.stages.sample, pipelines.stages.estimate, pipelines.stages.guarantee;"
        "assert not {'numpy', 'scipy', 'pyarrow', 'dp_accounting', 'torch', 'spacy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
