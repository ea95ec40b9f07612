"""The flow of synthetic text: rows from the released model, claims about them, and a check by the trusted side."""

from __future__ import annotations

from prefect import flow

from flows.fit import fit
from flows.running.ending import one_message
from flows.running.lifecycle import run_of
from flows.running.spec import SYNTHESIS
from flows.running.wiring import Outputs, each, whole
from tasks.stages import synthesize as synthesize_stage
from tasks.stages import synthesize_check, synthesize_rows


@flow(name="synthesize", persist_result=False)
@one_message
def synthesize(config: str = "reticent.toml", trained: dict[str, Outputs] | None = None) -> dict[str, Outputs]:
    """Lets a released model write text. Skipped unless the settings ask for it (``synthesize.enabled``).

    Args:
        config: settings file, or specification of a run that has begun
        trained: outputs of the preparation and the training; looked up in the store if not given
    """
    with run_of(config, SYNTHESIS) as run:
        t = trained or fit(run)
        rows = each(synthesize_rows, run, train=t["train"])
        table = whole(synthesize_stage, run, synthesize_rows=rows, train=t["train"], guarantee=t["guarantee"])
        # The trusted side checks the table after its publication: the result decides nothing.
        read = {name: t[name] for name in ("train", "gate", "split", "redact", "publish")}
        return {"synthesize": table, "synthesize_check": whole(synthesize_check, run, synthesize=table, **read)}
