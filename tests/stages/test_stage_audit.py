"""The last stage of the audit alone: scores and coins are joined by name, and what is claimed of which game."""

from dataclasses import replace

import numpy as np
import pytest
from audit_faults import LOOP, OF_PEOPLE, replaced
from support.contexts import artifact, stage_context
from support.patches import patching
from support.tables import write_rows

from pipelines.accounting.events import Composed, NoEvent, NonPrivate, dp_sgd, to_json
from pipelines.artifacts import Source, Target
from pipelines.attacks.epsilon_comparison import ClaimedProfile
from pipelines.attacks.epsilon_estimates import epsilon_estimates
from pipelines.attacks.epsilon_trials import Trials
from pipelines.graph import GRAPH
from pipelines.report.people import audited_sentences
from pipelines.settings.audit import AuditConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.audit import audit
from pipelines.stages.audit import steps as audit_steps
from pipelines.stages.audit.canaries import EXPOSURES
from pipelines.stages.audit.canary_table import CANARIES
from pipelines.stages.audit.records import MEMBERS, digests_of_rows, left_out_rows
from pipelines.training import loop
from pipelines.training.methods import dpsgd, sdpsgd_lstm

NUM = 300
NOISED = dp_sgd(noise_multiplier=1.0, sample_rate=1.0, num_steps=1)
COINS = np.random.default_rng(0).random(NUM) < 0.5
ORDER = np.random.default_rng(1).permutation(NUM)
MODEL, STEPS = "the audit's model", "the steps of dpsgd, each of them seen"


@pytest.fixture(autouse=True)
def quick(patch):
    """Claims at a few deltas; what they are is tested elsewhere."""
    of = ClaimedProfile.of
    patch(ClaimedProfile, "of", lambda event, relation: of(event, relation, (0.1, 1e-3, 1e-5, 1e-9)), read_by=audit)


def audited(
    folder,
    *,
    method="dpsgd",
    unit="record",
    phases=(),
    event=NOISED,
    noise=1.0,
    leak=0.0,
    order=None,
    exposure=None,
    recipes=(None, None),
    model="tiny",
    **settings,
):
    """What the stage says where included canaries lose ``leak`` nats less on the audit's model."""
    names = ("audit_model", "audit_canaries", "audit_membership", "audit_extraction", "train")
    places = {name: Target(folder=folder / name) for name in names}
    for place in places.values():
        place.folder.mkdir(parents=True)
    with places["audit_model"].table(CANARIES) as writer:
        for at in range(NUM):
            writer.append(
                canary_id=f"{at:03}", variant="missed", text="", num_copies=1, is_flagged=True,
                is_included=bool(COINS[at]),
            )  # fmt: skip
    released = np.random.default_rng(2).normal(9, 1, NUM)
    with places["audit_canaries"].table(EXPOSURES) as writer:
        for at in range(NUM) if order is None else order:
            writer.append(
                canary_id=f"{at:03}", variant="missed", is_included=bool(COINS[at]), loss_released=released[at],
                loss=released[at] - leak * COINS[at], exposure=0.0, exposure_normalised=0.0, exposure_released=0.0,
            )  # fmt: skip
    figures = {"noise_multiplier": noise, "sample_rate": 1.0} if noise else {}
    places["audit_model"].json("figures.json", figures)
    events = {"event": to_json(event), "target_delta": 1e-5, "max_grad_norm": 1.0, "phases": list(phases)}
    places["audit_model"].json("events.json", events)
    places["audit_canaries"].json("exposure.json", exposure or {"groups": []})
    for name in ("membership", "extraction"):
        places[f"audit_{name}"].json(f"{name}.json", {"not_attacked": "by this test"})
    configs = {
        "audit": AuditConfig(num_trials=100, **settings),
        "train": TrainConfig(method=method, unit=unit, model=model),
    }
    inputs = {name: artifact(name, place.folder) for name, place in places.items()}
    for name, recipe in zip(("train", "audit_model"), recipes, strict=True):
        inputs[name] = replace(inputs[name], recipe=recipe or {})
    audit.run(stage_context("audit", folder / "out", configs, inputs))
    return Source(folder=folder / "out").json("audit.json")


def claims(document):
    """Whether a finite epsilon is claimed, by game."""
    return {row["game"]: row["epsilon_claimed"] is not None for row in document["estimates"]}


@pytest.mark.slow
def test_a_reordered_table_of_scores_hides_no_leak(tmp_path):
    for name, order in (("plain", None), ("reordered", ORDER)):
        lower = audited(tmp_path / name, leak=9.0, order=order)["epsilon_lower"]
        assert lower["value"] == pytest.approx(lower["ceiling"])
        assert lower["ceiling"] > 3
    # What a join by position would have said of the second: that nothing leaks.
    trials = Trials((9.0 * COINS)[ORDER], COINS)
    rng = np.random.default_rng(3)
    by_position = epsilon_estimates(trials, delta=1e-5, confidence=0.95, rng=rng, estimators=("f_dp",))
    assert by_position["f_dp"].value < 0.5


def test_a_correct_audit_raises_no_alarm_and_a_leak_beyond_the_claim_does(tmp_path):
    quiet = audited(tmp_path / "quiet")
    assert claims(quiet) == {MODEL: True, STEPS: True}
    assert quiet["alarm"] is False
    assert quiet["epsilon_lower"]["value"] < 1 < quiet["epsilon_claimed"]
    light = audited(tmp_path / "leaky", event=dp_sgd(noise_multiplier=4.0, sample_rate=1.0, num_steps=1), leak=9.0)
    assert light["epsilon_lower"]["value"] > light["epsilon_claimed"]
    assert light["alarm"] is True
    ids = [[one["audit"] for one in found["evidence"]] for found in (quiet, light)]
    assert ids[0][1] == ids[1][1]  # the same coins, which count once
    assert ids[0][0] != ids[1][0]  # a game of its own each time


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "owner", "name", "wrap"),
    [
        ("crt", loop, "noisy_step", lambda step: lambda *a, **named: step(*a, **{**named, "noise_multiplier": 0.0})),
        ("sdpsgd_lstm", sdpsgd_lstm, "release", lambda _: lambda values, *_: values.detach().clone()),
        ("sdpsgd_lstm", sdpsgd_lstm, "clip_rows", lambda _: lambda values, _: values),
    ],
    ids=["sigma 0 in the loop", "s-dpsgd without noise", "s-dpsgd without clipped states"],
)
def test_a_fault_in_the_steps_of_the_runs_method_raises_the_alarm_of_a_whole_audit(tmp_path, method, owner, name, wrap):
    with replaced(owner, name, wrap):
        found = audited(tmp_path, method=method)
    (attacked,) = found["attacked"]
    assert (found["alarm"], attacked["method"]) == (True, method)
    assert attacked["code"].startswith(owner.__name__)
    assert min(test["p_value"] for test in attacked["tests"]) < 1e-10


@pytest.mark.slow
def test_of_a_gru_the_audit_attacks_its_one_state(tmp_path):
    found = audited(tmp_path, method="sdpsgd_lstm", model="gru")
    names = " ".join(test["name"] for test in found["attacked"][0]["tests"])
    assert "hidden state" in names
    assert "cell state" not in names


def test_a_method_of_another_package_that_cannot_be_played_is_said_not_to_be_attacked(tmp_path):
    def fails(_):
        def prepare(corpus, settings):
            return corpus.vocabulary.encoder  # there is none

        return prepare

    with patching() as patch, replaced(dpsgd, "prepare", fails):
        patch(audit_steps, "is_ours", lambda _: False)
        found = audited(tmp_path)
    assert found["attacked"] == []
    assert "AttributeError" in found["not_attacked"]["steps"]
    with pytest.raises(AttributeError), replaced(dpsgd, "prepare", fails):  # our own has to
        audited(tmp_path / "own")


@pytest.mark.slow
def test_the_steps_of_a_noised_first_phase_are_attacked_too(tmp_path):
    light = dp_sgd(noise_multiplier=0.7, sample_rate=0.5, num_steps=4)
    phases = [{"name": "redacted fine-tune", "rows": "redacted", "event": to_json(light)}]
    found = audited(tmp_path, method="jft", phases=phases)
    main, first = found["attacked"]
    assert (main["noise_multiplier"], first["noise_multiplier"], first["sample_rate"]) == (1.0, 0.7, 0.5)
    assert "first phase of jft" in first["game"]
    assert "jft_phase_one" in first["code"]
    assert found["alarm"] is False
    assert len(found["evidence"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # Text that phase 1 reads without noise, as of jft: no finite epsilon, and an engine that can be wrong.
        ({"event": Composed(events=(NonPrivate(), NOISED))}, {MODEL: False, STEPS: True}),
        ({"event": NonPrivate(), "noise": None}, {MODEL: False}),  # no_dp
        ({"copies": 10}, {MODEL: False, STEPS: True}),  # an epsilon of single records says nothing of ten
        ({"exposure": {"not_attacked": "it has no losses"}}, {STEPS: True}),  # a task without a language model
        ({"event": NoEvent(), "noise": None}, {}),  # nothing private was read
    ],
)
def test_what_is_not_claimed_is_not_tested_and_the_steps_are_wherever_there_are_any(tmp_path, changed, expected):
    found = audited(tmp_path, leak=9.0, **changed)
    assert claims(found) == expected
    assert found["epsilon_claimed"] is None
    assert (found["epsilon_lower"] is None) == (MODEL not in expected) == ("epsilon" in found["not_attacked"])
    assert found["alarm"] is False
    assert len(found["evidence"]) == list(expected.values()).count(True)
    groups = {row["group_size"] for row in found["estimates"] if row["game"] == MODEL}
    assert groups <= {changed.get("copies", 1)}


def test_the_setting_for_people_enters_no_key_at_its_default():
    for stage in ("audit", "audit_model", "audit_membership"):
        assert "owner_records" not in AuditConfig().keyed(stage)
        assert AuditConfig(owner_records=4).keyed(stage)["owner_records"] == 4
        assert "owner_records" in GRAPH[stage].fields["audit"]


@pytest.mark.slow
def test_an_audit_says_if_its_model_was_trained_by_another_recipe_than_the_released_one(tmp_path):
    """A recipe that was not recorded was the first. Parts that only the audit has are no difference."""
    present = {**TrainConfig(method="dpsgd").recipe("train"), "audit": 7}
    same = audited(tmp_path / "same", recipes=(None, present))
    assert not [line for line in same["left_open"] if "recipe" in line]
    for then, now in (({}, {"engine": 2}), ({"engine": 2}, {"engine": 1, "records": 3})):
        found = audited(tmp_path / str(now), recipes=(then, {**present, **now}))
        (line,) = [line for line in found["left_open"] if "recipe" in line]
        assert line not in same["left_open"]
        assert f"engine {then.get('engine', 1)} → {now['engine']}" in line
        assert ("records 1 → 3" in line) == ("records" in now)
        assert "`reticent run --force train`" in line


@pytest.mark.slow
def test_people_are_played_only_if_the_settings_ask_and_change_no_other_figure(tmp_path):
    plain, people = audited(tmp_path / "plain"), audited(tmp_path / "people", owner_records=4)
    assert plain["person"] == []
    assert claims(plain) == claims(people)
    assert "person" not in plain["not_attacked"]
    (person,) = people["person"]
    assert (person["unit"], person["num_people"], person["num_records"]) == ("record", 25, 4)
    assert [claim["whose"] for claim in person["claims"]] == ["a record", "a person with 4 records"]
    assert [claim["is_of_person"] for claim in person["claims"]] == [False, True]
    assert person["lower"]["relation"] == "replace_one"
    assert len(people["evidence"]) == len(plain["evidence"]) + 1
    (sentence,) = audited_sentences(people)
    assert "for a record, at most" in sentence
    assert "for a person with 4 records, at most" in sentence
    assert audited_sentences(plain) == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", OF_PEOPLE[:1], ids=lambda fault: fault.name)
def test_steps_that_draw_all_records_of_a_person_raise_the_alarm_of_a_whole_audit(tmp_path, fault):
    with fault.put_into(LOOP):
        found = audited(tmp_path, unit="owner", noise=2.0)
    *_, attacked = found["attacked"]
    assert found["alarm"] is True
    assert attacked["p_value"] < 1e-10
    assert found["attacked"][0]["p_value"] > 1e-4  # people of one record each cannot show it
    (person,) = found["person"]
    assert [(claim["whose"], claim["is_of_person"]) for claim in person["claims"]] == [("a person", True)]


@pytest.mark.parametrize(
    ("method", "noise", "event", "why"),
    [
        pytest.param("sdpsgd_lstm", 1.0, NOISED, "its samples are public", marks=pytest.mark.slow),
        ("no_dp", None, NonPrivate(), "no step with noise"),
    ],
)
def test_a_training_without_a_game_on_people_says_why(tmp_path, method, noise, event, why):
    found = audited(tmp_path, method=method, noise=noise, event=event, owner_records=4)
    assert found["person"] == []
    assert why in found["not_attacked"]["person"]


def split_of(folder, *texts):
    """A document with these sentences, as ``split`` writes it."""
    rows = ({"sentence_index": index, "text": text, "token_ends": [len(text)]} for index, text in enumerate(texts))
    write_rows(folder / "sentences.parquet", "sentences", rows)
    return folder


@pytest.mark.parametrize("has_digests", [True, False])
def test_rows_that_an_upgrade_moved_do_not_pass_for_those_that_were_left_out(tmp_path, has_digests):
    """Models of 0.3.0 have no digests, and count on the places alone."""
    for name in ("then", "now", "audit_model"):
        (tmp_path / name).mkdir()
    then = split_of(tmp_path / "then", "Call Ann.", "Dr. Ho is out.", "Bye.")
    now = split_of(tmp_path / "now", "Call Ann.", "Dr.", "Ho is out.", "Bye.")
    places = [("d", index) for index in range(3)]
    contexts = [stage_context("audit_model", tmp_path / f"out-{n}", {}, {"split": n}) for n in (then, now)]
    digests = digests_of_rows(contexts[0], places)
    model = Target(folder=tmp_path / "audit_model")
    with model.table(MEMBERS.whole if has_digests else MEMBERS) as writer:
        for record, (doc_id, index) in enumerate(places):
            digest = {"digest": digests[doc_id, index]} if has_digests else {}
            writer.append(record=record, doc_id=doc_id, sentence_index=index, **digest)
    inputs = [{"split": at, "audit_model": model.folder} for at in (then, now)]
    found = [
        left_out_rows(stage_context("audit_membership", tmp_path / f"at-{n}", {}, of)) for n, of in enumerate(inputs)
    ]
    assert found == [set(places), {("d", 0)} if has_digests else set(places)]
