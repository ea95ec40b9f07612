"""Names, keywords, propagation, exclusions, addresses: text -> exact finds, and near misses."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simple_offsets import words_of

from pipelines.errors import ConfigError
from pipelines.policies.detectors.addresses import find_addresses
from pipelines.policies.detectors.keywords import check_keywords
from pipelines.policies.detectors.phrases import PhraseTable, pieces
from pipelines.policies.detectors.propagate import PropagatePolicy
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import FAILED_LABEL, Exclusions, Judge, Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span
from pipelines.policies.registry import make_policy


def found(policy, text):
    starts, ends = words_of(text)
    return sorted(
        {
            (s.label, text[starts[s.start_token] : ends[s.end_token - 1]])
            for s in policy.find(Sentence(text, starts, ends))
        }
    )


def test_names_in_any_case_with_any_punctuation_and_only_whole():
    policy = make_policy(PolicyOptions(name="names", names=["Ann Lee", "O'Neill", "Zoë"]))
    assert found(policy, "ANN LEE met ann-lee, O’Neill's and zoë.") == [
        ("NAME", "ANN LEE"),
        ("NAME", "O’Neill"),
        ("NAME", "ann-lee"),
        ("NAME", "zoë"),
    ]
    assert found(policy, "Ann met Lee; Zoëlle was annlee.") == []


def test_names_come_from_a_file_too(tmp_path):
    (tmp_path / "names.txt").write_text("# staff\nAnn Lee\n\n", encoding="utf-8")
    policy = make_policy(PolicyOptions(name="names", names_file=str(tmp_path / "names.txt")))
    assert found(policy, "staff: Ann Lee") == [("NAME", "Ann Lee")]
    with pytest.raises(ConfigError, match="cannot be read as UTF-8"):
        make_policy(PolicyOptions(name="names", names_file=str(tmp_path / "none.txt")))
    with pytest.raises(ConfigError, match="needs names"):
        make_policy(PolicyOptions(name="names"))


def test_keywords_are_labelled_by_domain_and_the_longest_wins():
    lists = {"airline": ["boarding pass", "seat", "seat number change"], "media tv": ["seat", "router"]}
    policy = make_policy(PolicyOptions(name="keywords", keywords=lists))
    assert found(policy, "My seat number change; the Router.") == [
        ("AIRLINE", "seat number change"),
        ("MEDIA_TV", "Router"),
        ("MEDIA_TV", "seat"),
    ]
    for wrong in ({"9": ["a"]}, {"a": []}, {"a": ["one two three four"]}, {"a": ["..."]}):
        with pytest.raises(ValueError, match=r"domain"):
            check_keywords(wrong)


@given(st.lists(st.text("ab .,'", max_size=8), max_size=6), st.text("ab .,'", max_size=30))
def test_phrases_are_found_exactly_where_a_plain_search_finds_them(phrases, text):
    words = pieces(text)
    wanted = {p for p in map(pieces, phrases) if p}
    table = PhraseTable((phrase, "X") for phrase in phrases)
    got = {pieces(text[a:b]) for a, b, _ in table.find(text)}
    assert got <= wanted
    if all(len(gap) <= 3 for gap in text.replace("a", "b").split("b")):
        for i in range(len(words)):
            longest = max((p for p in wanted if words[i : i + len(p)] == p), key=len, default=None)
            assert longest is None or longest in got


def propagated(texts, finds):
    sentences = [Sentence(text, *words_of(text)) for text in texts]
    spans = [
        [Span(*s.widen(s.text.index(f), s.text.index(f) + len(f)), label, "p") for f, label in fs]
        for s, fs in zip(sentences, finds, strict=True)
    ]
    result = PropagatePolicy(PolicyOptions(name="propagate")).find_in_document(sentences, spans)
    return [
        sorted({s.text[s.starts[x.start_token] : s.ends[x.end_token - 1]] for x in xs})
        for s, xs in zip(sentences, result, strict=True)
    ]


def test_what_is_found_once_is_masked_in_the_whole_document():
    texts = ["I am John Smithson.", "smithson here, JOHN SMITHSON", "code 7XK99Q", "the 7xk99q again", "nothing"]
    finds = [[("John Smithson", "PERSON")], [], [("7XK99Q", "CODE")], [], []]
    assert propagated(texts, finds) == [
        ["John Smithson", "Smithson"],
        ["JOHN SMITHSON", "SMITHSON", "smithson"],
        ["7XK99Q"],
        ["7xk99q"],
        [],
    ]


def test_everyday_words_and_grammar_are_not_carried_over():
    texts = ["he sold the kettle to Will in two days", "he will sell the kettle in two days to will"]
    finds = [[("he", "PRON"), ("kettle", "OBJ"), ("Will", "PERSON"), ("two days", "DATE")], []]
    assert propagated(texts, finds)[1] == []


def test_documents_do_not_touch_each_other_and_single_rows_are_their_own():
    spec = RedactorSpec(policies=("names", "propagate"), options={"names": ["Ann Lee-Quist"]})
    redactor = Redactor.from_spec(spec)
    texts = ["Ann Lee-Quist", "dear quist", "dear quist"]
    requests = [Request(t, *words_of(t)) for t in texts]
    verdicts = redactor.judge(requests, ["a", "a", "b"])
    assert [sorted({s.policy for s in v.spans}) for v in verdicts] == [["names", "propagate"], ["propagate"], []]
    assert [bool(v.spans) for v in redactor.judge(requests)] == [True, False, False]


class FailsOnDocuments:
    needs = frozenset()

    def find(self, sentence):
        return []

    def find_in_document(self, sentences, found):
        if any("crash" in s.text for s in sentences):
            raise RuntimeError("quotes the text")
        return [[] for _ in sentences]


def test_a_failing_document_policy_masks_its_document_and_no_other():
    redactor = Redactor(Judge({"d": FailsOnDocuments()}, None, "none"))
    requests = [Request(t, *words_of(t)) for t in ("fine", "crash now", "fine")]
    verdicts = redactor.judge(requests, ["a", "a", "b"])
    assert [v.failed_closed for v in verdicts] == [True, True, False]
    assert verdicts[1].spans == (Span(0, 2, FAILED_LABEL, "d"),)


def test_a_document_policy_cannot_be_the_conservative_one():
    with pytest.raises(ConfigError, match="whole documents"):
        RedactorSpec(policies=("digits",), conservative="propagate").make()


def test_exclusions_drop_exactly_what_they_name():
    text = "Call Monday Mart on Monday 12"
    sentence = Sentence(text, *words_of(text))
    spans = [Span(1, 3, "ORG", "p"), Span(4, 5, "DATE", "p"), Span(5, 6, "CARDINAL", "p")]
    assert Exclusions(["monday"]).kept(spans, sentence) == [spans[0], spans[2]]
    assert Exclusions([], ["CARDINAL"]).kept(spans, sentence) == spans[:2]
    assert Exclusions(["..."]).kept(spans, sentence) == spans
    failed = [Span(0, 6, FAILED_LABEL, "p"), Span(0, 1, "LITERAL_MASK", "literal_mask")]
    assert Exclusions([text, "call"], [FAILED_LABEL, "LITERAL_MASK"]).kept(failed, sentence) == failed


ADDRESSES = [
    ("I live at 221B Baker Street, London NW1 6XE.", ["221B Baker Street, London NW1 6XE"]),
    ("im at 123 main st apt 4b", ["123 main st apt 4b"]),
    ("send it to po box 12 please", ["po box 12"]),
    ("Unit 7, 12 Smith Rd, Carlton VIC 3053", ["Unit 7, 12 Smith Rd, Carlton VIC 3053"]),
    ("Adresse: Lindenstraße 12", ["Lindenstraße 12"]),
    ("She lives at 36 rue de la Paix", ["36 rue de la Paix"]),
    ("PSC 0413, Box 8144\nAPO AA 42323", ["PSC 0413, Box 8144\nAPO AA 42323"]),
    ("Meet me at the corner of 5 Elm Street and Oak Lane", ["the corner of 5 Elm Street and Oak Lane"]),
    ("12 Elm Ave\n> Suite 9\n> Springfield, IL 62704", ["12 Elm Ave\n> Suite 9\n> Springfield, IL 62704"]),
    ("see H.No. 8-3-17/B by the temple", ["H.No. 8-3-17/B"]),
    ("moved to 24 rue Sainte-Agathe, app. 9 in May", ["24 rue Sainte-Agathe, app. 9"]),
    ("the app. 9 of us use is in its 2nd stage", []),
    ("It took 2 hours on the road and 3 days by train.", []),
    ("We sold 20 of 30 units in May 2019.", []),
    ("In chapter 5 the way is long.", []),
    ("my iban is GB93PITW55383148579181", []),
]


@pytest.mark.parametrize(("text", "expected"), ADDRESSES)
def test_addresses_are_found(text, expected):
    assert [text[a:b] for a, b in find_addresses(text)] == expected


@given(st.text("12 aA.,\n>#st/'", max_size=60))
def test_addresses_come_sorted_and_apart(text):
    spans = find_addresses(text)
    assert all(0 <= a < b <= len(text) for a, b in spans)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


@pytest.mark.slow
def test_addresses_of_presidio_research(shared_data):
    import json

    total = full = 0
    for row in json.loads((shared_data / "presidio_research" / "synth_dataset_v2.json").read_text()):
        text = row["full_text"]
        spans = find_addresses(text)
        for gold in row["spans"]:
            if gold["entity_type"] == "STREET_ADDRESS":
                letters = [i for i in range(gold["start_position"], gold["end_position"]) if text[i].isalnum()]
                total += 1
                full += all(any(a <= i < b for a, b in spans) for i in letters)
    assert total == 598
    assert full / total >= 0.9
