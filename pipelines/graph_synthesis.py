"""The stages of synthetic text, which the released model writes. Runs build them only if the settings ask for it."""

from __future__ import annotations

from pipelines.graph_names import MODEL_PACKAGES, PRIVATE_SYNTHETIC, PUBLIC, REDACTED, SENTENCES, STAGES, SYNTHETIC
from pipelines.settings.tables import settings_of
from pipelines.stage import Input, Stage, Table

_OF_ROWS = (
    *("turns", "domains", "speakers", "lengths", "temperature", "top_p", "max_new_tokens", "seed", "filter"),
    "batch_size",
)
_CONFIGS = settings_of("synthesize", "train")
SYNTHESIS_STAGES = (
    Stage(
        name="synthesize_rows",
        title="The released model writes a piece of the synthetic table, to a public plan.",
        table="synthesize",
        step="rows",
        module=f"{STAGES}.synthesize.rows",
        configs=_CONFIGS,
        fields={"synthesize": _OF_ROWS},
        inputs=(Input("train"),),
        partitioned=True,
        own_partitions=True,
        packages=(*MODEL_PACKAGES, "pyarrow"),
        optional=True,
    ),
    Stage(
        name="synthesize",
        title="Publish the synthetic table with its claim: the model's, by post-processing, or none.",
        table="synthesize",
        module=f"{STAGES}.synthesize.synthesize",
        configs=_CONFIGS,
        fields={"synthesize": _OF_ROWS},
        inputs=(Input("synthesize_rows", partitions="all"), Input("train", ("events.json",)), Input("guarantee")),
        roots=("private", "public"),
        is_post_processed=True,
        packages=("pyarrow",),
        tables=(Table("synthetic", SYNTHETIC, "public"), Table("private_synthetic", PRIVATE_SYNTHETIC)),
        optional=True,
    ),
    # No published stage reads it, because it counts private text.
    Stage(
        name="synthesize_check",
        title="Count, on the trusted side, what of the private text stands in the synthetic table.",
        table="synthesize",
        step="check",
        module=f"{STAGES}.synthesize.check",
        configs=_CONFIGS,
        fields={"synthesize": (*_OF_ROWS, "rows", "replay_words", "baseline_rows", "downstream_steps")},
        inputs=(
            Input("synthesize", (SYNTHETIC, PRIVATE_SYNTHETIC)),
            Input("train"),
            Input("gate", ("index.parquet", "figures.json")),
            Input("split", (SENTENCES,), "all"),
            Input("redact", (REDACTED,), "all"),
            Input("publish", (PUBLIC,), "all"),
        ),
        packages=(*MODEL_PACKAGES, "scipy", "pyarrow"),
        tables=(Table("synthetic_finds", "finds.parquet"),),
        optional=True,
    ),
)
