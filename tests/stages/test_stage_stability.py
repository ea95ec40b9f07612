"""Whether masked secrets are redacted stably: against the whole real pipeline, one secret masked by hand at a time."""

import functools
import itertools

import pytest
from from_split import Pipeline, by_hand, characters_of, corpus, oracle, secrets_of, sentence
from neighbours import TABLE, FailsOnMasks, Neighbours, Together, plugin, world_of
from support.patches import patching
from support.tables import read_table
from support.training_events import EVENTS

from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.facts import CorpusFacts, parse_training
from pipelines.corpus import split
from pipelines.errors import StageError
from pipelines.graph import GRAPH
from pipelines.mask import MASK
from pipelines.miss_rate.rates import delta2_of, false_negative_rate_of, stability_of, worst_label_of
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.estimate import EstimateConfig
from pipelines.settings.redact import RedactConfig


@pytest.fixture(scope="module", autouse=True)
def one_tokeniser():
    """The stage makes a tokeniser for each partition, which takes longer than all else in these small worlds."""
    with patching() as patch:
        patch.constant(split, "Splitter", functools.cache(split.Splitter), read_by="pipelines.stages.prepare.stability")
        yield


def claims_of(figures):
    """What the guarantee stage would claim of a run on this corpus."""
    training = parse_training({**EVENTS, "num_public_records": 0})
    known = Review(
        source=figures["source"],
        is_trusted=True,
        false_negative_rate=false_negative_rate_of(figures),
        delta2=delta2_of(figures),
        worst_label=worst_label_of(figures),
        is_census=figures["is_census"],
        covers_corpus=True,
        stability=stability_of(figures),
    )
    found = build_claims(training, CorpusFacts(dedup_stability=1, dedup_reason="exact."), known, (2,))
    return {(c["notion"], c["group_size"]): c for c in found["claims"]}


def test_a_masked_secret_that_moves_other_masks_is_no_caught_secret(tmp_path):
    """Guards the promise "epsilon is 0 for a masked secret": here the trained text differs, yet all are masked.

    The oracle is the whole pipeline from the split table on, on the corpus with the secret masked by hand.
    """
    TABLE.clear()
    TABLE.update({("*", "Ann"): "NAME", ("Ann", "arrived"): "VERB"})
    partitions = corpus(["so [Ann]{NAME} arrived", "hello there"], ["my name is [Ann]{NAME}"])
    pipeline = Pipeline(tmp_path / "d", plugin(Neighbours))
    read = pipeline.shards(partitions)
    figures = pipeline.measured()
    assert figures["is_census"]
    changed = [
        oracle(tmp_path / str(n), partitions, pipeline, [secret]) != read
        for n, (secret, _) in enumerate(secrets_of(partitions))
    ]
    assert changed == [True, False]
    assert figures["false_negative_rate"]["value"] == pytest.approx(1 / 2)
    assert claims_of(figures)["group_confidentiality", 2]["epsilon"] > 0


def check_verdicts(root, table, partitions, stabilise, mode):
    """The slow way, the whole pipeline once a secret, and the stage agree."""
    TABLE.clear()
    TABLE.update(dict.fromkeys(table, "X"))
    redact = plugin(Neighbours).model_copy(update={"stabilise": stabilise})
    pipeline = Pipeline(root / "d", redact, DedupConfig(mode=mode))
    read = pipeline.shards(partitions)
    figures = pipeline.measured()
    found = pipeline.stable()
    kept = {
        (row["doc_id"], row["sentence_index"]): row
        for row in read_table(pipeline.made["redact", "p0"].blob("redacted.parquet"), "redacted").to_pylist()
        if not row["is_duplicate"]
    }
    row_of = {(row.doc_id, row.index): row for rows in partitions.values() for row in rows}
    num_secrets = num_unmasked = num_unstable = 0
    for n, (secret, tokens) in enumerate(secrets_of(partitions)):
        row = kept.get(secret[:2])
        if row is None:
            assert (*secret[:2], *tokens) not in found
            continue
        num_secrets += 1
        masked = {t for span in row["spans"] for t in range(span["start_token"], span["end_token"])}
        if not masked.issuperset(range(*tokens)):
            num_unmasked += 1
            continue
        ways = {secret, (*secret[:2], *characters_of(row_of[secret[:2]].text, tokens))}
        worlds = [oracle(root / f"{n}-{m}", partitions, pipeline, [way]) for m, way in enumerate(sorted(ways))]
        is_same = all(world == read for world in worlds)
        num_unstable += not is_same
        assert found[(*secret[:2], *tokens)]["is_stable"] == is_same
    assert (figures["num_secret_spans"], figures["num_unmasked_spans"]) == (num_secrets, num_unmasked)
    assert figures["num_unstable_spans"] == num_unstable
    assert figures["num_missed_spans"] == num_unmasked + num_unstable
    return num_secrets - num_unmasked, num_unstable


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 150), marks=pytest.mark.slow)], ids=len)
def test_verdicts_are_those_of_the_whole_pipeline(tmp_path, seeds):
    """Any table of neighbours, any few sentences, copies among them: the slow way and the stage agree."""
    num_caught = num_unstable = 0
    for seed in seeds:
        found = check_verdicts(tmp_path / str(seed), *world_of(seed))
        num_caught, num_unstable = num_caught + found[0], num_unstable + found[1]
    assert min(num_unstable, num_caught - num_unstable) >= len(seeds) // 2  # power: there are both kinds to mistake


def test_sets_of_secrets_are_those_of_the_whole_pipeline(tmp_path):
    """Guards groups: each of two secrets may be masked alone without a trace, and not both together."""
    partitions = corpus(
        ["[Ann]{NAME} and [Bob]{NAME} tail", "[Ann]{NAME} alone"], ["[Ann]{NAME} tail", "we are [Bob]{NAME}"]
    )
    pipeline = Pipeline(tmp_path / "d", plugin(Together))
    read = pipeline.shards(partitions)
    figures = pipeline.measured()
    found = pipeline.stable()
    by_row = {}
    for secret, tokens in secrets_of(partitions):
        by_row.setdefault(secret[:2], []).append((secret, tokens))
    for row, secrets in by_row.items():
        sets = [s for size in range(1, len(secrets) + 1) for s in itertools.combinations(secrets, size)]
        changed = {
            s: oracle(tmp_path / f"{row[0]}-{row[1]}-{n}", partitions, pipeline, [secret for secret, _ in s]) != read
            for n, s in enumerate(sets)
        }
        for secret, tokens in secrets:
            verdict = found[(*row, *tokens)]
            assert verdict["is_stable"] == (not changed[((secret, tokens),)])
            assert verdict["is_stable_together"] == (not any(c for s, c in changed.items() if (secret, tokens) in s))
    assert found["d0", 0, 0, 1]["is_stable"]
    assert not found["d0", 0, 0, 1]["is_stable_together"]
    assert not found["d1", 0, 0, 1]["is_stable"]
    assert (figures["num_unstable_spans"], figures["num_unstable_together_spans"]) == (1, 2)


def test_a_group_may_hold_two_secrets_of_one_sentence(tmp_path):
    """No secret is missed or unstable alone; the claim for groups of two must still not say epsilon 0."""
    partitions = corpus(["[Ann]{NAME} and [Bob]{NAME} tail"])
    pipeline = Pipeline(tmp_path / "d", plugin(Together))
    pipeline.shards(partitions)
    figures = pipeline.measured()
    assert figures["false_negative_rate"]["value"] == 0
    assert claims_of(figures)["group_confidentiality", 2]["num_missed"] == 2


def test_an_unstable_policy_is_found_out_and_a_stable_one_is_not_accused(tmp_path):
    """Power: three secrets of ten move a mask, and exactly those are told; one word at a time gives none."""
    TABLE.clear()
    TABLE.update({("*", "Ann"): "NAME", ("Ann", "tail"): "X"})
    lines = [f"[Ann]{{NAME}} {'tail' if n < 3 else 'b'} {n}" for n in range(10)]
    pipeline = Pipeline(tmp_path / "unstable", plugin(Neighbours))
    pipeline.shards(corpus(lines))
    figures = pipeline.measured()
    assert (figures["num_secret_spans"], figures["num_unmasked_spans"], figures["num_unstable_spans"]) == (10, 0, 3)
    assert figures["false_negative_rate"] == {"value": 0.3, "upper": 0.3, "confidence": 1.0}
    assert figures["false_negative_rate_masked"] == {"value": 0.0, "upper": 0.0, "confidence": 1.0}
    assert figures["by_label"]["NAME"]["num_unstable_spans"] == 3
    assert figures["delta2"]["value"] == 0  # the row is private in both worlds
    assert figures["recall"] == 1.0
    TABLE.clear()
    TABLE["*", "Ann"] = "NAME"
    steady = Pipeline(tmp_path / "stable", plugin(Neighbours))
    steady.shards(corpus(lines))
    assert steady.measured()["num_unstable_spans"] == 0


def test_the_policy_for_digits_is_stable(tmp_path):
    lines = ["call [5551234]{PHONE} or [0041 44 123]{PHONE}.", "room [12b]{ROOM}, floor [3]{ROOM}", "[77]{ROOM}"]
    pipeline = Pipeline(tmp_path, RedactConfig(policies=("digits",), check_language=False))
    pipeline.shards(corpus(lines))
    figures = pipeline.measured()
    assert (figures["num_unmasked_spans"], figures["num_unstable_spans"]) == (0, 0)
    assert figures["num_unstable_together_spans"] == 0


ALONE, PART = ("*", "Ann7x"), ("*", "7x")


@pytest.mark.parametrize(
    ("table", "num_unstable"), [({ALONE}, 1), ({ALONE, PART}, 0), ({ALONE, PART, (MASK, "tail")}, 1)]
)
def test_characters_and_whole_tokens_are_both_masked_by_hand(tmp_path, table, num_unstable):
    """A label on a part of a token: by characters "7x" is left, which moves a mask or not; by tokens nothing is."""
    TABLE.clear()
    TABLE.update(dict.fromkeys(table, "X"))
    pipeline = Pipeline(tmp_path, plugin(Neighbours))
    pipeline.shards(corpus(["hi [Ann]{NAME}7x tail"]))
    assert pipeline.measured()["num_unstable_spans"] == num_unstable


def test_masks_that_show_lengths_are_compared_one_by_one(tmp_path):
    """Without collapsing, a secret of two tokens is two masks in one world and one in the other."""
    pipeline = Pipeline(tmp_path, RedactConfig(policies=("digits",), collapse=False, check_language=False))
    pipeline.shards(corpus(["call [12 34]{PHONE} now", "call [12]{PHONE} now"]))
    assert pipeline.measured()["num_unstable_spans"] == 1


def test_a_full_stop_behind_a_code_is_no_part_of_it(tmp_path):
    """The built-in job's tracking numbers: "9T6A." was one token, and masking the code by hand left the stop."""
    lines = ["Your number is [M9NT66JZ9T]{TRACKING}. Anything else?", "It is [SFMP00QZ5B]{TRACKING}."]
    pipeline = Pipeline(tmp_path, RedactConfig(policies=("customersim",), check_language=False))
    pipeline.shards(corpus(lines))
    figures = pipeline.measured()
    assert (figures["num_secret_spans"], figures["num_missed_spans"]) == (2, 0)


def test_too_many_secrets_of_one_sentence_are_not_known_together(tmp_path):
    TABLE.clear()
    TABLE["*", "Ann"] = "NAME"
    pipeline = Pipeline(tmp_path, plugin(Neighbours))
    pipeline.shards(corpus([" b ".join(["[Ann]{NAME}"] * 7), " b ".join(["[Ann]{NAME}"] * 6)]))
    figures = pipeline.measured()
    assert (figures["num_unstable_spans"], figures["num_unstable_together_spans"]) == (0, 7)


def test_a_policy_that_fails_in_the_other_world_makes_a_secret_unstable(tmp_path):
    pipeline = Pipeline(tmp_path, plugin(FailsOnMasks))
    pipeline.shards(corpus(["hello [Ann]{NAME} tail"]))
    assert pipeline.measured()["num_unstable_spans"] == 1


@pytest.mark.parametrize(("min_tokens", "num_unstable"), [(0, 0), (4, 1), (9, 0)])
def test_a_sentence_that_deduplication_would_look_at_no_more_is_unstable(tmp_path, min_tokens, num_unstable):
    """Six tokens, three of them masked by hand into one: with min_tokens between, copies would be kept or masked."""
    pipeline = Pipeline(
        tmp_path, RedactConfig(policies=("digits",), check_language=False), DedupConfig(min_tokens=min_tokens)
    )
    pipeline.shards(corpus(["call [1 2 3 4]{PHONE} now"]))
    assert pipeline.measured()["num_unstable_spans"] == num_unstable


def names(*given):
    return RedactConfig(policies=("names", "propagate"), names=given, check_language=False)


def test_policies_that_read_documents_are_given_the_whole_document(tmp_path):
    """ "propagate" masks "quux" alone because the whole name is masked elsewhere: another sentence changes."""
    partitions = corpus(
        ["I am [Zed Quux]{NAME}", "ask [Quux]{NAME} then", "hello"],
        ["I am [Zed Quux]{NAME}", "hi [Zed Quux]{NAME}"],
        ["it is [Zed Quux]{NAME} again"],
    )
    pipeline = Pipeline(tmp_path / "d", names("Zed Quux"))
    read = pipeline.shards(partitions)
    figures = pipeline.measured()
    found = pipeline.stable()
    assert {row: verdict["reason"] for row, verdict in found.items()} == {
        ("d0", 0, 2, 4): "document",
        ("d0", 1, 1, 2): "stable",
        ("d1", 1, 1, 3): "stable",
        ("d2", 0, 2, 4): "stable",
    }
    for n, (secret, tokens) in enumerate(secrets_of(partitions)):
        if (*secret[:2], *tokens) in found:
            is_same = oracle(tmp_path / str(n), partitions, pipeline, [secret]) == read
            assert found[(*secret[:2], *tokens)]["is_stable"] == is_same
    assert figures["num_unstable_elsewhere_spans"] == 1
    refused = claims_of(figures)["confidentiality", 1]["refused"]
    assert "1 of 4" in refused


def test_names_of_speakers_are_masked_stably_in_every_row_of_their_document(tmp_path):
    """They come from tags, which a mask in a row leaves as they are."""
    partitions = corpus(
        [("SPEAKER_1", "thanks [Zorvan]{NAME}"), ("SPEAKER_2", "[Quux]{NAME}: ask [zorvan]{NAME} at [5]{TIME}")],
        [("SPEAKER_1", "[Quux]{NAME} and [Zorvan]{NAME}"), ("SPEAKER_2", "no")],
    )
    redact = RedactConfig(policies=("digits", "propagate", "speakers"), check_language=False)
    pipeline = Pipeline(tmp_path / "d", redact, names={"d0": ("Zorvan", "Zed Quux"), "d1": ("Quux",)})
    read = pipeline.shards(partitions)
    figures = pipeline.measured()
    found = pipeline.stable()
    assert (figures["num_unmasked_spans"], figures["num_unstable_spans"]) == (1, 0)  # Zorvan is no speaker of d1
    assert len(found) == 5
    for n, (secret, tokens) in enumerate(secrets_of(partitions)):
        if (*secret[:2], *tokens) in found:
            assert oracle(tmp_path / str(n), partitions, pipeline, [secret]) == read


def test_a_copy_in_the_document_is_overwritten_with_its_sentence(tmp_path):
    """The copy is masked whole, but what stands in it is carried over to the rest of the document."""
    partitions = corpus(["I am [Zed Quux]{NAME}", "I am [Zed Quux]{NAME}", "ask [Quux]{NAME} then"])
    pipeline = Pipeline(tmp_path / "d", names("Zed Quux"))
    read = pipeline.shards(partitions)
    pipeline.measured()
    (first,) = [s for s, _ in secrets_of(partitions) if s[:2] == ("d0", 0)]
    assert oracle(tmp_path / "e", partitions, pipeline, [first]) != read
    assert pipeline.stable()["d0", 0, 2, 4]["reason"] == "document"


def test_a_secret_over_two_sentences_is_stable_where_both_pieces_are(tmp_path):
    """One secret in two rows counts once, and as unstable where any piece is; pieces outside the sample too."""
    TABLE.clear()
    TABLE.update({("*", "Ann"): "NAME", ("*", "b"): "NAME", ("Ann", "tail"): "X"})
    rows = [
        sentence("d0", 0, "so [b]{NAME}", numbers=[0]),
        sentence("d0", 1, "[Ann]{NAME} tail", numbers=[0]),
        sentence("d0", 2, "c [b]{NAME}", numbers=[1]),
    ]
    pipeline = Pipeline(tmp_path, plugin(Neighbours))
    pipeline.shards({"p0": rows})
    figures = pipeline.measured()
    assert (figures["num_secret_spans"], figures["num_unmasked_spans"], figures["num_unstable_spans"]) == (2, 0, 1)


@pytest.mark.parametrize("source", ["none", "proxy"])
def test_nothing_is_masked_by_hand_where_no_guarantee_can_rest_on_it(tmp_path, source):
    proxy = {"proxy": ("digits",)} if source == "proxy" else {}
    pipeline = Pipeline(
        tmp_path,
        RedactConfig(policies=("digits",), check_language=False),
        estimate=EstimateConfig(source=source, **proxy),
    )
    pipeline.shards(corpus(["room [12]{ROOM}"]))
    figures = pipeline.measured()
    assert pipeline.stable() == {}
    assert figures["num_unstable_spans"] is None
    assert false_negative_rate_of(figures) is None
    assert GRAPH["stability"].edges_read({"estimate": EstimateConfig(source=source, **proxy)}) == ()


def test_a_caught_secret_without_a_verdict_stops_the_estimate(tmp_path):
    pipeline = Pipeline(tmp_path, RedactConfig(policies=("digits",), check_language=False))
    pipeline.shards(corpus(["room [12]{ROOM}", "room [13]{ROOM}"]))
    pipeline.measured()
    rows = read_table(tmp_path / "stability-p0" / "stability.parquet", "stability")
    from support.tables import table_writer

    with table_writer(tmp_path / "stability-p0" / "stability.parquet", "stability") as writer:
        writer.write(dict(zip(rows.column_names, rows.slice(1).columns, strict=True)))
    inputs = {
        stage: tuple(a for (name, _), a in pipeline.made.items() if name == stage)
        for stage in ("sample", "split", "redact", "stability")
    }
    with pytest.raises(StageError, match="was not masked by hand"):
        pipeline.stage("estimate", None, inputs)


@pytest.mark.slow
def test_bytes_do_not_depend_on_processes_nor_on_an_attempt_that_was_cut_short(tmp_path, patch):
    """Two worker processes write the bytes of one, and so does a second attempt after a killed first one."""
    from pipelines.policies.judging.apply import Redactor
    from pipelines.stages.prepare import stability

    lines = [f"Mr [Jones]{{NAME}} of [Acme {n}]{{ORG}} paid [{n} dollars]{{MONEY}} on Monday." for n in range(40)]
    config = RedactConfig(policies=("high_entity",), check_language=False)
    pipeline = Pipeline(tmp_path, config)
    pipeline.shards(corpus(lines[:25], lines[25:]))
    pipeline.measured()
    table = tmp_path / "stability-p0" / "stability.parquet"
    once = table.read_bytes()

    def dies(self, requests, documents=None):
        raise KeyboardInterrupt

    with patching() as killing:
        killing(Redactor, "judge", dies)
        with pytest.raises(KeyboardInterrupt):
            pipeline.verdicts("p0")
    pipeline.verdicts("p0")
    assert table.read_bytes() == once
    patch.constant(stability, "_SENTENCES_WORTH_A_PROCESS", 1)
    pipeline.processes = 2
    pipeline.verdicts("p0")
    assert table.read_bytes() == once


def test_the_stage_names_no_text_and_loads_no_model_for_nothing(tmp_path):
    """Without a sampled secret no policy is loaded; what the stage returns holds counts only."""
    pipeline = Pipeline(tmp_path, RedactConfig(policies=("high_entity",), model="no_such_model", check_language=False))
    for name in ("split", "redact"):
        (tmp_path / name).mkdir()
    plain = Pipeline(tmp_path / "plain", RedactConfig(policies=("digits",), check_language=False))
    plain.shards(corpus(["hello there"]))
    plain.measured()
    pipeline.made = dict(plain.made)
    artifact = pipeline.verdicts("p0")
    assert read_table(artifact.blob("stability.parquet"), "stability").num_rows == 0


def test_by_hand_changes_all_copies_and_nothing_else():
    """The oracle's own neighbouring world."""
    partitions = corpus(["hi [Ann]{NAME} [Bo]{NAME}", "bye [Ann]{NAME}"], ["hi Ann Bo", ("A", "hi [Ann]{NAME} Bo")])
    world = by_hand(partitions, [("d0", 0, 3, 6)])
    assert [row.text for row in world["p0"]] == [f"hi {MASK} Bo", "bye Ann", f"hi {MASK} Bo", "hi Ann Bo"]
    assert [[row.text[a:b] for a, b, *_ in row.secrets] for row in world["p0"]] == [["Bo"], ["Ann"], [], ["Ann"]]
