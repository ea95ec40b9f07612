"""Speed of the policies that ``reticent init`` writes, against Presidio's batches, with verdicts checked first.

    python benchmarks/default_redaction.py [--data-dir FOLDER] [--sentences 2000] [--rounds 2] [--workers 2]

Texts are turns of MultiDoGO (chat, FOLDER/multidogo) and lines of WikiText-2 (prose, FOLDER/wikitext2), cut into
distinct sentences. Without a folder they are turns of the built-in simulator. Policies are stabilised, as in a run.

First verdicts are compared with those of the plain path: spaCy's own decoder, no memory of vectors or of pieces of
text, and no gate before any pattern. Then contestants take turns on as many other sentences, each round on its own,
because what is read a second time would be remembered. Presidio's `BatchAnalyzerEngine` gets single sentences in
batches of 256, with the same model and recognisers.

Figures are processor seconds, without loading models. For several processes they are those of the busiest one.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common import command_line, write_json
from data_sets import multidogo, simulated, wikitext
from patched import patching
from presidio_analyzer import BatchAnalyzerEngine
from redaction import MODEL, presidio_engine

from flows.commands.init import OWN_POLICIES
from pipelines import entity_decoder, language, thinc_layers
from pipelines.corpus.split import Splitter
from pipelines.policies.detectors import first_pass
from pipelines.policies.detectors import presidio_engine as engine_parts
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Request, Verdict

SPEC = RedactorSpec(
    policies=OWN_POLICIES, options={"model": MODEL, "dates_and_numbers": "careful"}, stabilise=True, reads_original=True
)
BATCH = 256


def sentences(folder: Path | None, count: int) -> dict[str, list[Request]]:
    """Returns distinct sentences of each kind of text, in an order that does not depend on the text."""
    if folder is None:
        sources = {"chat": [text for text, _ in simulated(count // 4, 3)]}
    else:
        sources = {"chat": [text for text, _ in multidogo(folder, "train")], "prose": wikitext(folder, "train")}
    splitter = Splitter(mode="rules", max_sentence_tokens=256)
    chosen: dict[str, list[Request]] = {}
    for name, texts in sources.items():
        random.Random(5).shuffle(texts)
        found: dict[str, Request] = {}
        for cut in splitter.split(texts):
            found |= {s.text: Request(s.text, s.token_starts, s.token_ends) for s in cut}
            if len(found) >= count:
                break
        chosen[name] = list(found.values())[:count]
    return chosen


@contextmanager
def plain_path() -> Iterator[None]:
    """Judges without any short cut inside the ``with`` block."""
    with ExitStack() as stack:
        patch = stack.enter_context(patching())
        patch(entity_decoder, "decoder_of", lambda nlp: None)
        patch(thinc_layers, "remember_vectors", lambda nlp: None)
        patch(language.Annotator, "remember", lambda self, texts: None)
        patch(first_pass, "_words_of", lambda text: (first_pass.EVERY, None))
        patch(engine_parts, "gates", dict)
        _forget_models()
        yield
    _forget_models()


def _forget_models() -> None:
    language.load_pipeline.cache_clear()
    engine_parts.make_analyzer.cache_clear()
    first_pass._known.clear()


def verdicts(requests: Sequence[Request]) -> list[Verdict]:
    """Judges sentences with nothing remembered of them."""
    return Redactor(SPEC.make()).judge(requests)


def processor_seconds(pid: int | str) -> float:
    """Returns the processor seconds of a process, to a hundredth (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_workers(requests: Sequence[Request], warm: Sequence[Request], workers: int) -> float:
    """Returns the processor seconds of the busiest process: one of the workers, or this one."""
    with Redactor(SPEC.make(), SPEC, workers) as redactor:
        redactor.judge(warm)  # starts every worker, and loads its model
        assert redactor._pool is not None
        pids = ["self", *redactor._pool._processes]
        before = [processor_seconds(pid) for pid in pids]
        redactor.judge(requests)
        return max(processor_seconds(pid) - old for pid, old in zip(pids, before, strict=True))


def measured(requests: Sequence[Request], rounds: int, workers: int, batch: BatchAnalyzerEngine) -> dict[str, Any]:
    """Returns the figures of one kind of text."""
    half = len(requests) // 2
    compared, timed = requests[:half], requests[half:]
    ours = verdicts(compared)
    with plain_path():
        differing = sum(a != b for a, b in zip(ours, verdicts(compared), strict=True))
    if differing:
        raise SystemExit(f"{differing} verdicts differ from those of the plain path; no figure is printed")
    warm = compared[: half // 4]
    verdicts(warm)
    list(batch.analyze_iterator([r.text for r in warm], "en", batch_size=BATCH))
    seconds = {"batches": 0.0, "ours": 0.0, "workers": 0.0}
    for number in range(rounds):
        part = timed[number::rounds]
        start = time.process_time()
        list(batch.analyze_iterator([r.text for r in part], "en", batch_size=BATCH))
        middle = time.process_time()
        verdicts(part)
        seconds["ours"] += time.process_time() - middle
        seconds["batches"] += middle - start
    if workers > 1:
        seconds["workers"] = in_workers(timed, warm, workers)
    return {
        "num_sentences": len(timed),
        "num_tokens": sum(len(r.starts) for r in timed),
        "num_verdicts_compared": half,
        "num_verdicts_differ": differing,
        "processor_seconds": {name: round(taken, 2) for name, taken in seconds.items() if taken},
        "times_batches": round(seconds["batches"] / seconds["ours"], 2),
        **({f"{workers}_processes": round(seconds["ours"] / seconds["workers"], 2)} if workers > 1 else {}),
    }


def main() -> None:
    """Prints one JSON document."""
    parser = command_line(__doc__, data_dir=False, out="")
    parser.add_argument("--sentences", type=int, default=2_500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="1 leaves out several processes")
    options = parser.parse_args()
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    batch = BatchAnalyzerEngine(analyzer_engine=presidio_engine())
    document: dict[str, Any] = {"load_average_at_start": os.getloadavg()[0]}
    for name, requests in sentences(options.data_dir, 2 * options.sentences).items():
        document[name] = measured(requests, options.rounds, options.workers, batch)
    print(write_json(options.out, document))


if __name__ == "__main__":
    main()
