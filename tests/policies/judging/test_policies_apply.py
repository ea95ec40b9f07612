"""Many sentences at once: alignment with spaCy, independence of the batch, failing closed."""

import gc
import random
import subprocess
import sys

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import language
from pipelines.errors import ConfigError
from pipelines.language import load_pipeline, make_doc, model_module
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.judging import apply
from pipelines.policies.judging import judge as judging
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.exclusions import without_separator
from pipelines.policies.judging.judge import FAILED_LABEL, Judge, Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span
from pipelines.policies.redact import redact_text, token_mask
from pipelines.policies.registry import check_name, make_policy, policy_modules

MODEL = "en_core_web_sm"
NER = frozenset({"ner"})


def redactor(*names, conservative=None, patterns=None):
    def make(name):
        return make_policy(PolicyOptions(name=name, model=MODEL, patterns=patterns or {}))

    return Redactor(Judge({n: make(n) for n in names}, make(conservative) if conservative else None, MODEL))


def masked(cut, text, *names):
    starts, ends = cut(text)
    (verdict,) = redactor(*names).judge([Request(text, starts, ends)])
    assert not verdict.failed_closed
    return redact_text(text, starts, ends, token_mask(len(starts), verdict.spans))


GOLDEN = [
    (("customersim",), "Yea sure, 2241 Fitzgerald Viaduct Brownview, OK 28304.", "Yea sure, <MASK>."),
    (
        ("customersim", "high_entity"),
        "Hi. I ordered a chair several days ago but I can't track it.",
        "Hi. I ordered a chair <MASK> but I can't track it.",
    ),
    (
        ("low_entity",),
        "Barack Obama met three officials of Microsoft in Berlin on Monday for $5 million.",
        "<MASK> met three officials of <MASK> in <MASK> on <MASK> for $5 million.",
    ),
    (
        ("high_entity",),
        "Barack Obama met three officials of Microsoft in Berlin on Monday for $5 million.",
        "<MASK> met <MASK> officials of <MASK> in <MASK> on <MASK> for <MASK>.",
    ),
    (("digits",), "In 1999 he sold 12 , 5 of them.", "In <MASK> he sold <MASK> , <MASK> of them."),
]


@pytest.mark.parametrize(("names", "text", "expected"), GOLDEN)
def test_golden_redactions(cut, names, text, expected):
    assert masked(cut, text, *names) == expected


def test_presidio_finds_an_email_and_a_card_without_the_network(cut, patch):
    import socket

    def refuse(*_args, **_kwargs):
        raise AssertionError("presidio reached for the network")

    patch(socket.socket, "connect", refuse, never_called=True)
    patch(socket, "getaddrinfo", refuse, never_called=True)
    text = "Mail  joe.bloggs@example.co.uk or pay with 4111 1111 1111 1111 please"
    starts, ends = cut(text)
    (verdict,) = redactor("presidio").judge([Request(text, starts, ends)])
    assert not verdict.failed_closed
    found = {(s.label, text[starts[s.start_token] : ends[s.end_token - 1]]): s.score for s in verdict.spans}
    assert found["EMAIL_ADDRESS", "joe.bloggs@example.co.uk"] == 1.0
    assert found["CREDIT_CARD", "4111 1111 1111 1111"] == 1.0
    (near_miss,) = redactor("presidio").judge([Request("send it to joe at example", *cut("send it to joe at example"))])
    assert "EMAIL_ADDRESS" not in {s.label for s in near_miss.spans}


def test_a_broken_install_is_told_before_any_row():
    code = (
        "import sys\n"
        "sys.modules['presidio_analyzer'] = None\n"
        "from pipelines.errors import ConfigError\n"
        f"from {make_policy.__module__} import make_policy\n"
        "from pipelines.policies.options import PolicyOptions\n"
        "try:\n    make_policy(PolicyOptions(name='presidio'))\n"
        "except ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "policy 'presidio' cannot be imported: module 'presidio_analyzer'" in done.stdout


TEXTS = [
    "I can't track it, John Smith won't either.",
    "He paid  $5 million\tto Microsoft  in 2019.",
    "441 Patricia Mission Apt.",
    "…",
    "Zoë’s café — in São Paulo; e.g. 3½ km.",
    "a" * 300,
]


@pytest.mark.parametrize("text", TEXTS)
def test_docs_align_with_our_tokens_one_to_one(cut, text):
    nlp = load_pipeline(MODEL, NER)
    starts, ends = cut(text)
    doc = make_doc(nlp, text, starts, ends)
    assert [t.text for t in doc] == [text[a:b] for a, b in zip(starts, ends, strict=True)]


def test_docs_keep_the_norms_of_contractions_which_the_recogniser_reads(cut):
    nlp = load_pipeline(MODEL, NER)
    for text in ("I can't", "I  can't"):
        assert [t.norm_ for t in make_doc(nlp, text, *cut(text))] == [t.norm_ for t in nlp("I can't")]


def test_docs_align_with_tokens_that_spacy_would_not_cut(cut):
    nlp = load_pipeline(MODEL, NER)
    text = "won't go   now"
    starts, ends = [0, 2, 6, 11, 12], [2, 5, 8, 12, 14]
    doc = make_doc(nlp, text, starts, ends)
    assert [t.text for t in doc] == ["wo", "n't", "go", "n", "ow"]
    assert doc.text == "won't go now"
    assert len(make_doc(nlp, "", [], [])) == 0


def test_entities_equal_spacys_own_on_ordinary_text(cut):
    """Our Docs feed the recogniser what spaCy's own pipeline feeds it, contractions included."""
    plain = spacy.load(model_module(MODEL), disable=["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"])
    texts = [
        "I can't believe Mary Jones didn't call Google on Tuesday.",
        "They'll meet in New York at 5 pm, won't they?",
        "She's paid $40 to the United Nations since March 2020.",
    ]
    requests = [Request(text, *cut(text)) for text in texts]
    for text, verdict in zip(texts, redactor("high_entity").judge(requests), strict=True):
        expected = {(e.start, e.end, e.label_) for e in plain(text).ents}
        assert {(s.start_token, s.end_token, s.label) for s in verdict.spans} == expected
        assert expected


def test_verdicts_do_not_depend_on_batch_order_or_other_policies(cut, patch):
    rng = random.Random(3)
    names = ["Mary Jones", "Google", "Berlin", "the office", "Tuesday", "5 pm", "my order"]
    texts = [f"I can't see {rng.choice(names)} and {rng.choice(names)} at {rng.choice(names)}." for _ in range(80)]
    requests = [Request(text, *cut(text)) for text in texts]
    base = redactor("high_entity").judge(requests)
    assert sum(bool(v.spans) for v in base) > 40
    order = list(range(len(texts)))
    rng.shuffle(order)
    patch.constant(apply, "CHUNK_SENTENCES", 7)
    patch.constant(language, "SPACY_BATCH", 3)
    shuffled = redactor("high_entity").judge([requests[i] for i in order])
    assert [base[i] for i in order] == shuffled
    both = redactor("high_entity", "digits", "presidio").judge(requests)
    assert [tuple(s for s in v.spans if s.policy == "high_entity") for v in both] == [v.spans for v in base]


def test_low_entity_is_a_part_of_high_entity(cut):
    text = "Ann Lee of NASA flew from Paris to the Alps on Monday with two French dogs."
    starts, ends = cut(text)
    (verdict,) = redactor("low_entity", "high_entity").judge([Request(text, starts, ends)])
    by_policy = {p: {s[:3] for s in verdict.spans if s.policy == p} for p in ("low_entity", "high_entity")}
    assert by_policy["low_entity"] < by_policy["high_entity"]


class Fails:
    """A policy that fails in every way a policy can, by what the text says."""

    needs = frozenset()

    def find(self, sentence):
        if "crash" in sentence.text:
            raise RuntimeError(sentence.text)
        if "memory" in sentence.text:
            raise MemoryError
        if "range" in sentence.text:
            return [Span(0, 99, "A", "fails")]
        if "label" in sentence.text:
            return [Span(0, 1, sentence.text, "fails")]
        if "none" in sentence.text:
            return None
        return [Span(0, 1, "A", "fails")]


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(cut, patch, was_enabled):
    judge = redactor("high_entity")
    patch(judging, "make_doc", lambda *_: (_ for _ in ()).throw(MemoryError))
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(MemoryError):
            judge.judge([Request("fine now", *cut("fine now"))])
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()


class Finds:
    """Finds one word, and remembers the texts that it reads."""

    needs = frozenset()

    def __init__(self, name, word, *, reads_context):
        self.name, self.word, self.reads_context, self.read = name, word, reads_context, []

    def find(self, sentence):
        self.read.append(sentence.text)
        return [Span(i, i + 1, "WORD", self.name) for i, word in enumerate(sentence.tokens()) if word == self.word]


def test_no_policy_reads_the_original_twice(cut):
    text = "alpha beta gamma"
    starts, ends = cut(text)
    patterns = Finds("patterns", "alpha", reads_context=False)
    model = Finds("model", "beta", reads_context=True)
    judge = Judge({"patterns": patterns, "model": model}, None, MODEL, stabilise=True, reads_original=True)
    (verdict,) = judge.judge([Request(text, starts, ends)])
    assert [(span.start_token, span.policy) for span in verdict.spans] == [(0, "patterns"), (1, "model")]
    assert patterns.read.count(text) == model.read.count(text) == 1


@pytest.mark.parametrize("text", ["crash john smith", "range john smith", "label john", "none john"])
def test_a_failing_policy_masks_the_whole_row_and_only_that_row(cut, text):
    judge = Redactor(Judge({"fails": Fails()}, None, MODEL))
    bad, good = judge.judge([Request(text, *cut(text)), Request("fine now", *cut("fine now"))])
    assert bad.failed_closed
    assert bad.spans == (Span(0, len(text.split()), FAILED_LABEL, "fails"),)
    assert not good.failed_closed
    assert good.spans == (Span(0, 1, "A", "fails"),)


def test_running_out_of_memory_is_no_failing_row(cut):
    with pytest.raises(MemoryError):
        Redactor(Judge({"fails": Fails()}, None, MODEL)).judge([Request("memory", *cut("memory"))])


def test_a_failing_conservative_policy_flags_without_masking(cut):
    judge = Redactor(Judge({"digits": make_policy(PolicyOptions(name="digits"))}, Fails(), MODEL))
    (verdict,) = judge.judge([Request("crash now", *cut("crash now"))])
    assert (verdict.flagged, verdict.conservative_failed, verdict.failed_closed, verdict.spans) == (
        True,
        True,
        False,
        (),
    )


def test_a_row_that_spacy_cannot_digest_fails_alone(cut, patch):
    judge = redactor("high_entity", "digits")
    real = judging.make_doc

    def choke(nlp, text, starts, ends):
        if "choke" in text:
            raise RuntimeError(text)
        return real(nlp, text, starts, ends)

    patch(judging, "make_doc", choke)
    texts = ["choke on it", "Mary Jones called."]
    bad, good = judge.judge([Request(t, *cut(t)) for t in texts])
    assert bad.failed_closed
    assert [s.label for s in good.spans] == ["PERSON"]


def test_every_row_is_flagged_without_a_conservative_policy(cut):
    for name, flagged in ((None, True), ("conservative", False)):
        (verdict,) = redactor("digits", conservative=name).judge([Request("see you soon", *cut("see you soon"))])
        assert verdict.flagged is flagged


def test_any_policy_can_be_the_conservative_one(cut):
    verdicts = redactor("digits", conservative="high_entity").judge(
        [Request(t, *cut(t), redact) for redact in (True, False) for t in ("Mary Jones called me.", "see you soon")]
    )
    assert [v.flagged for v in verdicts] == [True, False] * 2
    assert all(v.spans == () for v in verdicts)


def test_uncovered_text_is_refused():
    with pytest.raises(ValueError, match="outside all tokens"):
        redactor("digits").judge([Request("ab cd", [0], [2])])


def test_registry_names_the_nearest_policy_and_the_setting():
    with pytest.raises(ValueError, match="did you mean 'high_entity'"):
        check_name("high_entitiy")
    with pytest.raises(ConfigError, match=r"redact\.conservative: policy 'nowhere\.at\.all:Presidio'.*'presidio'"):
        make_policy(PolicyOptions(name="nowhere.at.all:Presidio"), "redact.conservative")
    with pytest.raises(ConfigError, match="'Nothing' not found"):
        make_policy(PolicyOptions(name="pipelines.policies.detectors.digits:Nothing"))
    with pytest.raises(ConfigError, match="needs a method find"):
        make_policy(PolicyOptions(name="builtins:repr"))


def test_registry_holds_only_policies_that_resolve():
    for name in sorted(set(SPECS) - {"classifier", "token_classifier", "gliner"}):  # need a trained model
        options = PolicyOptions(name=name, patterns={"A": "a"}, names=["A"], keywords={"d": ["a"]})
        policy = make_policy(options)
        assert isinstance(policy.needs, frozenset)
    assert policy_modules(["low_entity", "high_entity", "digits"]) == (
        "pipelines.policies.detectors.digits",
        "pipelines.policies.detectors.entities",
    )
    assert policy_modules(["my.module:Mine"]) == ("my.module",)


def test_a_missing_model_is_named_with_what_to_install():
    with pytest.raises(ConfigError, match="pip install xx-no-model"):
        load_pipeline("xx_no_model", NER)


def test_a_gpu_is_asked_for_where_the_model_is_a_transformer(patch):
    asked = []
    patch("thinc.api", "prefer_gpu", lambda: asked.append(True))
    patch(language, "find_model", lambda model: model_module(MODEL))
    assert load_pipeline.__wrapped__(MODEL, NER).pipe_names == ["ner"]
    assert asked == []
    assert load_pipeline.__wrapped__("some_model_trf", NER).pipe_names == ["ner"]
    assert asked == [True]


PIECES = st.lists(st.sampled_from(["Ann", "Bo ||x", "||", "at", "the Mill.", "["]), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(first=PIECES, second=PIECES, data=st.data())
def test_what_stands_between_two_texts_is_never_masked(cut, first, second, data):
    text = f"{' '.join(first)} || {' '.join(second)}"
    starts, ends = cut(text)
    sentence = Sentence(text, starts, ends)
    borders = st.integers(0, len(starts))
    drawn = data.draw(st.lists(st.tuples(borders, borders), max_size=4))
    spans = [Span(min(pair), max(pair), "X", "p") for pair in drawn if pair[0] != pair[1]]
    before, after = token_mask(len(starts), spans), token_mask(len(starts), without_separator(spans, sentence, " || "))
    at = text.index(" || ")
    is_separator = [at <= start < at + 4 for start in starts]
    assert sum(is_separator) >= 1
    assert list(after) == [0 if separator else b for b, separator in zip(before, is_separator, strict=True)]
    assert without_separator(spans, sentence, " ## ") == spans  # a row of one text


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([], []), ([5] * 9, [4, 4, 1]), ([150, 150, 1, 300, 300], [1, 2, 1, 1]), ([0] * 5, [4, 1])],
)
def test_chunks_are_bounded_in_sentences_and_tokens(lengths, expected, patch):
    patch.constant(apply, "CHUNK_SENTENCES", 4)
    pending = [(bytes([i]), Request("", [0] * length, [1] * length)) for i, length in enumerate(lengths)]
    chunks = list(apply._chunks(pending, 256))
    assert [len(chunk) for chunk in chunks] == expected
    assert [pair for chunk in chunks for pair in chunk] == pending
