"""Public files are searched before they are published. No stage may skip it but what `is_post_processed`."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.artifacts import Artifact, Folder, Output


def search_public_files(stage: str, inputs: Mapping[str, tuple[Artifact, ...]], out: Output, searched: Folder) -> None:
    """Searches files of a stage that are to be public for the strings that the gate lists.

    The gate has searched the rows that will be public before any of them was written. This looks at what was written:
    tables, tokenizer, model card, configuration, reports, and the files' names. It leaves out weights, what the files
    say whatever the text is (`Output.basis`), and our own prose around values that are filled in (`Output.marked`).
    Training has its vocabulary searched before it begins.

    Args:
        stage: whose files they are.
        inputs: of the stage, by stage.
        out: where the stage writes.
        searched: the folder of the files.

    Raises:
        PrivacyGateError: one of the strings stands there. Nothing of the stage is published.
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
