"""Settings of ``[dedup]``: the search for duplicate sentences, and the choice of masked copies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.dedup import against
from pipelines.dedup.hash_ranges import MAX_BUCKETS, bucket_names, usual_buckets
from pipelines.errors import ConfigError


class DedupConfig(StageConfig):
    """The search for duplicate sentences, and the choice of masked copies."""

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"max_rows_in_memory", "buckets"})
    LATER: ClassVar[frozenset[str]] = frozenset({"scope"})

    mode: Literal["mask_later", "mask_all"] = Field(
        default="mask_later",
        description="Copies that are masked. mask_later masks every copy from the second on (CRT); mask_all masks the "
        "first copy as well.",
    )
    backend: Literal["bloom", "exact"] = Field(
        default="bloom",
        description="Search for duplicates. bloom: a Bloom filter nominates duplicates, and an exact pass decides "
        "(see verify). exact: every key is compared exactly, with the same decisions and more memory or more passes "
        "(see max_rows_in_memory).",
    )
    unit: Literal["sentence", "document"] = Field(
        default="sentence",
        description="Unit that is compared: sentences, or whole documents (every sentence equal, in order), whose "
        "sentences are all masked. With document, claims about the corpus before deduplication are refused.",
    )
    scope: Literal["corpus", "owner"] = Field(
        default="corpus",
        description="Text that is compared. corpus: all of it, so that one person's text can decide which copy of "
        "another's is masked. owner: the text of each person by itself (corpus.owner_from), so that copies by "
        "different people are all kept. Then a claim about a person can cover their text before deduplication.",
    )
    against: tuple[str, ...] = Field(
        default=(),
        description="Another corpus: absolute paths of files and folders, and patterns (formats by suffix), or "
        "filters (*.bloom) that `reticent dedup-filter` saved. Every copy of its text is masked, whatever the "
        "speaker, domain and label are. It must not be part of the corpus itself.",
    )
    normalise: Literal["none", "whitespace", "casefold"] = Field(
        default="none",
        description="Texts that count as equal: none (exact), whitespace (runs of it are one space), casefold (also "
        "case and compatibility characters). Speaker, domain and label must always be equal. Only none with "
        "mask_later lets one changed sentence change one training record; the other combinations give group size 3.",
    )
    min_tokens: int = Field(
        default=0,
        ge=0,
        description="Fewest tokens of a sentence (with unit document: of a document) that may be a duplicate; 0 sets "
        "no limit.",
    )
    verify: bool = Field(
        default=True,
        description="true checks what the Bloom filter finds by an exact second pass. false is the paper's plain "
        "filter: false positives are masked too, and claims about the corpus before deduplication are refused.",
    )
    false_positive_rate: float = Field(
        default=1e-6,
        ge=1e-15,
        le=0.5,
        description="Highest probability that the Bloom filter takes a new sentence for a seen one.",
    )
    expected_items: int = Field(
        default=1_000_000,
        ge=1,
        description="Distinct sentences that the Bloom filter is sized for. With more sentences it grows, and keeps "
        "its rate.",
    )
    hash_seed: int = Field(
        default=0x52455449, ge=0, le=0xFFFF_FFFF, description="Seed of the 128-bit keys (MurmurHash3 x64-128)."
    )
    max_rows_in_memory: int = Field(
        default=20_000,
        ge=1,
        description="Rows that the exact pass holds at a time, some 200 bytes each. The other rows wait on disk. It "
        "never changes the result.",
    )

    buckets: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BUCKETS,
        description="Ranges of hashes that are compared in parallel, each with its own Bloom filter and process; by "
        "default one for every 1 to 2 GiB of input, up to 256. It never changes the result. With verify = false or "
        "against there is one.",
    )

    @field_validator("against")
    @classmethod
    def _absolute(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        if not all(Path(path).is_absolute() for path in paths):
            raise ValueError("every path must be absolute")
        return paths

    @model_validator(mode="after")
    def _check_mode(self) -> DedupConfig:
        if self.backend == "exact" and not self.verify:
            raise ValueError("backend exact leaves nothing to verify; set verify = true")
        if self.mode == "mask_all" and not self.verify:
            raise ValueError("mode mask_all needs verify = true: a plain Bloom filter never finds the first copy")
        if self.unit == "document" and not self.verify:
            raise ValueError("unit document needs verify = true: a plain Bloom filter errs on single sentences")
        if self.scope == "owner" and not self.verify:
            raise ValueError(
                "scope owner needs verify = true: the false positives of one Bloom filter depend on what others wrote"
            )
        if (self.buckets or 1) > 1 and (self.against or not self.verify):
            raise ValueError("with verify = false or against there is one bucket: leave buckets out")
        return self

    def check_scope(self, *, has_owners: bool) -> None:
        """Checks that people are known if the text of each person is compared by itself.

        Raises:
            ConfigError: nobody knows whose text a document is.
        """
        if self.scope == "owner" and not has_owners:
            raise ConfigError(
                "dedup.scope = 'owner' compares the text of each person by itself, and corpus.owner_from = 'none': set "
                "corpus.owner_from to what names the person of a document (docs/corpora.md), or leave dedup.scope out"
            )

    def partition_names(self, input_bytes: int) -> tuple[str, ...]:
        """Returns the buckets. A plain filter has one, because its duplicates depend on all that the filter holds."""
        if not self.verify or self.against:
            return bucket_names(1)
        return bucket_names(self.buckets or usual_buckets(input_bytes))

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Returns the table of documents as an input of the keys, if they cover the owner."""
        if stage != "dedup_keys" or self.scope == "corpus":
            return {}
        return {"split": ("sentences.parquet", "documents.parquet")}

    def data_files(self) -> tuple[str, ...]:
        """Returns the files of the other corpus, which count by content."""
        if not self.against:
            return ()
        return tuple(map(str, against.data_files(self.against)))

    def key_scheme(self, split: Any) -> dict[str, Any]:
        """Returns the settings that the key of a text depends on, for saved filters."""
        by_model = split.mode in ("senter", "parser")
        return {
            "dedup.unit": self.unit,
            "dedup.normalise": self.normalise,
            "dedup.hash_seed": self.hash_seed,
            "split.mode": split.mode,
            "split.model": split.model if by_model else None,
            "split.language": split.language,
            "split.max_sentence_tokens": split.max_sentence_tokens,
        }
