"""Settings of ``[sample]``: the training sentences that people review."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.config import StageConfig


class SampleConfig(StageConfig):
    """The training sentences that people review."""

    replicates: int = Field(
        default=10, ge=1, le=1_000, description="Independent samples; their spread gives the paper's interval."
    )
    fraction: float = Field(
        default=0.0001,
        ge=0,
        le=1,
        description="Share of the training sentences in each replicate. 1 reviews them all: figures are then exact.",
    )
    min_sentences: int = Field(
        default=1, ge=1, description="Fewest sentences in each replicate, if the fraction gives fewer."
    )
    stratify: Literal["none", "domain"] = Field(
        default="none",
        description="domain draws every replicate from each domain on its own, so that small domains are reviewed too.",
    )
    min_sentences_per_domain: int = Field(
        default=1, ge=1, description="With stratify = domain: fewest sentences of each domain in each replicate."
    )
    draw: int = Field(
        default=1,
        ge=1,
        description="Number of the sample: another number draws other sentences, of the same design. You need another "
        "one if a policy was trained on, or chosen by, the sentences of an earlier sample; its reviews stay.",
    )
    large_sentences: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Sentences drawn in addition to the replicates among the large ones, such as lists of names, as a "
        "share of the replicates' sentences. Bounds on gamma and delta2 are far wider without them.",
    )
    screening_fraction: float = Field(
        default=0.001,
        ge=0,
        le=1,
        description="Share of the training sentences in the manual-screening set (JFT, 6.2), a sample of its own that "
        "is reviewed only with `reticent review --screening`.",
    )
