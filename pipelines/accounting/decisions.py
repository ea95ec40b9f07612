"""Decisions that read private text and change more than their own row, with the assumptions that they add to claims.

Neighbours differ in one secret or record. A stage that looks at a whole document, file or corpus may turn that one
difference into many. Each such decision is a `Decision` below. `NO_DECISIONS` lists each stage without one, with the
reason. ``tests/stages/test_stage_decisions.py`` builds neighbours for each decision, and shows that more rows change.

Public versus private: settings decide which decisions are made. Their outcome is private, and no claim reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.accounting.assumptions import NOISE_FROM_PRIVATE_TEXT, Assumption
from pipelines.accounting.facts import COPIES_BY_PERSON, CorpusFacts
from pipelines.accounting.held_rows import about_held_rows

Says = Callable[[str, CorpusFacts], Sequence[str]]
OF_THE_PRIVATE_SET: Final = frozenset({"dp_private_set", "owner_dp"})
"""Notions of claims about private records, or people, as training reads them.

Their neighbours are taken after the preparation, so that decisions before do not concern them.
"""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision that reads private text and changes more than its own row.

    Attributes:
        name: unique name. If `is_made` is set, releases note it in the ledger.
        stage: name of its stage in the graph.
        settings: settings that shape it, as ``table.field``.
        reads: private text that it reads.
        changes: other things that change with it.
        says: function from a claim's notion and the facts to the assumptions that the decision adds.
        ends: reason why no claim is left except that of the private set; None if it ends no claim.
        is_made: function that returns true if settings, by table, ask for it; None: always, or claims have other facts.
        paid_by: part of a claim's text that covers a decision without an assumption of its own.
    """

    name: str
    stage: str
    settings: tuple[str, ...] = ()
    reads: str
    changes: str
    says: Says | None = None
    ends: str | None = None
    is_made: Callable[[Mapping[str, Any]], bool] | None = None
    paid_by: str | None = None

    def is_in_force(self, corpus: CorpusFacts) -> bool:
        """Returns true if a release of the claim made it, as far as it depends on settings."""
        return self.is_made is None or self.name in corpus.decisions


def _before_records(text: str) -> Says:
    """Returns a function that adds the text to all claims whose neighbours are taken before the preparation."""
    return lambda notion, _: () if notion in OF_THE_PRIVATE_SET else (text,)


def _always(*texts: str) -> Says:
    return lambda *_: texts


def _about_held_documents(notion: str, corpus: CorpusFacts) -> list[str]:
    del corpus
    if notion not in OF_THE_PRIVATE_SET:
        return []
    return [
        "documents in another language were left out (split.other_languages = hold), and their text decides which "
        "these are. The claim is about the records that are left. It does not cover what the choice of these records "
        "reveals"
    ]


def _about_names(notion: str, corpus: CorpusFacts) -> list[str]:
    del notion
    if not corpus.has_public_rows:
        return []
    return [
        "if training learnt which speakers and domains have a token (train.min_speaker_rows), or a vocabulary, it "
        "learnt them from public rows alone, and these are the same in both worlds"
    ]


def about_policies(corpus: CorpusFacts) -> list[str]:
    """Returns the assumptions about policies that read, or learnt from, more than the current sentence."""
    found: list[str] = []
    if not (corpus.reads_redacted or corpus.has_public_rows):
        return found
    if corpus.reads_documents:
        found.append(
            Assumption(
                f"these policies look beyond one sentence, at its document: {', '.join(corpus.reads_documents)}. "
                "Masking a secret by hand leaves what they mask in the other sentences as it was",
                {"redaction reads": "document"},
            )
        )
    if corpus.learnt:
        found.append(
            f"these policies learnt from sentences of this corpus: {', '.join(corpus.learnt)}. The claim is about "
            "secrets in its other sentences, for which the policies are fixed. Nothing is promised for a sentence that "
            "they learnt from: a change of it may change what is masked anywhere"
        )
    if corpus.fitted:
        found.append(
            f"these policies were fitted on text: {', '.join(corpus.fitted)}. The claim supposes that none of the "
            "private records was part of it"
        )
    if corpus.plugins:
        found.append(
            f"these policies are plug-ins: {', '.join(corpus.plugins)}. Nobody can check from here whether they keep a "
            "state from one sentence to the next, or were fitted on this corpus. The claim supposes that they do not "
            "keep a state, and were not fitted on this corpus"
        )
    return found


DECISIONS: Final[tuple[Decision, ...]] = (
    Decision(
        name="borders of documents",
        stage="split",
        settings=(
            *("corpus.format", "corpus.source", "corpus.txt_document", "corpus.quoting", "corpus.delimiter"),
            "corpus.column_names",
            *("corpus.mail_quotes", "corpus.mail_signatures", "corpus.mail_text", "corpus.encoding"),
            *("corpus.dialogue_gap_minutes", "corpus.turns_field", "corpus.speaker_field", "corpus.owner_from"),
        ),
        reads="line breaks, blank lines and quotation marks of a file; in chats, times, layout, speakers and names too",
        changes="how the rest of the file is cut into documents and turns, and who speaks; numbers, and folds by these",
        says=_before_records(
            "reading came out the same in both worlds: where a document begins and ends in its file, so how documents "
            "are numbered, and which parts of a mail are left out. In chats this includes the order of dates, who "
            "speaks, the names that other messages gave, and which messages count as notices. A secret that holds a "
            "line break or a quotation mark may change all this"
        ),
    ),
    Decision(
        name="rejected documents",
        stage="split",
        settings=("corpus.max_document_chars", "corpus.owner_missing"),
        reads="the length and the characters of a document",
        changes="whether all of its sentences are there",
        says=_before_records(
            "the same rows and documents are rejected in both worlds. A secret that makes a document too long "
            "(corpus.max_document_chars), or that cannot be read, takes all sentences of its document away"
        ),
    ),
    Decision(
        name="documents in another language",
        stage="split",
        settings=("split.other_languages", "split.languages"),
        reads="the first 400 words of a document",
        changes="whether all of its sentences are there",
        says=_about_held_documents,
        ends="split.other_languages = hold: one secret may decide whether its whole document is left out, so it "
        "changes as many records as that has sentences; set split.other_languages = 'name', and choose documents by "
        "facts about them that do not come from their text",
        is_made=lambda configs: configs["split"].other_languages == "hold",
    ),
    Decision(
        name="sentences of a document",
        stage="split",
        settings=("split.mode", "split.model", "split.language", "split.max_sentence_tokens", "split.cut_fields"),
        reads="lines, tags of speakers and full stops of a document",
        changes="where its other sentences begin and end, and how its speakers are numbered",
        says=_before_records(
            "splitting into sentences came out the same in both worlds: where a sentence ends, where an over-long one "
            "is cut, and what is taken for a dialogue. A secret may change all this"
        ),
    ),
    Decision(
        name="stop by rejected rows",
        stage="split",
        settings=("corpus.max_rejected_fraction",),
        reads="how many rows are rejected, and whether any is left to train on",
        changes="whether the run ends; then it publishes nothing",
        paid_by="for another reason that lies in the text",
    ),
    Decision(
        name="copies",
        stage="dedup_resolve",
        settings=(
            *("dedup.mode", "dedup.normalise", "dedup.verify", "dedup.unit", "dedup.against", "dedup.min_tokens"),
            *("dedup.backend", "dedup.false_positive_rate", "dedup.expected_items", "dedup.hash_seed"),
        ),
        reads="whether a sentence stands elsewhere",
        changes="which copy is masked, in any document",
        paid_by="the claim is about the corpus",  # how many records change is the size of the group
    ),
    Decision(
        name=COPIES_BY_PERSON,
        stage="dedup_resolve",
        settings=("dedup.scope",),
        reads="whether a sentence stands elsewhere in the text of the same person",
        changes="which copy is masked, in any document of this person",
        says=_before_records(
            "copies of a sentence by different people are all kept (dedup.scope = owner). A secret in k copies is a "
            "group of k"
        ),
        is_made=lambda configs: configs["dedup"].scope == "owner",
    ),
    Decision(
        name="what policies read beyond a sentence",
        stage="redact",
        settings=(
            "redact.policies",
            "redact.conservative",
            "redact.also_levels",
            "redact.options",
            "redact.classifier",
        ),
        reads="other sentences of the document and the names of its speakers, or sentences that a policy learnt from",
        changes="what is masked in them",
        says=lambda notion, corpus: [] if notion in OF_THE_PRIVATE_SET else about_policies(corpus),
    ),
    Decision(
        name="language of a document",
        stage="redact",
        settings=("redact.language_of", "redact.models", "redact.language"),
        reads="the first 400 words of a document",
        changes="which models read its sentences, and whether all of them are masked",
        says=_before_records(
            "the languages of each document came out the same in both worlds (redact.language_of = document). The "
            "words of a secret may change them, and so change which models read the document's other sentences, or "
            "whether these are masked whole"
        ),
        is_made=lambda configs: configs["redact"].language_of == "document",
    ),
    Decision(
        name="surrogates by document",
        stage="redact",
        settings=(
            *("redact.replacement", "redact.surrogate_scope", "redact.surrogate_persons", "redact.shift_dates"),
            "redact.day_first",
        ),
        reads="which copy of a sentence is the first",
        changes="which document's surrogate stands in the copy that is kept",
        paid_by="the claim is about the corpus",
    ),
    Decision(
        name="stop by language",
        stage="redact",
        settings=("redact.check_language",),
        reads="the words of a partition",
        changes="whether the run ends; then it publishes nothing",
        paid_by="for another reason that lies in the text",
    ),
    Decision(
        name="noise by a measured rate",
        stage="estimate",
        settings=("train.jft_miss_rate", "train.jft_miss_rate_basis"),
        reads="how many secrets redaction missed",
        changes="the noise of phase 1, for all records",
        paid_by=NOISE_FROM_PRIVATE_TEXT,
    ),
    Decision(
        name="held rows",
        stage="gate",
        settings=(
            *("gate.enabled", "gate.on_hit", "gate.labels", "gate.min_characters", "gate.everyday_words"),
            *("gate.case_sensitive", "gate.ignore"),
        ),
        reads="which strings are masked anywhere",
        changes="which other rows are private",
        says=about_held_rows,
    ),
    Decision(
        name="stop by the gate",
        stage="gate",
        settings=("gate.max_held_fraction",),
        reads="how many rows hold a masked string",
        changes="whether the run ends; then it publishes nothing",
        says=_always(
            "everybody can see, without noise, whether the gate stopped a run. So it must be no secret in itself which "
            "strings were masked, and whether one of them stands in what is published"
        ),
    ),
    Decision(
        name="names and vocabulary",
        stage="train",
        settings=(
            "train.min_speaker_rows",
            "train.speakers",
            "train.domains",
            "train.domain_tokens",
            "train.tokenizer",
            "train.vocab_size",
        ),
        reads="public rows, and how many there are of a speaker",
        changes="how every record is read",
        says=_about_names,
    ),
    Decision(
        name="nights that train",
        stage="train",
        settings=("train.when",),
        reads="how much of the input changed since the last training",
        changes="whether there is a training, and so a release, of all records",
        says=_always(
            "which runs train depends on how much of the input came and went (train.when, changed). The claim supposes "
            "that the same runs train in both worlds. It does not cover what the fact that a run trained reveals"
        ),
        is_made=lambda configs: (when := configs["train"].when) is not None and when.changed is not None,
    ),
    Decision(
        name="numbers of records",
        stage="train",
        settings=("train.expected_batch_size", "train.epochs", "train.target_epsilon"),
        reads="how many rows are private, and how many public",
        changes="rate, steps and noise, for all records",
        paid_by="the number of private records is the same in neighbouring data sets",
    ),
    Decision(
        name="records of several sentences",
        stage="train",
        settings=(
            *("train.record", "train.sentences_per_block", "train.conversation_tokens"),
            *("train.unit", "train.owner_records"),
        ),
        reads="how many sentences a document has, and which are copies",
        changes="which sentences share a record, in the rest of the document",
        paid_by="splitting into sentences came out the same in both",
    ),
    Decision(
        name="stop of the training",
        stage="train",
        reads="losses, gradients, and whether those of one record depend on others",
        changes="whether the run ends; then it publishes nothing",
        says=_always(
            "a run that stops because a private gradient is not a finite number says so without noise. No run on these "
            "records stopped for that reason",
            "a run may also stop for another reason that lies in the text: too many rejected rows "
            "(corpus.max_rejected_fraction), another language (redact.check_language), or records whose gradients "
            "depend on others. Whether it stopped shows without noise. A run that stops publishes nothing",
        ),
    ),
)
"""All decisions, in the order of the stages."""

NO_DECISIONS: Final[Mapping[str, str]] = {
    "dedup_keys": "a key is made from one sentence, or one document where that is the unit; `dedup_resolve` decides",
    "dedup_buckets": "finds copies; what follows from them is decided by `dedup_resolve`",
    "dedup_mask": "writes down the decisions of `dedup_resolve`",
    "sample": "draws sentences by public randomness, whatever they say; only `estimate` reads them",
    "stability": "measures, for claims on the trusted side; what is published is the same whatever it found",
    "gate_strings": "lists what is masked; `gate` decides",
    "shard": "a row is private by its own masks and flags, and by what `gate` holds",
    "publish": "publishes public rows by settings alone, in the order of a hash of each",
    "train_phase1": "as `train`; its noise may follow from `estimate`",
    "evaluate": "scores the finished model on held-out text, which is public by assumption; nothing is chosen by it",
    "train_utility": "scores what the policies found in held-out text, for the trusted side",
    "guarantee": "states claims; whoever chooses among models says by what (guarantee.chosen_by)",
    "report": "shows figures; counts and rates are public only where settings say so, and then claims are withheld",
    "audit_model": "belongs to an audit, which publishes nothing",
    "audit_membership": "belongs to an audit, which publishes nothing",
    "audit_extraction": "belongs to an audit, which publishes nothing",
    "audit_canaries": "belongs to an audit, which publishes nothing",
    "audit_secrets": "belongs to an audit, which publishes nothing",
    "audit_domain_models": "belongs to an audit, which publishes nothing",
    "audit_domains": "belongs to an audit, which publishes nothing",
    "audit": "belongs to an audit, which publishes nothing; what it found is in the report of the trusted side",
    "synthesize_rows": "reads the released model and public settings alone",
    "synthesize": "reads the released model and public settings alone; what is left out follows from public policies",
    "synthesize_check": "counts for the trusted side; nothing that is published reads it",
}
"""Stages without such a decision, each with the reason."""


def made(configs: Mapping[str, Any]) -> frozenset[str]:
    """Returns the names of the decisions that settings ask for and that not every run makes.

    Args:
        configs: settings tables ``split``, ``dedup``, ``redact`` and ``train``.
    """
    return frozenset(d.name for d in DECISIONS if d.is_made is not None and d.is_made(configs))


def about_decisions(notion: str, corpus: CorpusFacts) -> list[str]:
    """Returns the assumptions that decisions add to a claim."""
    return [text for d in DECISIONS if d.says is not None and d.is_in_force(corpus) for text in d.says(notion, corpus)]


def ended_by(notion: str, corpus: CorpusFacts) -> str | None:
    """Returns why decisions allow no such claim; None if they allow it."""
    if notion in OF_THE_PRIVATE_SET:
        return None
    return "; ".join(d.ends for d in DECISIONS if d.ends is not None and d.is_in_force(corpus)) or None
