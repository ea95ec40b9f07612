"""The four levels on the dialogue of Just Fine-tune Twice, Table 1, with the real model."""

import itertools

import pytest

from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Request
from pipelines.policies.redact import redact_text, render_jft, token_mask

LEFT = "Did you hear Alice is getting divorced??"
RIGHT = "What are you going to do about the custody of the kids?"
LEVELS = ("low_entity", "high_entity", "low_contextual", "high_contextual")

TABLE_1 = [
    (LEFT, "low_entity", "Did you hear <MASK> is getting divorced??"),
    (LEFT, "high_entity", "Did you hear <MASK> is getting divorced??"),
    (LEFT, "low_contextual", "Did <MASK> hear <MASK> is getting divorced??"),
    (LEFT, "high_contextual", "<MASK>??"),
    (LEFT, "jft_code_low", "Did <MASK> hear <MASK> is getting divorced??"),
    (LEFT, "jft_code", "Did <MASK> is <MASK>??"),
    (RIGHT, "low_entity", RIGHT),
    (RIGHT, "high_entity", RIGHT),
    (RIGHT, "low_contextual", "<MASK> are <MASK> going to do about the <MASK> of the <MASK>?"),
    (RIGHT, "high_contextual", "<MASK> to <MASK> about the <MASK> of the <MASK>?"),
    (RIGHT, "jft_code_low", "<MASK> are <MASK> going to do about the <MASK> of the <MASK>?"),
    (RIGHT, "jft_code", "<MASK> are <MASK> to <MASK> about the <MASK> of the <MASK>?"),
]


@pytest.fixture(scope="module")
def judged(cut):
    """(text, policy names) -> (starts, ends, spans)."""
    made = {}

    def judge(text, *names):
        if names not in made:
            made[names] = Redactor.from_spec(RedactorSpec(policies=names))
        starts, ends = cut(text)
        (verdict,) = made[names].judge([Request(text, starts, ends)])
        assert not verdict.failed_closed
        return starts, ends, verdict.spans

    return judge


@pytest.mark.parametrize(("text", "level", "expected"), TABLE_1)
def test_the_divorce_dialogue(judged, text, level, expected):
    starts, ends, spans = judged(text, level)
    assert redact_text(text, starts, ends, token_mask(len(starts), spans)) == expected


def test_the_rendering_of_the_papers_code(judged):
    starts, ends, spans = judged(LEFT, "low_entity")
    assert render_jft(LEFT, starts, ends, spans, typed=True) == "Did you hear <PERSON> is getting divorced??"
    starts, ends, spans = judged(LEFT, "jft_code")
    assert render_jft(LEFT, starts, ends, spans) == "Did <mask> is <mask> <mask>??"
    assert render_jft(LEFT, starts, ends, spans, typed=True) == "Did <PRON> <VERB> <PROPN> is <VERB> <VERB>??"


SENTENCES = [
    LEFT,
    RIGHT,
    "Mary Jones gave her brother a book in Paris on Monday.",
    "They had been told by the committee that nobody would pay them $5 million.",
    "It rained.",
    "Ran home, slept.",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_each_level_masks_what_the_one_below_it_masks(judged, text):
    masks = []
    for level in LEVELS:
        starts, _, spans = judged(text, level)
        masks.append(token_mask(len(starts), spans))
    for below, above in itertools.pairwise(masks):
        assert all(a >= b for b, a in zip(below, above, strict=True))


def test_paper_and_code_differ_in_indirect_objects_and_roots(judged):
    text = "Mary gave her brother a book."
    labels = {}
    for level in ("low_contextual", "jft_code_low", "jft_code"):
        starts, ends, spans = judged(text, level)
        labels[level] = {(s.label, text[starts[s.start_token] : ends[s.end_token - 1]]) for s in spans}
    assert ("OBJ", "brother") in labels["low_contextual"]
    assert ("OBJ", "brother") not in labels["jft_code_low"]
    assert ("VERB", "gave") in labels["jft_code"] - labels["jft_code_low"]
    _, _, spans = judged("A good film.", "jft_code")
    assert ("ROOT", 2) in {(s.label, s.start_token) for s in spans}


def test_levels_watched_in_the_same_pass_count_what_they_would_mask(cut):
    alone = {}
    requests = [Request(text, *cut(text)) for text in SENTENCES]
    for level in LEVELS:
        verdicts = Redactor.from_spec(RedactorSpec(policies=(level,))).judge(requests)
        alone[level] = [sum(token_mask(len(r.starts), v.spans)) for r, v in zip(requests, verdicts, strict=True)]
    together = Redactor.from_spec(RedactorSpec(policies=("digits",), observed=LEVELS)).judge(requests)
    assert [dict(v.observed) for v in together] == [
        {level: alone[level][i] for level in LEVELS} for i in range(len(SENTENCES))
    ]
    assert all(v.spans == () for v in together[:2])
