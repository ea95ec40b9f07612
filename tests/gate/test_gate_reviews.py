"""What the gate holds is asked about, and what reviewers say is no secret is searched for no more."""

import pytest
from gate_corpora import through_the_gate
from support.contexts import artifact

from pipelines.gate.tables import GATE_HITS
from pipelines.miss_rate.review_items import judged_secrets, load_held_items
from pipelines.miss_rate.review_log import Decision, DecisionLog, Secret, sentence_key
from pipelines.miss_rate.sampling import Partition
from pipelines.policies.held import HELD
from pipelines.policies.labels import ReviewLabels
from pipelines.settings.gate import GateConfig

SECRET = b"s" * 32
HOLD = GateConfig(max_held_fraction=1.0)
CORPUS = [
    [("I am Zebulon Quackenbush", [(5, 24)], True), ("all is well", [], False), ("the widget is red", [], False)],
    [("ask zebulon quackenbush", [], False), ("Dear Widget", [(5, 11)], True), ("no Widget here", [], False)],
]


def gated(folder, decisions=()):
    log = DecisionLog(folder / "decisions.jsonl")
    folder.mkdir(exist_ok=True)
    log.append(decisions)
    reviews = (log.path, log.path.stat().st_size) if decisions else None
    return through_the_gate(folder / "gate", CORPUS, HOLD, reviews=reviews, secret=SECRET)


def items(out):
    made = artifact("gate", out.folder / "gate")
    parts = [
        Partition(name, artifact("split", out.folder / name), artifact("redact", out.folder / name))
        for name in ("p0", "p1")
    ]
    held = {part.name: made.table(HELD, part.name) for part in parts}
    return load_held_items(
        held, made.table(GATE_HITS, "hits"), parts, lambda t: sentence_key(SECRET, t), ReviewLabels()
    )


def judged(item, number, wrong=(), reviewer="r"):
    secrets, trusted = judged_secrets(item, [], wrong)
    return Decision(
        id=f"decision-{number}", at="2026-01-01T00:00:00Z", reviewer=reviewer, key=item.key,
        secrets=tuple(secrets), trusted=tuple(trusted), wrong=tuple(wrong),
    )  # fmt: skip


def test_one_sentence_is_asked_about_for_each_string(tmp_path):
    out = gated(tmp_path)
    assert len(out.held) == 3
    asked = {item.text: item for item in items(out)}
    assert set(asked) == {"ask zebulon quackenbush", "the widget is red"}
    assert [(m.start, m.end) for m in asked["the widget is red"].masks] == [(4, 10)]
    assert {item.kind for item in asked.values()} == {"held"}
    assert [n.text for n in asked["the widget is red"].before] == ["I am Zebulon Quackenbush", "all is well"]


def test_what_a_reviewer_calls_no_secret_is_searched_for_no_more(tmp_path):
    asked = {item.text: item for item in items(gated(tmp_path / "a"))}
    said = [judged(asked["the widget is red"], 1, wrong=[(4, 10)]), judged(asked["ask zebulon quackenbush"], 2)]
    out = gated(tmp_path / "b", said)
    assert out.held == {("d1", 0)}
    assert {"the widget is red", "no Widget here"} <= {row["redacted_text"] for row in out.public}
    assert out.index == {"zebulon quackenbush"}
    assert out.figures["num_left_out_by_reason"]["judged"] == 1


def test_where_reviewers_disagree_it_stays_a_secret(tmp_path):
    asked = {item.text: item for item in items(gated(tmp_path / "a"))}
    widget = asked["the widget is red"]
    said = [judged(widget, 1, wrong=[(4, 10)], reviewer="a"), judged(widget, 2, reviewer="b")]
    assert len(gated(tmp_path / "b", said).held) == 3


@pytest.mark.parametrize("key", ["0" * 32])
def test_reviews_of_other_sentences_change_nothing(tmp_path, key):
    said = [Decision(id="decision-1", at="2026-01-01T00:00:00Z", reviewer="r", key=key)]
    assert gated(tmp_path / "b", said).held == gated(tmp_path / "a").held


def test_what_is_a_secret_in_another_sentence_stays_one(tmp_path):
    asked = {item.text: item for item in items(gated(tmp_path / "a"))}
    elsewhere = Decision(
        id="decision-2", at="2026-01-01T00:00:00Z", reviewer="r", key=sentence_key(SECRET, "no Widget here"),
        secrets=(Secret(3, 9, "person"),),
    )  # fmt: skip
    said = [judged(asked["the widget is red"], 1, wrong=[(4, 10)]), elsewhere]
    assert len(gated(tmp_path / "b", said).held) == 3
