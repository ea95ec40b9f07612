"""Decisions that read private text and change more than their own row: all are listed, shown, and told in claims."""

from collections import Counter

import decision_worlds
import pytest
from decision_worlds import WORLDS
from support.trainings import RATE, build, document

from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.decisions import DECISIONS, NO_DECISIONS, made
from pipelines.accounting.facts import CorpusFacts, parse_training
from pipelines.graph import GRAPH, config_references
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.split import SplitConfig
from pipelines.settings.tables import config_class
from pipelines.settings.train import TrainConfig

# Settings that act on each row by itself, on public rows or figures alone, or only where text is kept and who works.
PLAIN = {
    "corpus": "inputs wikitext_joiners text_field id_field domain_field fold_field name_folds label_field gold_field "
    "partition_documents mail_headers options owner_field owner_space",
    "split": "valid_fraction test_fraction",
    "dedup": "max_rows_in_memory buckets",
    "redact": "model classifier_threshold collapse dates_and_numbers exclude exclude_labels gliner gliner_labels "
    "gliner_revision gliner_threshold keywords names names_file pattern_seconds patterns recognizers reads_original "
    "stabilise token_classifier token_classifier_aggregation token_classifier_device token_classifier_onnx "
    "token_classifier_labels token_classifier_revision token_classifier_threshold token_classifier_thresholds",
    "gate": "",
    "shard": "publish keep_superseded",
    "train": "method task options repetition model model_revision model_is_public adaptation lora_rank lora_alpha "
    "prefix_length num_layers num_heads embedding_size context_length evaluate_fold max_eval_sentences "
    "insecure_test_seed target_delta added_tokens typed_masks optimizer public_learning_rate public_batch_size "
    "private_learning_rate max_grad_norm noise_multiplier jft_variant jft_phase1_epochs jft_phase1_target_epsilon "
    "schedule schedule_scale max_private_spans max_state_norm template classes label_words max_new_tokens num_beams "
    "max_generated num_distractors bert_score_model prefix_hidden",
}


def test_every_stage_has_its_decisions_or_says_why_it_has_none():
    """Guards a stage that is added: somebody has to think of what it decides."""
    deciding = {decision.stage for decision in DECISIONS}
    assert deciding | set(NO_DECISIONS) == set(GRAPH)
    assert not deciding & set(NO_DECISIONS)
    assert len({decision.name for decision in DECISIONS}) == len(DECISIONS)
    assert all(reason.strip() for reason in NO_DECISIONS.values())


@pytest.mark.parametrize("table", PLAIN)
def test_every_setting_is_named_by_a_decision_or_acts_on_each_row_alone(table):
    """Guards a setting that is added: of a table in this list, it is put under a decision or in the plain list."""
    fields = set(config_class(config_references()[table]).model_fields)
    named = {name.partition(".")[2] for d in DECISIONS for name in d.settings if name.startswith(f"{table}.")}
    plain = set(PLAIN[table].split())
    assert named <= fields, "a decision names a setting that is gone"
    assert plain <= fields
    assert not named & plain
    assert fields == named | plain


def test_every_decision_has_neighbours():
    assert WORLDS.keys() == {decision.name for decision in DECISIONS}
    assert all(d.says or d.ends or d.paid_by for d in DECISIONS)


@pytest.mark.parametrize("name", WORLDS)
def test_one_secret_changes_more_than_its_own_row(name, tmp_path):
    """Guards the list: what it names happens, in the stages as they are."""
    one, other = WORLDS[name](tmp_path)
    if isinstance(one, Counter):
        assert max((one - other).total(), (other - one).total()) > 1
    else:
        assert one != other


def test_a_policy_that_remembers_is_what_is_supposed_of_plug_ins(tmp_path):
    one, other = decision_worlds.remembered(tmp_path)
    assert (one - other).total() > 1


def claims(corpus=None, **events):
    training = parse_training(document("crt", reads_places=False, **events))
    facts = {"dedup_stability": 3, "dedup_reason": "", "has_conservative": True, "holds_rows": True, **(corpus or {})}
    facts |= {"reads_documents": ("propagate",)}
    found = build_claims(training, CorpusFacts(**facts), Review.withheld(), (2,))["claims"]
    return {(claim["notion"], claim["group_size"]): claim for claim in found}


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda d: d.name)
def test_claims_carry_what_a_decision_supposes_or_are_refused(decision):
    """Guards the promise: where such a decision was made, a claim says so by name, or there is none."""
    found = claims({"decisions": frozenset({decision.name}) if decision.is_made else frozenset()})
    if decision.ends:
        for (notion, _), claim in found.items():
            assert claim["refused"] if notion != "dp_private_set" else claim["epsilon"] > 0
        alone = {"reads_documents": (), "has_conservative": False, "decisions": frozenset({decision.name})}
        facts = CorpusFacts(dedup_stability=1, dedup_reason="", **alone)
        training = parse_training(document("crt", reads_places=False))
        for claim in build_claims(training, facts, Review.withheld(), ())["claims"]:
            assert claim["refused"] == decision.ends or claim["notion"] in (
                "dp_private_set",
                "bayesian_confidentiality",
            )
    for (notion, _), claim in found.items():
        facts = CorpusFacts(
            dedup_stability=3, dedup_reason="", has_public_rows=True, holds_rows=True, reads_documents=("propagate",)
        )
        for text in decision.says(notion, facts) if decision.says else ():
            assert text in claim["assumptions"]
    said = " ".join((*found["confidentiality", 1]["assumptions"], *found["dp_private_set", 1]["assumptions"]))
    if decision.says is not None:
        without = " ".join(claims()["confidentiality", 1]["assumptions"] + claims()["dp_private_set", 1]["assumptions"])
        assert decision.is_made is None or said != without
    elif decision.name == "noise by a measured rate":
        one = build("jft/light_noise", light_noise_miss_rate={**RATE, "basis": "measured"})["dp_private_set"]
        assert not one["is_guarantee"]
        assert decision.paid_by in one["not_guaranteed_because"]
    else:
        assert decision.paid_by in said


def test_what_settings_ask_for():
    """Guards the way from settings to claims."""

    def asked(split=None, scope="corpus", **train):
        tables = {"split": SplitConfig(**(split or {})), "redact": RedactConfig(), "train": TrainConfig(**train)}
        return made(tables | {"dedup": DedupConfig(scope=scope)})

    assert asked(method="dpsgd") == frozenset()
    assert asked() == frozenset()
    assert asked({"other_languages": "hold"}, method="dpsgd") == {"documents in another language"}
    assert asked(method="dpsgd", when={"changed": 0.1}) == {"nights that train"}
    assert asked(method="dpsgd", when={"nights": 7}) == frozenset()
    assert asked(scope="owner") == {"copies of a person"}
