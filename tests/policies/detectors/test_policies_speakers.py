"""The policy "speakers": which mentions of a document's speakers it masks, in which rows, and at which cost."""

import re
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.split import Splitter
from pipelines.mask import MASK
from pipelines.policies.detectors.name_words import fold, words_of
from pipelines.policies.detectors.speakers import NameTable, SpeakersPolicy
from pipelines.policies.english.addressing import everyday_words, grammar_words, is_role, rare_words
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.by_hand import mask_by_hand
from pipelines.policies.judging.judge import FAILED_LABEL, Judge, Request
from pipelines.policies.judging.tables import redacted
from pipelines.policies.judging.texts import TextJudge
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, SpeakerPolicy
from pipelines.policies.registry import make_policy
from pipelines.settings.redact import RedactConfig

SPLITTER = Splitter(mode="rules")
FOLDER = Path(__file__).parent
MARKED = re.compile(r"\[([^\]]+)\](?:\{([^}]+)\})?")
KNOWN = everyday_words() | grammar_words("en") | rare_words()


def masked(text, *names, language="en"):
    """What is masked in a text whose document has these speakers."""
    return [text[start:end] for start, end, _ in NameTable(names, language).find(text)]


def request(text, names=(), redact=True):
    return Request(text, *SPLITTER.tokens(text), redact, names=names)


def chats(name):
    """(names, text, ranges of marked characters) of each message."""
    names = ()
    for line in (FOLDER / name).read_text("utf-8").splitlines():
        if line.startswith("= "):
            names = tuple(part.strip() for part in line[2:].split("|"))
        elif not line.startswith("#"):
            text, marks, at = "", [], 0
            for match in MARKED.finditer(line):
                inside = match[2] or match[1]
                start = len(text) + match.start() - at + match[1].index(inside)
                marks.append((start, start + len(inside)))
                text, at = text + line[at : match.start()] + match[1], match.end()
            yield names, text + line[at:], marks


@pytest.mark.parametrize(
    ("name", "num_messages", "recall", "precision"),
    [("speaker_chats.txt", 185, 0.95, 0.90), ("speaker_chats_tuned.txt", 252, 0.97, 0.94)],
)
def test_recall_and_precision_on_made_up_chats(name, num_messages, recall, precision):
    """The figures of docs/policies.md, by mention: a mention is found if all its characters are masked."""
    policy = make_policy(PolicyOptions(name="speakers"))
    num_marks = num_found = num_masks = num_right = seen = 0
    for names, text, marks in chats(name):
        sentence = Sentence(text, *SPLITTER.tokens(text))
        (spans,) = policy.find_names([sentence], names)
        found = [(sentence.starts[s.start_token], sentence.ends[s.end_token - 1]) for s in spans]
        seen += 1
        num_marks += len(marks)
        num_found += sum(any(a <= start and end <= b for a, b in found) for start, end in marks)
        num_masks += len(found)
        num_right += sum(any(a < end and start < b for start, end in marks) for a, b in found)
    print(name, seen, num_found / num_marks, num_right / num_masks)
    assert seen == num_messages
    assert num_found / num_marks >= recall
    assert num_right / num_masks >= precision


@pytest.mark.parametrize(
    ("text", "names", "found"),
    [
        ("Arlie: look", ["arlie"], ["Arlie"]),
        ("see @arlie, thanks arlie. ARLIE's book", ["Arlie"], ["@arlie", "arlie", "ARLIE"]),
        ("anne or Keller, Mrs Keller and Anne Keller", ["Anne Keller"], ["anne", "Keller", "Keller", "Anne Keller"]),
        ("Dark-Lord99 darklord DARK_LORD99_", ["dark_lord99"], ["Dark-Lord99", "darklord", "DARK_LORD99_"]),
        ("i will go, I think Will goes", ["Will"], ["Will"]),
        ("will, come. thanks will do. @will", ["Will"], ["will", "@will"]),
        ("you and thank you, hey you, @you", ["You"], ["@you"]),
        (
            "call 07700 900 123 or +447700900123, not 07700 900 124",
            ["+44 7700 900123"],
            ["07700 900 123", "447700900123"],
        ),
        ("hey \U0001f41d, what a \U0001f41d", ["\U0001f41d"], ["\U0001f41d"]),
        ("Jose\u0301 or jose or JOSÉ", ["José"], ["Jose\u0301", "jose", "JOSÉ"]),
        ("Mueller, muller, MÜLLER", ["Müller"], ["Mueller", "muller", "MÜLLER"]),
        ("李雷你好", ["李雷"], ["李雷"]),
        ("ar\u00adlie and arl\u200die", ["arlie"], ["ar\u00adlie", "arl\u200die"]),
        ("anne.berg@acme.org works at acme.org", ["anne.berg@acme.org"], ["anne.berg@acme.org"]),
        ("Agent: the agent, doctor 2, Customer support", ["Agent", "Doctor 2", "Customer Support", "Dr."], []),
        ("annex, arlies_garden, xarlie", ["anne", "xx"], []),
        ("nothing", ["", " ", "...", "!!", "\u0301"], []),
    ],
)
def test_mentions(text, names, found):
    assert masked(text, *names) == found


NAME = st.text(st.characters(categories=("Ll", "Lu")), min_size=3, max_size=8).filter(
    lambda name: (
        len(words_of(name)) == 1 and len(fold(name)) >= 3 and fold(name) not in KNOWN and not is_role(fold(name))
    )
)
MARKS = st.sampled_from(
    ["", "@", ",", ":", "!", "?", "...", "'s", "’s", "_", "-", "(", ")", '"', "\U0001f600", "\n", "。"]
)
FILLER = st.sampled_from(["the", "Hello", "ok", "9", "I", "see you", MASK, "x_y", "\u00e9t\u00e9", "\u674e"])
CASE = st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase])


@st.composite
def documents(draw):
    """Names, and rows of mentions in any case and between any punctuation."""
    names = draw(st.lists(NAME, min_size=1, max_size=4))
    written = [
        f"{first} {last}" if draw(st.booleans()) else first for first, last in zip(names, names[::-1], strict=True)
    ]
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        words = draw(
            st.lists(st.one_of(FILLER, st.sampled_from(names).flatmap(lambda n: CASE.map(lambda c: c(n)))), max_size=6)
        )
        rows.append(" ".join(draw(MARKS) + word + draw(MARKS) for word in words))
    return tuple(written), names, [row.strip() for row in rows if row.strip()]


@given(documents())
def test_no_distinctive_name_is_left_whole_in_any_row(document):
    written, names, rows = document
    with Redactor.from_spec(RedactorSpec(policies=("digits", "speakers"), stabilise=True)) as redactor:
        requests = [request(row, written) for row in rows]
        verdicts = redactor.judge(requests, ["d"] * len(rows))
    forms = {fold(name) for name in names}
    for row, verdict in zip(requests, verdicts, strict=True):
        text, _ = redacted(row.text, row.starts, row.ends, verdict, collapse=True)
        left = {fold(word) for word in re.findall(r"[^\W_]+", text.replace(MASK, " "))}
        assert not left & forms


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=200))
def test_any_names_and_text_are_read(names, text):
    for start, end, label in NameTable(names).find(text):
        assert 0 <= start < end <= len(text)
        assert label == "SPEAKER"


@given(st.characters(exclude_categories=("Cs",)))
def test_case_does_not_count(character):
    assert fold(character) == fold(fold(character))
    if character.isalnum():
        assert fold(character) == fold(character.upper()) == fold(character.lower())


@pytest.mark.slow
def test_time_is_linear_and_thousands_of_speakers_are_read():
    names = [f"user nr{i} xx" for i in range(5_000)] + [f"a{i}b" for i in range(5_000)]
    started = time.process_time()
    table = NameTable(names)
    assert sum(1 for _ in table.find("user nr7 a5b " * 20_000)) == 40_000
    assert sum(1 for _ in table.find("user " * 100_000)) == 0
    assert sum(1 for _ in NameTable(["Sunny"]).find("so Sunny sunny " * 50_000)) == 50_000
    assert time.process_time() - started < 20


def test_the_names_of_a_document_are_masked_in_its_rows_alone():
    rows = [request("thanks arlie", ("Arlie",)), request("Arlie left", ("Arlie",)), request("thanks arlie", ("Bo",))]
    for stabilise in (False, True):
        with Redactor.from_spec(RedactorSpec(policies=("speakers",), stabilise=stabilise)) as redactor:
            assert redactor.reads_speakers
            assert redactor.looks_at_documents
            verdicts = redactor.judge(rows, ["a", "a", "b"])
        assert [[s.label for s in v.spans] for v in verdicts] == [["SPEAKER"], ["SPEAKER"], []]


def test_other_policies_read_a_placeholder_and_carry_the_find_over():
    spec = RedactorSpec(policies=("names", "propagate", "speakers"), options={"names": ["John left"]}, stabilise=True)
    with Redactor.from_spec(spec) as redactor:
        (verdict,) = redactor.judge([request("Zorvan left", ("Zorvan",))])
    assert {(s.policy, s.start_token, s.end_token) for s in verdict.spans} >= {("speakers", 0, 1), ("names", 1, 2)}


def test_masking_by_hand_all_that_is_masked_changes_nothing():
    rows = [request("hey Zorvan, call Mark Quill at 5", ("Zorvan", "Mark Quill")), request("@zorvan ok", ("Zorvan",))]
    with Redactor.from_spec(RedactorSpec(policies=("digits", "speakers"), stabilise=True)) as redactor:
        for row in rows:
            (verdict,) = redactor.judge([row])
            text, _ = redacted(row.text, row.starts, row.ends, verdict, collapse=True)
            ranges = [(row.starts[s.start_token], row.ends[s.end_token - 1]) for s in verdict.spans]
            by_hand = mask_by_hand(row, ranges, SPLITTER.tokens)
            assert by_hand.names == row.names
            (again,) = redactor.judge([by_hand])
            assert redacted(by_hand.text, by_hand.starts, by_hand.ends, again, collapse=True)[0] == text


class FailsOnNames(SpeakersPolicy):
    def find_names(self, sentences, names):
        raise RuntimeError(f"cannot handle {names}")


def test_a_document_whose_names_cannot_be_read_is_masked_whole():
    redactor = Redactor(Judge({"f": FailsOnNames(PolicyOptions(name="f"))}, None, "none"))
    bad, also, good = redactor.judge(
        [request("a b", ("Arlie",)), request("c", ("Arlie",)), request("a b")], ["a", "a", "b"]
    )
    assert [v.failed_closed for v in (bad, also, good)] == [True, True, False]
    assert {s.label for s in bad.spans} == {FAILED_LABEL}


def test_exclusions_hold_for_names():
    with Redactor.from_spec(RedactorSpec(policies=("speakers",), exclude=("arlie",))) as redactor:
        (verdict,) = redactor.judge([request("Arlie met Zorvan", ("Arlie", "Zorvan"))])
    assert [s.start_token for s in verdict.spans] == [2]


def test_a_text_of_lines_with_tags_names_its_own_speakers():
    judge = TextJudge(Redactor.from_spec(RedactorSpec(policies=("speakers",))))
    dialogue, prose = judge.judge(["Arlie: hi\nZorvan: thanks arlie!\nArlie: bye Zorvan", "thanks arlie"])
    assert dialogue.rendered() == f"{MASK}: hi\n{MASK}: thanks {MASK}!\n{MASK}: bye {MASK}"
    assert prose.rendered() == "thanks arlie"


def test_settings_name_the_table_that_the_policy_needs():
    assert isinstance(make_policy(PolicyOptions(name="speakers")), SpeakerPolicy)
    config = RedactConfig(policies=("speakers",))  # it extends no finds, so it may stand alone
    assert config.reads_speakers()
    assert "speakers.parquet" in config.files_read("redact")["split"]
    assert "speakers.parquet" in config.files_read("stability")["split"]
    assert RedactConfig().files_read("redact") == RedactConfig().files_read("stability") == {}
    with pytest.raises(ValueError, match="cannot vouch"):
        RedactConfig(conservative="speakers")


@pytest.mark.slow
def test_every_letter_in_every_case_is_found():
    """Also those that are two characters in another case, or lose an accent."""
    for letter in map(chr, range(0x80, 0x20000)):
        if unicodedata.category(letter) in ("Ll", "Lu"):
            name = f"{letter}qz"
            for written in (name, name.upper(), name.lower(), name.title()):
                if len(words_of(name)) == 1 and len(fold(name)) >= 3:
                    assert masked(f"so {written} is", name) == [written], hex(ord(letter))
