"""The ledger's file: an entry before the spending, at most once a training, whole after any kill."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.patches import killed_at
from support.tables import write_rows
from support.toy import publishing

from pipelines.accounting.ledger import composed_epsilon
from pipelines.context import Partition, Piece, pseudonym
from pipelines.errors import PrivacyGateError, StoreError
from pipelines.settings.guarantee import GuaranteeConfig
from pipelines.store.ledger.ledger import StoreLedger, read_ledger
from pipelines.store.objects.ledger_lines import ledger_dir
from pipelines.store.place.ledger_file import FILE, LedgerError
from pipelines.store.place.locks import key_lock
from pipelines.store.place.roots import Roots, open_roots

EVENT = {"type": "poisson_sampled", "sample_rate": 1.0, "event": {"type": "gaussian", "noise_multiplier": 4.0}}
DELTA = 1e-5


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return open_roots(tmp_path / "private", tmp_path / "public")


def _piece(name: str, digest: str) -> Piece:
    return Piece(path=name, name=name, format="txt", start_byte=0, end_byte=1, first_row=1, digest=digest)


def ledger(
    roots: Roots, key: str, files: dict[str, str], scratch: str | None = None, purpose: str = "release", **budget: Any
) -> StoreLedger:
    """What a training of ``key`` on ``files`` (name to content, which is one document) is handed."""
    plans = tuple(Partition(f"p-{n}", (_piece(n, d),)) for n, d in files.items())
    session: Any = SimpleNamespace(
        roots=roots,
        configs={"guarantee": GuaranteeConfig(**budget)},
        spec=SimpleNamespace(run_id="20260101T000000Z-abc", partitions=plans, purpose=purpose, overlay=None),
    )
    folder = roots.private / "work" / (scratch or key)
    folder.mkdir(parents=True, exist_ok=True)
    return StoreLedger(session, key, folder, {}, [split_of(roots, text) for text in files.values()])


def split_of(roots: Roots, *documents: str) -> str:
    """The key of the sentences of documents, one sentence a line."""
    key = pseudonym(roots.secret, *documents)
    if not roots.manifest_path("split", key).exists():
        with publishing(roots, "split", key) as folders:
            rows = [(n, i, line) for n, text in enumerate(documents) for i, line in enumerate(text.splitlines())]
            write_rows(
                folders["private"] / "sentences.parquet",
                "sentences",
                [{"doc_id": f"{n}", "sentence_index": i, "text": line} for n, i, line in rows],
            )
    return key


def release(made: StoreLedger) -> None:
    made.reserve(EVENT, DELTA)
    made.commit()


def states(roots: Roots) -> list[str]:
    return [r.state for r in read_ledger(roots)]


def test_an_entry_is_there_before_training_and_marked_before_publishing(roots: Roots) -> None:
    made = ledger(roots, "k1", {"a": "1"})
    with key_lock(roots.locks, "k1"):
        made.reserve(EVENT, DELTA)
        assert states(roots) == ["in_training"]
    assert states(roots) == ["abandoned"]  # its holder is gone
    made.commit()
    made.commit()
    assert states(roots) == ["published"]
    (entry,) = read_ledger(roots)
    assert entry.epsilon == pytest.approx(1.993, abs=0.01)
    assert entry.run_id == "20260101T000000Z-abc"
    path = ledger_dir(roots) / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().splitlines()) == 2


def test_an_interrupted_training_goes_on_under_its_entry_and_a_forced_one_is_another(roots: Roots) -> None:
    ledger(roots, "k1", {"a": "1"}).reserve(EVENT, DELTA)
    release(ledger(roots, "k1", {"a": "1"}))  # the scratch folder survived the kill
    assert states(roots) == ["published"]
    release(ledger(roots, "k1", {"a": "1"}, scratch="fresh"))
    assert states(roots) == ["published", "published"]


def test_a_kill_between_mark_and_entry_loses_nothing(roots: Roots) -> None:
    with killed_at("pipelines.store.ledger.ledger", "append"):
        ledger(roots, "k1", {"a": "1"}).reserve(EVENT, DELTA)
    assert states(roots) == []
    release(ledger(roots, "k1", {"a": "1"}))
    assert states(roots) == ["published"]


def test_overlap_is_found_by_name_and_by_content(roots: Roots) -> None:
    release(ledger(roots, "k1", {"a": "1", "b": "2"}))
    first = read_ledger(roots)[0].release_id
    release(ledger(roots, "k2", {"a": "9"}))  # edited
    release(ledger(roots, "k3", {"z": "2"}))  # renamed
    release(ledger(roots, "k4", {"new": "5"}))
    found = read_ledger(roots)
    assert [r.overlaps for r in found] == [(), (first,), (first,), ()]
    assert [len(r.tokens or ()) for r in found] == [4, 1, 1, 2]  # each token is written once
    text = (ledger_dir(roots) / FILE).read_text()
    assert '"a"' not in text
    assert '"new"' not in text


def test_the_budget_is_checked_before_anything_is_entered(roots: Roots) -> None:
    budget = {"budget_epsilon": 2.4, "budget_delta": DELTA}
    one = ledger(roots, "k1", {"a": "1"}, **budget)
    release(one)
    again = ledger(roots, "k2", {"a": "1"}, **budget)
    with pytest.raises(PrivacyGateError, match="already spent epsilon") as refused:
        again.reserve(EVENT, DELTA)
    assert refused.value.exit_code == 4
    assert states(roots) == ["published"]
    assert not list(again.scratch_dir.iterdir())
    release(ledger(roots, "k3", {"other": "2"}, **budget))
    release(ledger(roots, "k4", {"a": "1"}))  # no budget, no limit
    with pytest.raises(StoreError, match="does not know"):
        again.commit()


def test_two_trainings_at_once_cannot_both_fit_a_budget_for_one(roots: Roots) -> None:
    split_of(roots, "1")
    outcomes: list[str] = []
    ready = threading.Barrier(2)
    entered = threading.Barrier(2)

    def train(key: str) -> None:
        with key_lock(roots.locks, key):
            made = ledger(roots, key, {"a": "1"}, budget_epsilon=2.4, budget_delta=DELTA)
            ready.wait()
            try:
                made.reserve(EVENT, DELTA)
                outcomes.append("trained")
            except PrivacyGateError:
                outcomes.append("refused")
            entered.wait()

    threads = [threading.Thread(target=train, args=(key,)) for key in ("k1", "k2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused", "trained"]


def test_a_line_cut_short_by_a_kill_is_as_if_it_had_not_begun(roots: Roots) -> None:
    made = ledger(roots, "k1", {"a": "1"})
    made.reserve(EVENT, DELTA)
    before = (roots.private / "store.json").read_bytes()
    made.commit()
    path = ledger_dir(roots) / FILE
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    after = (roots.private / "store.json").read_bytes()
    for cut in range(last, len(whole), 7):
        path.write_bytes(whole[:cut])
        (roots.private / "store.json").write_bytes(before)  # what is written down after the line was flushed
        assert states(roots) == ["abandoned"]
        (roots.private / "store.json").write_bytes(after)  # the line was acknowledged, and then lost
        with pytest.raises(LedgerError, match=r"has 1 lines, and .* says that it had 2"):
            read_ledger(roots)
    (roots.private / "store.json").write_bytes(before)
    ledger(roots, "k1", {"a": "1"}).reserve(EVENT, DELTA)
    resumed = ledger(roots, "k1", {"a": "1"})
    release(resumed)
    assert path.read_bytes() == whole


def test_a_damaged_ledger_stops_training(roots: Roots) -> None:
    release(ledger(roots, "k1", {"a": "1"}))
    path = ledger_dir(roots) / FILE
    path.write_bytes(path.read_bytes().replace(b'"type":"release"', b'"type":"rel\xffase"'))
    with pytest.raises(LedgerError, match=r"line 1 of the privacy ledger .* is damaged") as stopped:
        ledger(roots, "k2", {"a": "1"}).reserve(EVENT, DELTA)
    assert stopped.value.exit_code == 4
    assert "--acknowledge-damage" in str(stopped.value)
    with pytest.raises(LedgerError):
        read_ledger(roots)


def test_a_budget_delta_needs_a_budget() -> None:
    with pytest.raises(ValueError, match="budget_delta needs budget_epsilon"):
        GuaranteeConfig(budget_delta=1e-6)
    limited, plain = GuaranteeConfig(budget_epsilon=4.0, budget_scope="store"), GuaranteeConfig()
    assert limited.keyed() == plain.keyed()  # a budget changes what may run, not what a claim says


def test_an_audit_costs_nothing_and_claims_do_not_see_it(roots: Roots) -> None:
    budget = {"budget_epsilon": 2.4, "budget_delta": DELTA}
    release(ledger(roots, "k1", {"a": "1"}, **budget))
    release(ledger(roots, "k2", {"a": "1"}, purpose="audit", **budget))  # twice the budget, had it been a release
    listed = read_ledger(roots)
    assert [(r.purpose, r.is_public, r.counts, r.is_claimed) for r in listed] == [
        ("release", True, True, True),
        ("audit", False, False, False),
    ]
    assert composed_epsilon(listed, DELTA) == listed[0].epsilon
    lines = (ledger_dir(roots) / FILE).read_text().splitlines()
    assert ["purpose" in json.loads(line) for line in lines if '"type":"release"' in line.replace(": ", ":")] == [
        False,
        True,
    ]


def test_a_comparison_is_charged_for_although_it_is_not_published(roots: Roots) -> None:
    budget = {"budget_epsilon": 2.4, "budget_delta": DELTA}
    release(ledger(roots, "k1", {"a": "1"}, purpose="comparison", **budget))
    with pytest.raises(PrivacyGateError, match="already spent epsilon"):
        ledger(roots, "k2", {"a": "1"}, **budget).reserve(EVENT, DELTA)
    (entry,) = read_ledger(roots)
    assert (entry.purpose, entry.counts, entry.is_claimed) == ("comparison", True, True)
