"""Runs policies over many sentences: every distinct sentence once, one spaCy pass for all of them, failing closed."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pipelines.policies.language import load_pipeline, make_doc
from pipelines.policies.protocol import Policy, Sentence, Span, check_offsets, check_spans
from pipelines.policies.redact import literal_mask_spans

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

FAILED_LABEL: Final = "FAILED_CLOSED"
CHUNK_SENTENCES: Final = 2_048
SPACY_BATCH: Final = 128
MAX_REMEMBERED: Final = 500_000


class Request(NamedTuple):
    """One row to judge. ``redact`` is false for a row that is masked whole anyway: then only the flag is wanted."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    redact: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policies say about one sentence.

    Attributes:
        spans: to be masked, sorted; one span over the whole row when a policy failed on it.
        failed_closed: a policy failed on this row.
        flagged: the conservative policy found something, or failed, or there is none.
        conservative_failed: the conservative policy failed on this row.
    """

    spans: tuple[Span, ...]
    failed_closed: bool
    flagged: bool
    conservative_failed: bool


class Redactor:
    """Judges sentences by a union of policies and, separately, by a conservative policy.

    A verdict depends on the sentence alone: not on the batch it came in, nor on which other policies run.

    Args:
        policies: the union, by name.
        conservative: decides private or public only; None flags every row.
        model: the spaCy model, loaded only when a policy needs it and then with what is needed.
    """

    def __init__(self, policies: Mapping[str, Policy], conservative: Policy | None, model: str) -> None:
        self._policies = dict(sorted(policies.items()))
        self._conservative = conservative
        used = [*self._policies.values(), *([conservative] if conservative is not None else [])]
        needs = frozenset().union(*(policy.needs for policy in used))
        self._nlp: Language | None = load_pipeline(model, needs) if needs else None
        self._seen: dict[bytes, Verdict] = {}

    def judge(self, requests: Sequence[Request]) -> list[Verdict]:
        """One verdict a request, in order.

        Raises:
            ValueError: a request's token offsets do not fit its text (see `protocol.check_offsets`).
            MemoryError: never taken for a failing policy, since a rerun would then give other bytes.
        """
        verdicts: dict[bytes, Verdict] = {}
        todo: dict[bytes, Request] = {}
        keys = [_identity(request) for request in requests]
        for key, request in zip(keys, requests, strict=True):
            known = self._seen.get(key)
            if known is not None:
                verdicts[key] = known
            else:
                if key not in todo:
                    check_offsets(request.text, request.starts, request.ends)
                todo.setdefault(key, request)
        pending = list(todo.items())
        for at in range(0, len(pending), CHUNK_SENTENCES):
            chunk = pending[at : at + CHUNK_SENTENCES]
            for (key, _), verdict in zip(chunk, self._judge_chunk([request for _, request in chunk]), strict=True):
                verdicts[key] = verdict
                if len(self._seen) < MAX_REMEMBERED:
                    self._seen[key] = verdict
        return [verdicts[key] for key in keys]

    def _judge_chunk(self, requests: Sequence[Request]) -> list[Verdict]:
        if self._nlp is None:
            return [self._judge_one(request, None) for request in requests]
        read = [r for r in requests if r.redact or (self._conservative is not None and self._conservative.needs)]
        with self._nlp.memory_zone():  # frees the strings of this chunk, so memory does not grow with the corpus
            docs = dict(zip(map(id, read), _annotate(self._nlp, read), strict=True))
            return [self._judge_one(request, docs.get(id(request))) for request in requests]

    def _judge_one(self, request: Request, doc: Doc | None) -> Verdict:
        sentence = Sentence(request.text, request.starts, request.ends, doc)
        num_tokens = sentence.num_tokens
        spans: list[Span] = []
        failed = False
        if request.redact:
            spans += literal_mask_spans(sentence)
            for name, policy in self._policies.items():
                found = _find(policy, sentence)
                if found is None:
                    failed = True
                    spans = [Span(0, num_tokens, FAILED_LABEL, name)] if num_tokens else []
                    break
                spans += found
        flagged, conservative_failed = True, False
        if self._conservative is not None:
            reasons = _find(self._conservative, sentence)
            flagged, conservative_failed = reasons is None or bool(reasons), reasons is None
        return Verdict(tuple(sorted(set(spans))), failed, flagged, conservative_failed)


def _find(policy: Policy, sentence: Sentence) -> list[Span] | None:
    """A policy's checked spans, or None if it or its Doc failed. What went wrong is dropped: it may quote the text."""
    if policy.needs and sentence.doc is None:
        return None
    try:
        return check_spans(policy.find(sentence), sentence.num_tokens)
    except MemoryError:
        raise
    except Exception:
        return None


def _annotate(nlp: Language, requests: Sequence[Request]) -> list[Doc | None]:
    """Annotated Docs; None where spaCy failed, which every policy that needs one then takes for a failure."""
    try:
        docs = [make_doc(nlp, r.text, r.starts, r.ends) for r in requests]
        return list(nlp.pipe(docs, batch_size=SPACY_BATCH))
    except MemoryError:
        raise
    except Exception:
        return [_annotate_one(nlp, request) for request in requests]


def _annotate_one(nlp: Language, request: Request) -> Doc | None:
    """One sentence at a time, so that one that spaCy cannot digest costs no other row its annotation."""
    try:
        return next(iter(nlp.pipe([make_doc(nlp, request.text, request.starts, request.ends)])))
    except MemoryError:
        raise
    except Exception:
        return None


def _identity(request: Request) -> bytes:
    """What a verdict depends on, as 16 bytes: text, offsets, and what is asked."""
    count = len(request.starts)
    header = struct.pack(f"<?Q{2 * count}I", request.redact, count, *request.starts, *request.ends)
    return hashlib.blake2b(header + request.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
