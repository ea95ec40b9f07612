"""`reticent privacy plan`: the document, the table, the picture, the settings to paste, and what it refuses."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from support.tiny import CONTROL

from flows.commands.privacy_plan import Budget, num_parameters, plan_document, plan_text
from pipelines.errors import ConfigError, InputError
from pipelines.settings.train import TrainConfig
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape

KEYS = {
    *("recommended", "options", "epsilon", "delta", "people", "records", "most_records", "gradients", "parameters"),
    *("least_total_noise", "batch_loss", "warns_from", "warnings", "settings", "picture", "assumptions"),
}
OPTION = {
    *("name", "unit", "owner_records", "expected_batch_size", "epochs", "steps", "sample_rate", "noise_multiplier"),
    *("noise_batch_ratio", "noise_to_signal", "total_noise", "epsilon_person", "gradients", "hours"),
}


def plan(config=None, out=None, **given):
    return plan_document(Budget(**given), config, {}, out)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    out = tmp_path_factory.mktemp("plan") / "plan.svg"
    began = time.process_time()
    found = plan(people=1_000, records=4_000, most=16, epsilon=3.0, throughput=100.0, out=out)
    assert time.process_time() - began < 10  # about two seconds
    return found


def test_the_document_of_the_contract(few):
    assert few.keys() == KEYS
    assert all(option.keys() == OPTION for option in few["options"])
    assert [option["unit"] for option in few["options"]] == ["record", "owner", "owner"]
    assert few["recommended"] == few["options"][-1]
    assert (few["delta"], few["people"]) == (1e-5, 1_000)
    assert json.loads(json.dumps(few)) == few


def test_a_person_has_a_larger_epsilon_if_records_are_sampled(few):
    of_people = {option["name"]: option["epsilon_person"] for option in few["options"]}
    assert of_people["record"] > 50
    assert of_people["owner, g = 1"] == of_people["owner, g = 4"] == 3.0


def test_a_thousand_people_at_epsilon_3_are_warned_with_what_would_help(few):
    text = plan_text(few)
    (warning,) = few["warnings"]
    assert few["recommended"]["total_noise"] >= few["warns_from"]
    for needed in ("drown", "an estimate", "people in place of 1,000", "or epsilon", "lora"):
        assert needed in warning, needed
    assert f"warning: {warning}" in text
    assert "* owner, g = 4" in text


@pytest.mark.slow
def test_many_people_are_not_warned():
    found = plan(people=20_000, epsilon=3.0, epochs=4)
    assert found["warnings"] == []
    assert found["delta"] == 1e-6
    assert found["recommended"]["name"] == "owner, g = 1"


def test_the_settings_are_those_of_a_training(few):
    (table,) = tomllib.loads(few["settings"]).values()
    train = TrainConfig(method="dpsgd", **table)
    assert (train.unit, train.owner_records) == ("owner", 4)
    assert (train.expected_batch_size, train.target_epsilon, train.target_delta) == (16, 3.0, 1e-5)


def test_the_picture_is_svg_with_every_option(few):
    drawn = fromstring(Path(few["picture"]).read_text("utf-8"))
    words = [element.text for element in drawn.iter() if element.tag.endswith("}text")]
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    assert {"record", "owner, g = 1", "owner, g = 4 (recommended)"} < set(words)
    assert len([e for e in drawn.iter() if e.tag.endswith("polyline")]) == 3


def test_compute_in_four_ways_is_the_same():
    ways = (
        {"epochs": 4},
        {"gradients": 240},
        {"tokens": 2_400, "record_tokens": 10},
        {"hours": 0.5, "throughput": 240 / 1_800},
    )
    found = [plan(records=60, epsilon=8.0, **way)["recommended"] for way in ways]
    assert all({**option, "hours": None} == found[0] for option in found)
    assert found[3]["hours"] == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "give --people, --records, or both"),
        ({"people": 0}, "--people must be a finite number above 0, not 0"),
        ({"records": 100, "epsilon": float("inf")}, "--epsilon must be a finite number above 0"),
        ({"records": 100, "median": 3}, "give --people as well"),
        ({"people": 10, "median": 5, "most": 4}, "half of the people cannot have more"),
        ({"people": 10, "records": 100, "most": 9}, "cannot have 100 records"),
        ({"records": 100, "delta": 0.01}, "--delta 0.01 is not below 1 / 100"),
        ({"records": 100, "epochs": 1, "tokens": 5}, "the compute is given 2 times"),
        ({"records": 100, "tokens": 5}, "--tokens needs --record-tokens"),
        ({"records": 100, "hours": 5}, "--hours needs --throughput"),
        ({"records": 100, "gradients": 50}, "less than one epoch of 100 records"),
    ],
)
def test_what_is_impossible_is_refused(given, reason):
    with pytest.raises(ConfigError, match=reason):
        plan(**given)


def settings_file(folder, train=""):
    config = folder / "reticent.toml"
    config.write_text(f'[corpus]\ninputs = ["x.txt"]\n[store]\nroot = "store"\n[train]\n{train}\n', encoding="utf-8")
    return config


def write_report(folder, **report):
    path = folder / "store" / "public" / "latest" / "public_report" / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report), encoding="utf-8")


@pytest.mark.slow
def test_settings_give_what_is_not_given(tmp_path):
    config = settings_file(tmp_path, "target_epsilon = 8.0\nepochs = 3\nembedding_size = 32\nnum_layers = 1")
    found = plan(config, records=200)
    assert (found["epsilon"], found["gradients"]) == (8.0, 600)
    assert plan(config, records=200, epsilon=5.0, epochs=4)["gradients"] == 800


def test_counts_of_the_store_are_never_read_unless_published(tmp_path):
    config = settings_file(tmp_path)
    write_report(tmp_path, person={"num_people": None}, training={"num_trained_parameters": 77})
    private = tmp_path / "store" / "private" / "latest" / "report" / "report.json"
    private.parent.mkdir(parents=True)
    private.write_text(json.dumps({"person": {"num_people": 321}, "training": {"num_private_records": 4_321}}))
    with pytest.raises(ConfigError, match="private counts, which a plan does not read"):
        plan(config)
    found = plan(config, records=100)
    assert (found["people"], found["parameters"]) == (None, 77)
    write_report(tmp_path, person={"num_people": 321}, training={})
    assert plan(config, parameters=10)["people"] == 321


def test_a_pretrained_model_has_no_length_of_noise_until_its_parameters_are_given(tmp_path):
    config = settings_file(tmp_path, 'model = "smollm2"\nadaptation = "lora"')
    found = plan(config, records=100)
    assert (found["parameters"], found["recommended"]["noise_to_signal"]) == (None, None)
    assert " - " in plan_text(found)
    ratio = found["recommended"]["noise_batch_ratio"]
    assert plan(config, records=100, parameters=400)["recommended"]["noise_to_signal"] == pytest.approx(20 * ratio)


def test_a_picture_that_cannot_be_written_is_an_error_with_its_place(tmp_path):
    with pytest.raises(InputError, match=r"no/plan\.svg"):
        plan(records=100, epochs=1, out=tmp_path / "no" / "plan.svg")


def test_the_number_of_parameters_is_that_of_the_model():
    shape = ModelShape(num_layers=2, num_heads=2, embedding_size=16, context_length=32)
    config = TrainConfig(num_layers=2, num_heads=2, embedding_size=16, context_length=32, vocab_size=400)
    assert num_parameters(config) == sum(p.numel() for p in build_model(shape, 400, CONTROL, 0).parameters())
    for recurrent in (TrainConfig(method="sdpsgd_lstm"), TrainConfig(model="gru")):
        assert num_parameters(recurrent) is None


@pytest.mark.slow
def test_people_are_not_recommended_to_a_method_that_cannot_sample_them(tmp_path):
    found = plan(settings_file(tmp_path, 'method = "jft"'), people=100, median=4, most=16)
    assert {option["unit"] for option in found["options"]} == {"record"}
    assert any("people cannot be sampled" in warning and "'jft'" in warning for warning in found["warnings"])
    assert "unit" not in found["settings"]


def test_one_record_of_everybody_is_a_bound_that_the_settings_keep(tmp_path):
    found = plan(people=200, most=1)
    assert found["recommended"]["unit"] == "record"
    settings = tomllib.loads(found["settings"])
    assert settings["guarantee"] == {"owner_bound": 1, "owner_bound_basis": "fixed_beforehand"}
    assert found["settings"].startswith("# corpus.owner_from")


@pytest.mark.slow
def test_the_epsilon_of_a_person_is_stated_only_for_the_most_that_was_given(few):
    assert plan(people=200, records=800)["options"][0]["epsilon_person"] is None
    assert few["options"][0]["epsilon_person"] is not None


def test_assumptions_are_about_what_is_sampled(few):
    assert any(text.startswith("Poisson sampling: each person") for text in few["assumptions"])
    assert not any("each record enters" in text for text in few["assumptions"])
    assert any("each record enters" in text for text in plan(records=400)["assumptions"])
