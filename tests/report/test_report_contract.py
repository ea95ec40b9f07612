"""The fixture's figures have the very keys that the stages write, so that a renamed key is noticed here."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
from typing import Any

from pipelines.accounting.claims import Claim
from pipelines.miss_rate.estimate import not_measured
from pipelines.policies.judging.tables import RedactionFigures
from pipelines.report.claims import TITLES
from pipelines.report.figures import _redaction


def test_estimate_figures(raw: dict[str, Any]) -> None:
    written = not_measured(num_sampled_sentences=1, is_census=False, confidence=0.9, reason="r")
    assert set(raw["estimate"]) == set(written)


def test_redaction_figures(raw: dict[str, Any]) -> None:
    written = json.loads(json.dumps(RedactionFigures(policies=("digits",), conservative=None).document()))
    assert all(set(part) == set(written) for part in raw["redact"])
    summed = _redaction([written, written])
    assert None not in {value for key, value in summed.items() if key.startswith("num_")}


def test_claims(raw: dict[str, Any]) -> None:
    fields = {field.name for field in dataclasses.fields(Claim)}
    assert all(set(claim) == fields for claim in raw["claims"]["claims"])


def test_titles() -> None:
    modules = [
        importlib.import_module(f"pipelines.accounting.{n}")
        for n in ("confidentiality_claims", "owner_claims", "selective_claims")
    ]
    source = "".join(inspect.getsource(module) for module in modules)
    assert TITLES
    assert all(f'"{notion}"' in source for notion in TITLES)
