"""Passing one rate for another is an error of the type checker, beside the one at run time."""

from __future__ import annotations

import sys

import pytest
from mypy import api

from pipelines.accounting.confidentiality import PrivacyLoss, bayesian_confidentiality, jft_amplified
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate

PROGRAM = """
from pipelines.accounting.confidentiality import (
    PrivacyLoss, bayesian_confidentiality, compose, jft_amplified, num_missed_of_group,
)
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate

m = MissRate(value=0.1, upper=0.1, confidence=1.0)
gamma = FalseNegativeRate(value=0.1, upper=0.1, confidence=1.0, mu="mu")
delta2 = Delta2.zero("mu")
total = PrivacyLoss(1.0, 1e-5)
right = bayesian_confidentiality(total, gamma, delta2)
bayesian_confidentiality(total, m, delta2)  # wrong
bayesian_confidentiality(total, 0.1, delta2)  # wrong
bayesian_confidentiality(total, gamma, gamma)  # wrong
bayesian_confidentiality(right, gamma, delta2)  # wrong
compose([right, right])  # wrong
jft_amplified(total, gamma)  # wrong
num_missed_of_group(3, m)  # wrong
"""


def test_the_type_checker_tells_the_rates_apart(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = ["--no-error-summary", "--ignore-missing-imports", "--follow-imports", "silent"]
    out, err, _ = api.run([*options, "--cache-dir", str(tmp_path / "cache"), str(program)])
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    found = {int(line.split(":")[1]) for line in out.splitlines() if "[arg-type]" in line or "[list-item]" in line}
    assert found == wrong, out + err


def test_and_so_does_the_run():
    total, delta2 = PrivacyLoss(1.0, 1e-5), Delta2.zero("mu")
    m = MissRate(value=0.1, upper=0.1, confidence=1.0)
    gamma = FalseNegativeRate(value=0.1, upper=0.1, confidence=1.0, mu="mu")
    for wrong in (m, 0.1, delta2):
        with pytest.raises(TypeError, match="FalseNegativeRate"):
            bayesian_confidentiality(total, wrong, delta2)
    with pytest.raises(TypeError, match="MissRate"):
        jft_amplified(total, gamma)
    assert sys.modules["pipelines.miss_rate.rates"].require(gamma, FalseNegativeRate) is gamma
