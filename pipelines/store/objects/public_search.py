"""The search of public files before they are published. Only stages with `is_post_processed` skip it."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.artifacts import Artifact, Folder, Output


def search_public_files(stage: str, inputs: Mapping[str, tuple[Artifact, ...]], out: Output, searched: Folder) -> None:
    """Searches the files that a stage is about to publish for the strings that the gate lists.

    The gate has searched the public rows before they were written. This function searches what was actually written:
    tables, tokenizer, model card, configuration, reports, and the files' names. It leaves out weights, content that
    does not depend on the text (`Output.basis`), and our own prose around filled-in values (`Output.marked`). Training
    has its vocabulary searched before it begins.

    Raises:
        PrivacyGateError: a file holds one of the strings. Nothing of the stage is published.
    """
    gates = inputs.get("gate", ())
    if not gates:
        return
    from pipelines.gate.files import search_folder
    from pipelines.gate.search import Hits
    from pipelines.gate.tables import GATE_INDEX

    gate = gates[0]
    figures = gate.json("figures.json")
    if not figures["enabled"]:
        return
    hits = Hits()
    search_folder(
        searched.folder,
        gate.table(GATE_INDEX, "index"),
        case_sensitive=figures["case_sensitive"],
        hits=hits,
        basis=out.basis,
        marked=out.marked.folder,
    )
    if hits.by_label:
        raise hits.refuse(f"nothing of stage {stage}", out.failures)
