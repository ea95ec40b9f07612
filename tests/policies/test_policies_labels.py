"""Every label of every policy counts as one of a short list, the same one whoever found it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.policies.detectors.propagate import GRAMMATICAL_LABELS
from pipelines.policies.detectors.specs import HIGH_LABELS, SPECS
from pipelines.policies.judging.judge import FAILED_LABEL
from pipelines.policies.labels import COMMON, REVIEW_LABELS, ReviewLabels
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import PolicySpec
from pipelines.settings.estimate import EstimateConfig

NAMED_BY_THE_USER = {"regex", "keywords", "classifier", "token_classifier", "gliner", "propagate"}
"""Policies whose labels are those of settings, of training data, or of the other policies."""


@pytest.mark.parametrize("name", sorted(SPECS))
def test_every_label_of_a_built_in_policy_is_mapped(name):
    spec = SPECS[name]
    if name in NAMED_BY_THE_USER:
        assert spec.labels is None
        return
    labels = spec.labels
    if name == "presidio":
        presidio = pytest.importorskip("presidio_analyzer")
        registry = presidio.RecognizerRegistry()
        registry.load_predefined_recognizers()
        labels = registry.get_supported_entities()
    elif spec.labels is None:  # contextual
        labels = HIGH_LABELS | GRAMMATICAL_LABELS - {"LITERAL_MASK", "FAILED_CLOSED"}
    assert set(spec.review_labels) >= set(labels)
    assert set(spec.review_labels.values()) <= set(REVIEW_LABELS)


def test_the_same_label_is_the_same_thing_wherever_it_is_from():
    known = {}
    for mapping in (COMMON, {name: name for name in REVIEW_LABELS}, *(spec.review_labels for spec in SPECS.values())):
        for label, name in mapping.items():
            assert known.setdefault(label, name) == name, label
    assert set(COMMON.values()) <= set(REVIEW_LABELS)


LABELS = EstimateConfig().review_labels(())


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("DATE+DATE_TIME+PHONE_NUMBER", "CONTACT"),
        ("CARDINAL+ORDER", "ID"),
        ("GPE+LOCATION+PERSON", "PERSON"),
        ("MASKED", "OTHER"),
        ("PLACE", "LOCATION"),
        ("DATE+DATE_TIME+PHO", "DATE"),  # a long one was cut off at 64 characters
        (FAILED_LABEL, "OTHER"),
        ("LITERAL_MASK", "OTHER"),
        ("SOMETHING_ELSE", "OTHER"),
    ],
)
def test_labels_of_earlier_reviews_are_understood(label, name):
    assert LABELS.of(label) == name


def test_the_user_has_the_last_word():
    config = EstimateConfig(labels=("NAME", "SHOP", "REST"), map_labels={"PERSON": "NAME", "ORDER": "SHOP"})
    labels = config.review_labels(())
    assert labels.of("NAME") == "NAME"
    assert labels.of("PERSON") == labels.of("PER") == "NAME"  # by what it counts as
    assert labels.of("ORDER+PERSON") == "NAME"
    assert labels.of("ORDER", "customersim") == "SHOP"
    assert labels.of("TRACKING") == labels.of("GPE") == "REST"
    assert EstimateConfig(map_labels={"OTHER": "ID"}).review_labels(()).of("UNKNOWN") == "ID"


@pytest.mark.parametrize(
    "values",
    [
        {"labels": ()},
        {"labels": ("NAME", "NAME")},
        {"labels": ("a name",)},
        {"labels": tuple(f"L{i}" for i in range(10))},  # a digit key each
        {"map_labels": {"GPE": "PLACE"}},
    ],
)
def test_a_list_that_the_page_cannot_offer_is_refused(values):
    with pytest.raises(ValueError):
        EstimateConfig(**values)


class Badges:
    spec = PolicySpec(
        name="badges", description="badges", labels=frozenset({"BADGE", "CODE"}), review_labels={"BADGE": "ID"}
    )
    needs = frozenset()

    def __init__(self, options: PolicyOptions) -> None: ...

    def find(self, sentence):
        return []


def test_a_plug_in_says_what_its_labels_count_as():
    name = f"{__name__}:Badges"
    labels = EstimateConfig().review_labels((name, "digits"))
    assert labels.of("BADGE", name) == labels.of("BADGE") == "ID"
    assert labels.of("CODE", name) == "ID"  # a common name
    assert LABELS.of("BADGE") == "OTHER"


@given(
    label=st.text("ABC_+", min_size=1) | st.sampled_from(sorted({*COMMON, *HIGH_LABELS})),
    names=st.lists(st.sampled_from([*REVIEW_LABELS, "MINE"]), min_size=1, max_size=9, unique=True),
)
def test_whatever_the_label_it_counts_as_one_of_the_list(label, names):
    assert ReviewLabels(names=tuple(names), declared={"p": {"A": "PERSON"}}).of(label, "p") in names
