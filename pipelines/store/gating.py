"""What no stage may skip: its public files are searched before they are published."""

from __future__ import annotations

import json

from pipelines.context import StageContext


def search_public_files(context: StageContext) -> None:
    """Searches what a stage has put into its public folder for the strings that the gate lists.

    The gate has searched the rows that will be public before any of them was written; this looks at what was written
    indeed: tables, tokenizer, model card, configuration, reports, and the files' names. Weights are left out, and so is
    what a pretrained model's vocabulary and configuration held before (`StageContext.basis_dir`).

    Raises:
        PrivacyGateError: one of the strings stands there. Nothing of the stage is published.
    """
    gates = context.inputs.get("gate", ())
    if context.public_dir is None or not gates:
        return
    from pipelines.gate.files import search_folder
    from pipelines.gate.search import Hits

    gate = gates[0]
    figures = json.loads(gate.private("figures.json").read_text("utf-8"))
    if not figures["enabled"]:
        return
    context.progress(0, None, "searching what is to be published")
    hits = Hits()
    search_folder(
        context.public_dir,
        gate.private("index.parquet"),
        case_sensitive=figures["case_sensitive"],
        hits=hits,
        basis=context.basis_dir,
    )
    if hits.by_label:
        folder = context.failures_dir or context.scratch_dir
        raise hits.refuse(f"nothing of stage {context.stage}", folder / "hits.parquet")
