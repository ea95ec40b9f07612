"""What policies say of themselves: complete for the built-in ones, checked and used for plug-ins."""

from pathlib import Path

import pytest
import spacy
from pydantic import BaseModel, Field, ValidationError
from support.imports import loaded_after
from support.simple_offsets import words_of

from pipelines.accounting.corpus_facts import corpus_facts
from pipelines.errors import ConfigError
from pipelines.language import model_module
from pipelines.policies import registry
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.judge import Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import DocumentPolicy, PolicySpec, Sentence, Span
from pipelines.report import words
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.redact import RedactConfig
from pipelines.store.objects.code import CodeDigests
from pipelines.store.place.statcache import StatCache

TEXT = (
    "mary jones of 12 Main Street, Springfield, is called 5551234567 or ab12 34 one two three four, blue horse, "
    "password: xyzzy"
)


class WordOptions(BaseModel):
    word: str = Field(default="horse", min_length=1)
    score: float = Field(default=1.0, ge=0, le=1)

    def references(self):
        return (f"/lists/{self.word}.txt",)


class OneWord:
    """A plug-in with options of its own."""

    spec = PolicySpec(name="one_word", description="one word", packages=("pydantic",), options=WordOptions)
    needs = frozenset()

    def __init__(self, options):
        self.name, self.own = options.name, options.own or WordOptions()

    def find(self, sentence):
        found = (i for i, token in enumerate(sentence.tokens()) if token == self.own.word)
        return [Span(i, i + 1, "WORD", self.name, self.own.score) for i in found]


class Reads(OneWord):
    spec = PolicySpec(name="reads", description="other rows", reads_documents=True, is_fitted=True)

    def find_in_document(self, sentences, found):
        return [[] for _ in sentences]


class Lies(Reads):
    spec = PolicySpec(name="lies", description="one row alone")


class NoSpec(OneWord):
    spec = None


class Lacks(OneWord):
    spec = PolicySpec(name="lacks", description="names", components=frozenset({"ner"}))


class Context(OneWord):
    spec = PolicySpec(name="context", description="one word", reads_context=True)


class NotASpec(OneWord):
    spec = "a sentence"


def path_of(policy):
    return f"{__name__}:{policy.__name__}"


@pytest.mark.parametrize("name", sorted(SPECS))
def test_the_spec_is_complete_and_true(name):
    spec = SPECS[name]
    module, _, attribute = spec.reference.partition(":")
    policy = getattr(__import__(module, fromlist=[attribute]), attribute)
    assert spec.name == name
    assert spec.description
    assert not spec.description.endswith(".")
    assert policy.needs == spec.components
    assert hasattr(policy, "find_in_document") == spec.reads_documents
    assert getattr(policy, "reads_context", False) == spec.reads_context
    assert set(spec.requires) <= set(spec.options.model_fields if spec.options else ())
    assert set(spec.options.model_fields if spec.options else ()) <= set(RedactConfig.model_fields)
    assert words.policy(name) == spec.description
    assert words.policy("my.module:Mine") == "a policy of the user's own"
    assert words.policy("my.module:Mine", {"my.module:Mine": "what is mine"}) == "what is mine"


@pytest.mark.parametrize(
    "name", sorted(n for n, spec in SPECS.items() if spec.labels and not (spec.components or spec.reads_speakers))
)
def test_finds_have_the_labels_of_the_spec(name):
    policy = registry.make_policy(PolicyOptions(name=name, names=["Mary"]))
    starts, ends = words_of(TEXT)
    found = {span.label for span in policy.find(Sentence(TEXT, starts, ends))}
    assert found
    assert found <= SPECS[name].labels


def test_specs_are_light():
    loaded = loaded_after("import pipelines.policies.registry")
    assert not {"spacy", "numpy", "torch", "regex", "presidio_analyzer"} & loaded
    assert not [name for name in loaded if name.startswith("pipelines.policies.english")]


def test_a_plugin_reads_options_of_its_own():
    name = path_of(OneWord)
    config = RedactConfig(policies=(name,), options={name: {"word": "blue", "score": 0.5}})
    (verdict,) = Redactor.from_spec(config.redactor_spec()).judge([Request("blue horse", [0, 5], [4, 10])])
    assert verdict.spans == (Span(0, 1, "WORD", name, 0.5),)
    (verdict,) = Redactor.from_spec(RedactConfig(policies=(name,)).redactor_spec()).judge(
        [Request("blue horse", [0, 5], [4, 10])]
    )
    assert verdict.spans == (Span(1, 2, "WORD", name),)
    assert "pydantic" in config.package_references()
    assert config.code_references() == (__name__, "pipelines.policies.registry", "/lists/blue.txt")
    assert config.plugin_descriptions() == {name: "one word"}
    assert config.keyed() != RedactConfig(policies=(name,)).keyed()


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        (OneWord, {"words": "a"}, r"OneWord\.words: unknown option; did you mean 'word'\? known: score, word"),
        (OneWord, {"score": 2}, r"OneWord\.score: Input should be less than or equal to 1"),
        (OneWord, {"word": ""}, r"OneWord\.word: String should have at least 1 character"),
        (Reads, {"word": "a"}, r"Reads\.word: unknown option; it takes no options"),
        (NoSpec, {"word": "a"}, "has no spec that declares options"),
    ],
)
def test_options_of_a_plugin_are_checked(policy, options, message):
    with pytest.raises(ValidationError, match=message) as error:
        RedactConfig(policies=(path_of(policy),), options={path_of(policy): options})
    assert "input_value" not in str(error.value)


def test_options_belong_to_a_selected_plugin():
    with pytest.raises(ValidationError, match=r"options\.digit: no policy of that name is selected; did you mean"):
        RedactConfig(policies=("digits",), options={"digit": {}})
    with pytest.raises(ValidationError, match=r"fields of the table itself: patterns, pattern_seconds"):
        RedactConfig(policies=("regex",), patterns={"A": "a"}, options={"regex": {"patterns": {}}})
    with pytest.raises(ValidationError, match="and it has none"):
        RedactConfig(policies=("digits",), options={"digits": {}})


def test_claims_know_what_plugins_say_and_believe_the_worse():
    def facts(*policies):
        config = RedactConfig(policies=tuple(path_of(p) for p in policies))
        return corpus_facts(DedupConfig(), config, has_public_rows=False, reads_places=False)

    plain, unknown, reads = facts(OneWord), facts(NoSpec), facts(Reads)
    assert (plain.reads_documents, plain.fitted, plain.plugins) == ((), (), (path_of(OneWord),))
    assert (reads.reads_documents, reads.fitted) == ((path_of(Reads),), (path_of(Reads),))
    assert plain.dedup_stability == 1
    assert unknown.dedup_stability is reads.dedup_stability is None
    assert not plain.redactor_is_stable


def test_claims_name_recognisers_of_other_packages():
    """They are code that `presidio` runs: whether they keep a state, nobody knows."""

    config = RedactConfig(policies=("presidio",), recognizers=("other.package:Recognizer",))
    facts = corpus_facts(DedupConfig(), config, has_public_rows=False, reads_places=False)
    assert facts.plugins == ("other.package:Recognizer",)


def test_a_policy_that_reads_context_is_asked_last(patch):
    asked = []
    for policy in (OneWord, Context):
        patch(policy, "find", lambda self, sentence: asked.append(self.name) or [])
    names = (path_of(Context), path_of(OneWord))
    Redactor.from_spec(RedactConfig(policies=names).redactor_spec()).judge([Request("blue", [0], [4])])
    assert asked[:2] == [path_of(OneWord), path_of(Context)]


def test_a_spec_that_is_not_true_is_refused():
    assert isinstance(registry.make_policy(PolicyOptions(name=path_of(Reads))), DocumentPolicy)
    with pytest.raises(ConfigError, match="has a method find_in_document, but its spec says reads_documents = False"):
        registry.make_policy(PolicyOptions(name=path_of(Lies)))
    with pytest.raises(ConfigError, match="lacks components that its spec names"):
        registry.make_policy(PolicyOptions(name=path_of(Lacks)))
    with pytest.raises(ConfigError, match="its spec must be a"):
        registry.spec(path_of(NotASpec))
    assert registry.spec("no.such.module:Policy") is None


def test_components_are_known_to_the_annotator():
    known = frozenset(spacy.load(model_module("en_core_web_sm")).pipe_names)
    assert frozenset().union(*(spec.components for spec in SPECS.values())) <= known


def test_word_lists_count_as_code_of_what_reads_them(tmp_path):
    def files(module):
        return {Path(name).name for name in CodeDigests(StatCache(tmp_path / "cache")).of([module])}

    assert {"conservative.py", "common_words.toml", "triggers.toml"} <= files(
        "pipelines.policies.detectors.conservative"
    )
    assert {"words.toml", "weights.npz"} <= files("pipelines.policies.detectors.calibrated")
    assert "weights.npz" not in files("pipelines.policies.detectors.conservative")
    assert "common_words.toml" not in files("pipelines.policies.detectors.digits")
    assert "common_words.toml" not in files("pipelines.policies.english.wrong_language")
    assert "templates.toml" in files("pipelines.corpus.customersim")
    assert "templates.toml" not in files("pipelines.stages.prepare.split")
