"""The cells and claims of each paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.reproduce.cells import Cell
from benchmarks.reproduce.verdicts import Claim

from . import crt, domain, jft, jft_claims, selective, selective_claims, strong, strong_claims

TITLES: Final[Mapping[str, str]] = {
    "jft": "Just Fine-tune Twice (Shi, Shea, Chen, Zhang, Jia and Yu 2022)",
    "selective": "Selective Differential Privacy for Language Modeling (Shi, Cui, Li, Jia and Yu 2021)",
    "crt": "Provably Confidential Language Modelling (Zhao, Li and Wang 2022)",
    "domain": "Domain Private Transformers for Multi-Domain Dialog Systems (Kabra and Elenberg 2023)",
    "strong": "Large Language Models Can Be Strong Differentially Private Learners (Li et al. 2022)",
}
_MODULES: Final = (jft, selective, crt, domain, strong)
CELLS: Final[tuple[Cell, ...]] = tuple(cell for module in _MODULES for cell in module.CELLS)
_CLAIMS: Final = (jft_claims, selective_claims, crt, domain, strong_claims)
CLAIMS: Final[tuple[Claim, ...]] = tuple(claim for module in _CLAIMS for claim in module.CLAIMS)
TEXTS: Final[Mapping[str, str]] = {
    "jft": "jft_just_fine_tune_twice.txt",
    "selective": "selective_dp.md",
    "crt": "crt_provably_confidential.md",
    "domain": "domain_private_transformers.md",
    "strong": "li2022_strong_dp_learners.txt",
}
"""Files of the copies that numbers were taken from."""
