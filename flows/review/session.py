"""The review page's session: gives the next sentence, saves a decision, takes a decision back."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pipelines.miss_rate import review_log
from pipelines.miss_rate.review_items import Item, agreement, judged_secrets
from pipelines.policies.labels import ReviewLabels

Mode = Literal["review", "adjudicate"]
DEFAULT_LABELS: Final = ReviewLabels()


class ReviewSession:
    """The work of a reviewer on the sampled sentences. Safe to call from several threads.

    Args:
        items: sentences, in review order
        log: log that receives the decisions
        reviewer: name of the person who decides
        labels: labels of marks, at most nine (one per digit key)
        mode: ``review``, or ``adjudicate`` to show sentences on which reviewers disagree
        overlap: share of the sentences that every reviewer judges; one judgement is enough for the others
    """

    def __init__(
        self,
        items: Sequence[Item],
        log: review_log.DecisionLog,
        reviewer: str,
        *,
        labels: ReviewLabels = DEFAULT_LABELS,
        mode: Mode = "review",
        overlap: float = 1.0,
    ) -> None:
        self._items = {item.key: item for item in items}
        self._log, self._reviewer, self._mode, self._overlap = log, reviewer, mode, overlap
        self._labels = labels
        self._role: review_log.Role = "adjudicator" if mode == "adjudicate" else "reviewer"
        self._lock = threading.Lock()

    def api(self) -> dict[str, Any]:
        """Returns the functions that the page calls."""
        return {"state": self.state, "decide": self.decide, "undo": self.undo}

    def state(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the sentence to show now and the progress of the work."""
        with self._lock:
            return self._state()

    def decide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Saves a decision, and only then gives the next sentence.

        Args:
            request: object with ``id`` (the decision's id, made by the page, so that a retry counts once), ``key``,
                ``kind`` (``judge`` or ``skip``), ``marked`` (start, end, label) and ``wrong`` (start, end)

        Raises:
            ValueError, KeyError: the request has another form, or names an unknown sentence.
            StoreError: the decision could not be saved.
        """
        with self._lock:
            item = self._items[request["key"]]
            kind = request["kind"]
            if kind not in ("judge", "skip") or not isinstance(request["id"], str) or not 8 <= len(request["id"]) <= 64:
                raise ValueError
            marked = [review_log.Secret(*_within(item, row[:2]), self._label(row[2])) for row in request["marked"]]
            wrong = [_within(item, row) for row in request["wrong"]]
            secrets, trusted = judged_secrets(item, marked, wrong) if kind == "judge" else ([], [])
            decision = review_log.Decision(
                id=request["id"],
                at=_now(),
                reviewer=self._reviewer,
                role=self._role,
                key=item.key,
                kind=kind,
                secrets=tuple(secrets),
                wrong=tuple(wrong) if kind == "judge" else (),
                trusted=tuple(trusted),
            )
            self._log.append([decision])
            return self._state()

    def undo(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Takes this reviewer's last decision back and shows its sentence again, with its marks."""
        with self._lock:
            decisions = review_log.read_decisions(self._log.path)
            undone = {d.undoes for d in decisions if d.kind == "undo"}
            in_force = [
                d
                for d in decisions
                if d.reviewer == self._reviewer
                and d.role == self._role
                and d.kind != "undo"
                and d.id not in undone
                and d.key in self._items
            ]
            if not in_force:
                return self._state()
            last = in_force[-1]
            back = review_log.Decision(
                id=uuid.uuid4().hex,
                at=_now(),
                reviewer=self._reviewer,
                role=self._role,
                key=last.key,
                kind="undo",
                undoes=last.id,
            )
            self._log.append([back])
            return self._state(first=last)

    def _state(self, first: review_log.Decision | None = None) -> dict[str, Any]:
        decisions = review_log.read_decisions(self._log.path)
        ballots = review_log.ballots_of(decisions)
        todo = [item for item in self._items.values() if self._asks(item, ballots.get(item.key))]
        put_off = [item for item in todo if self._is_put_off(ballots.get(item.key))]
        fresh = [item for item in todo if not self._is_put_off(ballots.get(item.key))]
        shown = self._items[first.key] if first else next(iter([*fresh, *put_off]), None)
        wanted = [item for item in self._items.values() if self._is_wanted(item, ballots.get(item.key))]
        return {
            "reviewer": self._reviewer,
            "mode": self._mode,
            "labels": list(self._labels.names),
            "num_done": len(wanted) - len(todo),
            "num_total": len(wanted),
            "num_put_off": len(put_off),
            "can_undo": any(
                d.reviewer == self._reviewer and d.kind != "undo" and d.key in self._items
                for ballot in ballots.values()
                for d in (*ballot.by_reviewer.values(), *([ballot.adjudicated] if ballot.adjudicated else []))
            ),
            "agreement": agreement(ballots, self._items.values()),
            "sentence": self._sentence(shown, ballots.get(shown.key), first) if shown else None,
        }

    def _is_wanted(self, item: Item, ballot: review_log.Ballot | None) -> bool:
        """Checks if the sentence belongs to this reviewer's work at all."""
        if self._mode == "adjudicate":
            return (
                ballot is not None and len(ballot.judged) > 1 and (ballot.is_disputed or ballot.adjudicated is not None)
            )
        if ballot is None or self._reviewer in ballot.by_reviewer or int(item.key[:8], 16) / 2**32 < self._overlap:
            return True
        return ballot.judgement() is None

    def _asks(self, item: Item, ballot: review_log.Ballot | None) -> bool:
        if not self._is_wanted(item, ballot):
            return False
        if self._mode == "adjudicate":
            return ballot is not None and ballot.is_disputed
        return item.needs_review(self._own(ballot))

    def _own(self, ballot: review_log.Ballot | None) -> review_log.Judgement | None:
        """Returns this reviewer's own judgement."""
        decision = ballot.by_reviewer.get(self._reviewer) if ballot else None
        if decision is None or decision.kind != "judge":
            return None
        return review_log.Judgement(decision.secrets, decision.trusted, False)

    def _is_put_off(self, ballot: review_log.Ballot | None) -> bool:
        if ballot is None:
            return False
        own = ballot.adjudicated if self._mode == "adjudicate" else ballot.by_reviewer.get(self._reviewer)
        return own is not None and own.kind == "skip"

    def _label(self, value: Any) -> str:
        if value not in self._labels.names:
            raise ValueError
        return str(value)

    def _shown(self, secrets: Sequence[review_log.Secret]) -> list[list[Any]]:
        """Returns secrets in the page's form. Labels of earlier reviews that are not in the list are replaced."""
        return [[secret.start, secret.end, self._labels.of(secret.label)] for secret in secrets]

    def _sentence(
        self, item: Item, ballot: review_log.Ballot | None, before: review_log.Decision | None
    ) -> dict[str, Any]:
        known = before or (ballot.by_reviewer.get(self._reviewer) if ballot else None)
        marked: list[review_log.Secret] = []
        wrong: list[review_log.Range] = []
        again: list[review_log.Range] = []
        if known is not None and known.kind == "judge":
            masked = review_log.covered((mask.start, mask.end) for mask in item.masks)
            marked = [s for s in known.secrets if (s.start, s.end) not in known.trusted]
            if before is None:
                judgement = review_log.Judgement(known.secrets, known.trusted, False)
                again = review_log.asks_again(judgement, item.open_tokens())
                # Secrets that counted as masked and are open now come marked: the reviewer confirms or removes them.
                marked += [s for s in known.secrets if s not in marked and not masked.issuperset(range(s.start, s.end))]
            wrong = [pair for pair in known.wrong if not masked.isdisjoint(range(*pair))]
        others = [
            {"reviewer": d.reviewer, "secrets": self._shown(d.secrets)} for d in (ballot.judged if ballot else [])
        ]
        return {
            "key": item.key,
            "text": item.text,
            "tokens": [list(pair) for pair in zip(item.starts, item.ends, strict=True)],
            "masks": [[mask.start, mask.end, mask.label] for mask in item.masks],
            "speaker": item.speaker,
            "before": [list(neighbour) for neighbour in item.before],
            "after": [list(neighbour) for neighbour in item.after],
            "kind": item.kind,
            "marked": self._shown(sorted(marked)),
            "wrong": [list(pair) for pair in wrong],
            "again": [list(pair) for pair in again],
            "others": others if self._mode == "adjudicate" else [],
        }


def _within(item: Item, pair: Any) -> review_log.Range:
    start, end = pair
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(item.text):
        raise ValueError
    return start, end


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
