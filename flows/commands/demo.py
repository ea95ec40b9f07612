"""``reticent demo``: a tour of the built-in job, from an empty folder to a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.commands.init import write_starter
from flows.commands.plan import run_text
from flows.commands.run import run_job


def run_demo(folder: Path, *, dialogues: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Writes the built-in corpus, runs the job, and returns its record. Continues an interrupted demo."""
    config = folder / "reticent.toml"
    if config.exists():
        say(f"1. {config} exists already: continuing with it.")
    else:
        say(
            f"1. Writing {dialogues:,} synthetic dialogues with known secrets (names, addresses, order numbers), and a "
            f"commented {config}."
        )
        write_starter(folder, [], dialogues=dialogues, seed=0)
    say(
        "2. Running the job: read and split the text, mask repeats and secrets, search the public part for secrets, "
        "measure the misses, train a small model (on the public part, then with noise on the private part), and state "
        "the guarantee."
    )
    record = run_job(config, from_stage=None, only=None, force=[], verify=None)
    say("3. " + run_text(record))
    say(
        "4. Look at the results:\n"
        f"   reticent open {config}                 the report in a browser, with the claims and the misses\n"
        f"   reticent show redacted -c {config}     the text with its masks\n"
        f"   reticent inspect redact -c {config}    the tables, for polars\n"
        f"   reticent ledger {config}               the trained models and their epsilon together\n"
        "   Then change a setting and run again. `reticent plan` shows which stages will run.\n"
        "   Your own text: reticent init my-project --input PATH"
    )
    return record
