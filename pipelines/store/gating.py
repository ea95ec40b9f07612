"""What no stage may skip: its public files are searched before they are published."""

from __future__ import annotations

from pipelines.context import StageContext


def search_public_files(context: StageContext) -> None:
    """Searches what a stage has put into its public folder for the strings that the gate lists.

    The gate has searched the rows that will be public before any of them was written; this looks at what was written
    indeed: tables, tokenizer, model card, configuration, reports, and the files' names. Weights are left out, and so is
    what a pretrained model's vocabulary and configuration held before (`Output.basis`).

    Raises:
        PrivacyGateError: one of the strings stands there. Nothing of the stage is published.
    """
    gates = context.inputs.get("gate", ())
    if context.out.public_folder is None or not gates:
        return
    from pipelines.gate.files import search_folder
    from pipelines.gate.search import Hits
    from pipelines.gate.tables import GATE_INDEX

    gate = gates[0]
    figures = gate.json("figures.json")
    if not figures["enabled"]:
        return
    context.run.progress(0, None, "searching what is to be published")
    hits = Hits()
    search_folder(
        context.out.public_folder,
        gate.table(GATE_INDEX, "index"),
        case_sensitive=figures["case_sensitive"],
        hits=hits,
        basis=context.out.basis,
    )
    if hits.by_label:
        raise hits.refuse(f"nothing of stage {context.stage}", context.out.failures)
