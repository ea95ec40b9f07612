"""The stages of synthetic text: what the released model writes. None is built unless the settings ask."""

from __future__ import annotations

from pipelines.graph_names import MODEL_PACKAGES, STAGES, SYNTHESIZE, SYNTHETIC, TRAIN
from pipelines.stage import Input, Stage, Table

_OF_ROWS = (
    *("turns", "domains", "speakers", "lengths", "temperature", "top_p", "max_new_tokens", "seed", "filter"),
    "batch_size",
)
_CONFIGS = {"synthesize": SYNTHESIZE, "train": TRAIN}
SYNTHESIS_STAGES = (
    Stage(
        name="synthesize_rows",
        title="The released model writes a piece of the synthetic table, to a public plan.",
        table="synthesize",
        step="rows",
        module=f"{STAGES}.synthesize_rows",
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
        module=f"{STAGES}.synthesize",
        configs=_CONFIGS,
        inputs=(Input("synthesize_rows", partitions="all"), Input("train", ("events.json",)), Input("guarantee")),
        roots=("private", "public"),
        is_post_processed=True,
        packages=("pyarrow",),
        tables=(Table("synthetic", SYNTHETIC, "public"), Table("private_synthetic", SYNTHETIC)),
        optional=True,
    ),
)
