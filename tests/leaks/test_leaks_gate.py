"""The gate's search: what it finds, in which spellings, and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.contexts import artifact, stage_context
from support.patches import Patch
from support.tables import read_table, span_of, write_rows

from pipelines.artifacts import Artifact
from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.errors import PrivacyGateError, StageError
from pipelines.gate import masked_strings as chunks
from pipelines.gate import search
from pipelines.gate.files import units_of
from pipelines.gate.strings import Choice, StringIndex, fragments, masked_strings, words_of
from pipelines.graph import GRAPH
from pipelines.policies.tables import REDACTED
from pipelines.settings.gate import GateConfig
from pipelines.stages.prepare import gate, gate_strings
from pipelines.store.objects.public_search import search_public_files

WORDS = st.text("abAB1é ", min_size=1, max_size=12)


def _find(masked: Sequence[str], text: str, **choice: Any) -> set[str]:
    chosen = Choice(**choice)
    strings = {chosen.normalise(string): "NAME" for string in masked}
    return StringIndex({s: label for s, label in strings.items() if s}).find(chosen.words(text))


@pytest.mark.parametrize(
    ("masked", "text"),
    [
        ("Jane Doe", "so i told jane doe's brother"),
        ("Jane Doe", "JANE\u00a0DOE"),
        ("José Núñez", "ask jose nunez"),
        ("O'Brien", "o’brien"),
        ("(555) 123-4567", "call 555.123.4567 now"),
        ("(555) 123-4567", "call 5551234567 now"),
        ("5551234567", "call +1 (555) 123-4567 now"),
        ("843-58572-7002", "it is 843585727002"),
        ("jane@doe.org", "mail jane@doe.org."),
        ("ＪＡＮＥ Doe", "jane doe"),
        ("王伟", "我叫王伟，你好"),
    ],
)
def test_a_masked_string_is_found_in_every_spelling(masked: str, text: str) -> None:
    assert len(_find([masked], text)) == 1


@pytest.mark.parametrize(
    ("masked", "text"),
    [("Ann", "an annual plan"), ("Jane Doe", "doe jane"), ("555 1234", "5551 2345"), ("Jane Doe", "jane and doe")],
)
def test_what_only_looks_similar_is_not_found(masked: str, text: str) -> None:
    assert _find([masked], text) == set()


def test_case_counts_only_when_asked() -> None:
    assert _find(["Jane Doe"], "jane doe", case_sensitive=True) == set()
    assert _find(["Jane Doe"], "Jane Doe", case_sensitive=True) == {"Jane Doe"}


@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS, min_size=1, max_size=6), WORDS, WORDS)
def test_search_agrees_with_comparing_every_string_at_every_place(masked: list[str], left: str, right: str) -> None:
    text = f"{left} {masked[0]} {right}"
    choice = Choice()
    strings = {choice.normalise(string) for string in masked} - {""}
    words = words_of(text)
    expected = {
        string
        for string in strings
        for a in range(len(words))
        for b in range(a + 1, len(words) + 1)
        if words[a:b] == string.split(" ")
        or (b - a <= 8 and "".join(words[a:b]).isdigit() and "".join(words[a:b]) == string.replace(" ", ""))
    }
    found = StringIndex(dict.fromkeys(strings, "NAME")).find(words)
    # Of several groupings of the same digits one is named.
    assert {string.replace(" ", "") for string in found} == {string.replace(" ", "") for string in expected}
    assert found <= strings


def test_parts_of_public_words_are_told_from_other_vocabulary_entries() -> None:
    assert fragments({"mann", "zebu", "the"}, ["manner", "the"]) == {"mann", "the"}


def test_choice_of_labels_lengths_words_and_exceptions() -> None:
    choice = GateConfig(ignore=("Acme-Hotline",)).choice()
    assert choice.has_label("NAME")
    assert choice.has_label("A_PLUG_INS_OWN")
    assert not choice.has_label("CARDINAL")
    assert not choice.has_label("FAILED_CLOSED")
    reasons = {
        s: choice.reason_against(s, "NAME") for s in ("jo", "hope", "will be", "rich hall", "amy", "acme hotline")
    }
    assert reasons == {
        "jo": "too_short",
        "hope": "everyday",
        "will be": "everyday",
        "rich hall": None,
        "amy": None,
        "acme hotline": "ignored",
    }
    assert GateConfig(everyday_words=True).choice().reason_against("hope", "NAME") is None
    assert not GateConfig(labels=("PHONE",)).choice().has_label("NAME")


def test_masked_strings_are_distinct_counted_and_sorted() -> None:
    spans = [{"start": 0, "end": 3, "label": "NAME"}, {"start": 4, "end": 5, "label": "CARDINAL"}]
    texts = ("Zoe 1", "zoë 2", "Amy 3")
    rows = [{"doc_id": "d", "sentence_index": n, "text": text, "spans": spans} for n, text in enumerate(texts)]
    found = [tuple(vars(string).values()) for string in masked_strings(rows, Choice())]
    assert found == [("amy", "NAME", 1, "d", 2), ("zoe", "NAME", 2, "d", 0)]


# --- the stages ---------------------------------------------------------------------------------------------------

Row = tuple[str, str, bool]
"""(original, redacted, flagged); whatever differs is the one masked string."""


def _partition(folder: Path, number: int, rows: Sequence[Row], **columns: Any) -> dict[str, Artifact]:
    base = folder / f"p{number}"
    sentences, redacted = [], []
    for i, (text, shown, flagged) in enumerate(rows):
        spans = []
        if "<MASK>" in shown:
            left, right = shown.split("<MASK>")
            spans = [span_of(len(left), len(text) - len(right))]
        sentences.append({"sentence_index": i, "text": text, "token_starts": [], "token_ends": []})
        found = {"redacted_text": shown, "spans": spans, "flagged_by_conservative": flagged}
        redacted.append({"sentence_index": i, "num_tokens": 5, "num_masked_tokens": len(spans)} | found)
    write_rows(base / "sentences.parquet", "sentences", sentences, doc_id=f"d{number}", **columns)
    write_rows(base / "redacted.parquet", "redacted", redacted, doc_id=f"d{number}", **columns)
    return {name: artifact(name, base, f"p{number}") for name in ("split", "redact")}


def _run_gate(folder: Path, partitions: Sequence[Sequence[Row]], config: GateConfig, **columns: Any) -> StageContext:
    """Runs both steps; returns the context of the second one."""
    parts = [_partition(folder, n, rows, **columns) for n, rows in enumerate(partitions)]
    strings = []
    for n, inputs in enumerate(parts):
        out = folder / f"strings{n}"
        gate_strings.run(stage_context("gate_strings", out, {"gate": config}, inputs, partition=f"p{n}"))
        strings.append(artifact("gate_strings", out, f"p{n}"))
    inputs = {"gate_strings": strings, "redact": [part["redact"] for part in parts]}
    context = stage_context("gate", folder / "gate", {"gate": config}, inputs, failures_folder=folder / "failures")
    gate.run(context)
    return context


MASKED: Row = ("I am Zebulon Quackenbush", "I am <MASK>", True)
CLEAN: Row = ("all is well", "all is well", False)
LEAK: Row = ("ask zebulon quackenbush", "ask zebulon quackenbush", False)


def test_gate_passes_with_a_constant_and_counts_only(tmp_path: Path) -> None:
    context = _run_gate(tmp_path / "a", [[MASKED, CLEAN], [CLEAN]], GateConfig())
    other = _run_gate(tmp_path / "b", [[CLEAN]], GateConfig(enabled=False))
    passed = [(c.out.folder / "passed.json").read_bytes() for c in (context, other)]
    assert passed[0] == passed[1]
    text = (context.out.folder / "figures.json").read_text()
    figures = json.loads(text)
    assert figures["num_strings_by_label"] == {"NAME": 1}
    assert figures["num_public_rows"] == 2
    assert "quackenbush" not in text.lower()
    index = read_table(context.out.folder / "index.parquet", "gate_index").to_pylist()
    assert index == [{"string": "zebulon quackenbush", "label": "NAME", "is_part_of_public_word": False}]


@pytest.mark.parametrize("chunk", [1, 2, 500_000])
def test_a_leak_in_another_partition_is_refused_and_shown_only_in_a_private_table(
    tmp_path: Path, patch: Patch, chunk: int
) -> None:
    patch.constant(chunks, "CHUNK_STRINGS", chunk)  # also with one pass for each string
    others: list[Row] = [(f"Person {n}xy here", f"<MASK>{' here'}", True) for n in range(3)]
    with pytest.raises(PrivacyGateError) as caught:
        _run_gate(tmp_path, [[MASKED, *others], [CLEAN, LEAK]], GateConfig(on_hit="stop"))
    told = str(caught.value)
    assert caught.value.exit_code == 4
    assert "NAME 1" in told
    assert "gate.ignore" in told
    assert "zebulon" not in told.lower()
    hits = read_table(tmp_path / "failures" / "hits.parquet", "gate_hits").to_pylist()
    place = ("doc_id", "sentence_index", "text", "string", "masked_doc_id", "masked_sentence_index")
    assert [tuple(h[name] for name in place) for h in hits] == [("d1", 1, LEAK[0], "zebulon quackenbush", "d0", 0)]
    assert not (tmp_path / "gate" / "passed.json").exists()


@pytest.mark.parametrize(
    "config",
    [
        GateConfig(ignore=("zebulon QUACKENBUSH",)),
        GateConfig(labels=("PHONE",)),
        GateConfig(min_characters=30),
        GateConfig(case_sensitive=True),
        GateConfig(enabled=False),
    ],
    ids=["ignore", "labels", "min_characters", "case", "off"],
)
def test_each_setting_can_let_the_same_text_pass(tmp_path: Path, config: GateConfig) -> None:
    context = _run_gate(tmp_path, [[MASKED, LEAK]], config.model_copy(update={"on_hit": "stop"}))
    assert (context.out.folder / "passed.json").exists()


def test_rows_that_stay_private_or_are_held_out_may_hold_it(tmp_path: Path) -> None:
    _run_gate(tmp_path / "flagged", [[MASKED, (LEAK[0], LEAK[1], True)]], GateConfig())
    _run_gate(tmp_path / "fold", [[MASKED, LEAK]], GateConfig(), fold="test")
    with pytest.raises(PrivacyGateError):
        _run_gate(tmp_path / "speaker", [[MASKED, CLEAN]], GateConfig(), speaker="Zebulon Quackenbush")


def test_the_number_of_a_speaker_is_no_masked_number(tmp_path: Path) -> None:
    masked = ("Call room 110 of the Speaker.", "Call room <MASK> of the Speaker.", False)
    context = _run_gate(tmp_path / "made", [[masked, CLEAN]], GateConfig(), speaker="SPEAKER_110")
    assert (context.out.folder / "passed.json").exists()
    with pytest.raises(PrivacyGateError):
        _run_gate(tmp_path / "other", [[masked, CLEAN]], GateConfig(), domain="SPEAKER_110")
    table = pa.table({"speaker": ["SPEAKER_110", "Room 110"], "domain": ["SPEAKER_110", None]})
    pq.write_table(table, tmp_path / "public.parquet")
    assert [unit.text for unit in units_of(tmp_path / "public.parquet")] == ["Room 110", "SPEAKER_110"]


def test_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    one, two = _partition(tmp_path, 0, [MASKED, CLEAN]), _partition(tmp_path, 1, [MASKED])
    rows = search.spans_of(one["split"].table(SENTENCES), two["redact"].table(REDACTED))
    with pytest.raises(StageError, match="not the same rows"):
        list(rows)


# --- files --------------------------------------------------------------------------------------------------------


def test_every_stage_that_publishes_reads_the_gate_and_only_its_constant_counts() -> None:
    public = [stage for stage in GRAPH.values() if "public" in stage.roots]
    assert {stage.name for stage in public} >= {"publish", "train", "report"}
    assert [stage.name for stage in public if stage.is_post_processed] == ["synthesize"]
    for stage in public:
        if stage.is_post_processed:
            continue  # the private text may not decide whether it is published
        shown = ("held_by_label.json",) if stage.name == "report" else ()
        assert [e.files for e in stage.inputs if e.stage == "gate"] == [("passed.json", *shown)], stage.name


TOKENIZER = {
    "model": {"vocab": {"Ġhello": 1, "Ġ": 2}, "merges": [["Ġ", "hello"]]},
    "added_tokens": [{"content": "<A>"}],
}
FILES: dict[str, Any] = {
    "model/README.md": "call {}",
    "model/config.json": {"note": ["x", {"y": "{}"}]},
    "report.html": "<p class='a'>hello {}</p>",
    "report.json": {"{}": 1},
    "notes": "{}",
    "broken.json": "{{ {}",
    "{}.txt": "",
}


def _publish(folder: Path, files: dict[str, Any], place: str = "public") -> None:
    for name, content in files.items():
        path = folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def _search(folder: Path, gated: StageContext) -> None:
    inputs = {"gate": gated.out.folder}
    context = stage_context("train", folder, {}, inputs, public_folder=folder / "public", scratch=folder)
    search_public_files("train", context.inputs, context.out, context.out.public)


def _filled(content: Any, value: str) -> Any:
    if isinstance(content, str):
        return content.replace("{}", value)
    if isinstance(content, dict):
        return {_filled(k, value): _filled(v, value) for k, v in content.items()}
    return [_filled(v, value) for v in content] if isinstance(content, list) else content


@pytest.mark.parametrize("name", FILES)
def test_public_files_of_every_kind_are_searched(tmp_path: Path, name: str) -> None:
    gated = _run_gate(tmp_path / "g", [[MASKED, CLEAN]], GateConfig())
    harmless = {_filled(n, "a"): _filled(content, "some words") for n, content in FILES.items()}
    _publish(tmp_path / "ok", harmless | {"tokenizer.json": TOKENIZER, "w.safetensors": "zebulon quackenbush"})
    _search(tmp_path / "ok", gated)
    secret = "Zebulon-Quackenbush"
    _publish(tmp_path / "bad", harmless | {_filled(name, secret): _filled(FILES[name], secret)})
    with pytest.raises(PrivacyGateError) as caught:
        _search(tmp_path / "bad", gated)
    assert "nothing of stage train was published" in str(caught.value)
    assert "zebulon" not in str(caught.value).lower()
    assert read_table(tmp_path / "bad" / "hits.parquet", "gate_hits").num_rows >= 1


def test_vocabulary_entries_are_judged_by_the_words_that_are_public(tmp_path: Path) -> None:
    rows: list[Row] = [("I am Mann", "I am <MASK>", True), ("in a manner", "in a manner", False)]
    rows += [("I am Zebulon", "I am <MASK>", True), ("I am Zoë", "I am <MASK>", True)]
    gated = _run_gate(tmp_path / "g", [rows], GateConfig())
    _publish(tmp_path / "ok", {"tokenizer.json": TOKENIZER | {"model": {"vocab": {"Ġmann": 1}, "merges": ["Ġm ann"]}}})
    _search(tmp_path / "ok", gated)
    for entry in ("ĠZebulon", "zebulon", "ĠZoÃ«"):
        _publish(tmp_path / entry, {"tokenizer.json": {"model": {"vocab": {entry: 1}, "merges": []}}})
        with pytest.raises(PrivacyGateError):
            _search(tmp_path / entry, gated)


POISSON = "Differential privacy of Poisson-sampled DP-SGD, accounted with privacy loss distributions"


def test_our_own_wording_and_computed_numbers_are_no_finds(tmp_path: Path) -> None:
    rows: list[Row] = [("I am Poisson", "I am <MASK>", True), ("call 1234567890", "call <MASK>", True)]
    gated = _run_gate(tmp_path / "g", [rows], GateConfig())
    files = {"report.html": f"<dd>{POISSON}</dd><td>0.1234567890</td>", "report.json": {"x": 1234567890}}
    for place in ("public", "marked"):
        _publish(tmp_path / "ok", files, place)
    _search(tmp_path / "ok", gated)
    _publish(tmp_path / "bad", {"report.json": {"x": "123-456-7890"}})
    with pytest.raises(PrivacyGateError, match="NAME 1"):
        _search(tmp_path / "bad", gated)


ELSEWHERE = {
    "model": {"type": "BPE", "vocab": {"a": 0, "Ġzebulon": 1, "Ġquackenbush": 2}, "merges": [["Ġ", "zebulon"]]},
    "added_tokens": [{"id": 3, "content": "<zebulon quackenbush>"}],
}


def test_a_pretrained_vocabulary_may_hold_a_masked_word_and_what_is_added_to_it_may_not(tmp_path: Path) -> None:
    masked: Row = ("I am Zebulon", "I am <MASK>", True)
    gated = _run_gate(tmp_path / "g", [[masked, MASKED, CLEAN]], GateConfig())

    def publish(name: str, document: dict[str, Any], basis: dict[str, Any] | None) -> None:
        _publish(tmp_path / name, {"tokenizer.json": document, "config.json": {"name": "zebulon"}})
        if basis is not None:
            (tmp_path / name / "basis").mkdir()
            (tmp_path / name / "basis" / "tokenizer.json").write_text(json.dumps(basis))
            (tmp_path / name / "basis" / "config.json").write_text('{"name": "zebulon"}')
        _search(tmp_path / name, gated)

    publish("unchanged", ELSEWHERE, ELSEWHERE)
    model: Any = ELSEWHERE["model"]
    harmless = {"id": 4, "content": "<MASK>"}
    publish("grown", {**ELSEWHERE, "added_tokens": [*ELSEWHERE["added_tokens"], harmless]}, ELSEWHERE)
    shorter = {**model, "vocab": {"a": 0, "Ġquackenbush": 2}, "merges": []}
    changed = [
        (ELSEWHERE, None),  # the same vocabulary, learnt here
        (ELSEWHERE, {**ELSEWHERE, "model": shorter}),  # a word that the model did not bring
        ({**ELSEWHERE, "added_tokens": [{"id": 3, "content": "<zebulon>"}]}, ELSEWHERE),  # a speaker's token
        ({**ELSEWHERE, "note": "zebulon"}, ELSEWHERE),
    ]
    for number, (document, basis) in enumerate(changed):
        with pytest.raises(PrivacyGateError):
            publish(f"changed{number}", document, basis)
