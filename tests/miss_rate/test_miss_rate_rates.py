"""The three rates cannot stand in for one another, at run time or for the type checker."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import REPOSITORY

from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate, require

MISUSE = """
from pipelines.accounting.confidentiality import PrivacyLoss, bayesian_confidentiality
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate
m = MissRate(value=0.007, upper=0.007, confidence=0.95)
gamma = FalseNegativeRate(value=0.1, upper=0.1, confidence=0.95, mu="test")
bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), gamma, Delta2.zero("test"))
bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), m, Delta2.zero("test"))
bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), 0.007, Delta2.zero("test"))
bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), gamma, gamma)
"""


def test_only_the_very_kind_passes():
    m = MissRate(value=0.1, upper=0.2, confidence=0.95)
    gamma = FalseNegativeRate(value=0.1, upper=0.2, confidence=0.95, mu="test")
    assert require(m, MissRate) is m
    for wrong in (gamma, 0.1, None, Delta2.zero("test")):
        with pytest.raises(TypeError, match="a MissRate is needed"):
            require(wrong, MissRate)


@pytest.mark.parametrize(
    ("value", "upper", "confidence"),
    [(-0.1, 0.5, 0.95), (0.5, 0.4, 0.95), (0.5, 1.1, 0.95), (0.5, 0.6, 0.0), (0.5, 0.6, 1.1), (float("nan"), 1, 0.9)],
)
def test_impossible_rates_are_refused(value, upper, confidence):
    with pytest.raises(ValueError):
        MissRate(value=value, upper=upper, confidence=confidence)
    with pytest.raises(ValueError):
        Delta2(value=value, upper=upper, confidence=confidence, mu="test")


@pytest.mark.parametrize("lower", [-0.01, 0.2, float("nan")])
def test_a_lower_end_above_its_rate_is_refused(lower):
    assert MissRate(value=0.1, lower=0.1, upper=0.3, confidence=0.95).lower == 0.1
    with pytest.raises(ValueError, match="lower end"):
        MissRate(value=0.1, lower=lower, upper=0.3, confidence=0.95)


def test_rates_are_frozen():
    with pytest.raises(AttributeError):
        Delta2.zero("test").upper = 0.5


@pytest.mark.slow
def test_the_type_checker_refuses_the_wrong_rate(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "misuse.py"
    file.write_text(MISUSE)
    root = REPOSITORY
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(file)]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    errors = [line for line in found.splitlines() if "misuse.py" in line and "error" in line]
    assert [line.split(":")[1] for line in errors] == ["7", "8", "9"]
