"""Redaction speed against Presidio and a plain spaCy loop, on equal finds.

    python benchmarks/redaction.py [--data-dir FOLDER] [--sentences 5000] [--rounds 2] [--memory]

Sentences are distinct lines of WikiText-2 (FOLDER/wikitext2/wiki.valid.raw) and turns of CustomerSim
(FOLDER/customersim/valid.jsonl), half each; without a folder, the built-in simulator. First our finds are compared with
those of `AnalyzerEngine.analyze` (type, start, end, score) on every sentence, and our entities with those of spaCy's
own pipeline without its parser.

Policies read the original text once (``redact.stabilise = false``), as Presidio does: with placeholders in place of
finds they find other things, for which there is no `analyze` to compare with. What placeholders cost is measured by
``benchmarks/stability.py``.

Then contestants take turns; the best round of each counts. Every figure is in tokens a second and excludes loading
models. Those of one process are given in processor time as well, which a shared machine disturbs less.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import spacy
from common import command_line, least_seconds, peak_bytes, write_json

from pipelines.corpus.customersim import simulate
from pipelines.corpus.split import Splitter, _cut_stops_off_codes
from pipelines.language import Annotator, load_pipeline, make_doc, model_module
from pipelines.policies.detectors.presidio import PresidioPolicy
from pipelines.policies.detectors.presidio_engine import CONTEXT, make_analyzer
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Judge, Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence

MODEL = "en_core_web_sm"
LEVELS = ("low_entity", "high_entity", "low_contextual", "high_contextual")


def sentences(folder: Path | None, count: int) -> list[Request]:
    """Returns distinct sentences with single spaces, half of them prose and half dialogue."""
    splitter = Splitter(mode="rules", max_sentence_tokens=256)
    if folder is None:
        sources = [[d["text"] for d in simulate(count, 3)]]
    else:
        prose = (folder / "wikitext2" / "wiki.valid.raw").read_text(encoding="utf-8").splitlines()
        dialogues = (folder / "customersim" / "valid.jsonl").read_text(encoding="utf-8").splitlines()
        sources = [prose, [line[5:] for d in dialogues for line in json.loads(d)["text"].splitlines()]]
    chosen: dict[str, Request] = {}
    for texts in sources:
        target = len(chosen) + count // len(sources)
        for found in splitter.split(texts):
            for s in found:
                if "  " not in s.text and s.text not in chosen and len(chosen) < target:
                    chosen[s.text] = Request(s.text, s.token_starts, s.token_ends)
    return list(chosen.values())


def presidio_engine(disable: Sequence[str] = ()) -> Any:
    """Returns Presidio as it is, on a spaCy pipeline of its own, with its e-mail check off the network."""
    engine = make_analyzer.__wrapped__(MODEL, PresidioPolicy.needs | CONTEXT, "en", ())
    engine.nlp_engine.nlp = {"en": spacy_pipeline(disable)}
    return engine


def spacy_pipeline(disable: Sequence[str] = ()) -> spacy.Language:
    """Returns spaCy's own pipeline, with the further rule of our tokens, because other tokens give other finds."""
    nlp = spacy.load(model_module(MODEL), disable=disable)
    _cut_stops_off_codes(nlp)
    return nlp


def differing(requests: Sequence[Request]) -> tuple[int, int]:
    """Counts sentences whose Presidio finds differ, and sentences whose entities differ, each read as one sentence."""
    engine = presidio_engine(["parser"])
    policy = PresidioPolicy(PolicyOptions(name="presidio", model=MODEL))
    annotator = Annotator(load_pipeline(MODEL, policy.needs | {"tagger", "attribute_ruler", "lemmatizer"}))
    recogniser = spacy_pipeline(disable=["parser"])
    num_finds = num_entities = 0
    for at in range(0, len(requests), 512):
        part = requests[at : at + 512]
        docs = [make_doc(annotator.nlp, r.text, r.starts, r.ends) for r in part]
        annotator.annotate(docs, policy.needs)
        for request, doc in zip(part, docs, strict=True):
            sentence = Sentence(request.text, request.starts, request.ends, doc)
            if wanted := policy.wants(sentence):
                annotator.annotate([doc], wanted)
            expected = sorted((r.entity_type, r.start, r.end, r.score) for r in engine.analyze(request.text, "en"))
            num_finds += sorted(policy.analyze(sentence)) != expected
            own = [(e.start_char, e.end_char, e.label_) for e in recogniser(request.text).ents]
            num_entities += own != [(e.start_char, e.end_char, e.label_) for e in doc.ents]
    return num_finds, num_entities


def ours(requests: Sequence[Request], policies: Sequence[str], observed: Sequence[str] = (), workers: int = 1) -> Any:
    """Returns a run over all sentences, after loading models and starting workers."""
    spec = RedactorSpec(policies=tuple(policies), observed=tuple(observed), options={"model": MODEL}, stabilise=False)
    judge: Judge = spec.make()
    judge.judge(requests[:8])
    if workers == 1:
        return lambda: Redactor(judge).judge(requests)
    redactor = Redactor(judge, spec, workers)
    redactor.judge([*requests[:3000]])  # starts every worker and loads its model

    def run() -> None:
        redactor._seen.clear()
        redactor.judge(requests)

    return run


def main() -> None:
    parser = command_line(__doc__, data_dir=False)
    parser.add_argument("--sentences", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one-process", action="store_true", help="leave out those of two processes")
    parser.add_argument("--memory", action="store_true", help="only peak memory, on the sentences and ten times them")
    options = parser.parse_args()
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    requests = sentences(options.data_dir, options.sentences)
    if options.memory:
        print(json.dumps(memory(requests)))
        return
    num_tokens = sum(len(r.starts) for r in requests)
    engine = presidio_engine()
    document: dict[str, Any] = {
        "num_sentences": len(requests),
        "num_tokens": num_tokens,
        "load_average_at_start": os.getloadavg()[0],
    }
    document["num_finds_differ"], document["num_entities_differ"] = differing(requests)
    if document["num_finds_differ"] or document["num_entities_differ"]:
        print(json.dumps(document))
        raise SystemExit("the outputs differ; no figure is printed")
    texts = [r.text for r in requests]
    plain = spacy_pipeline()
    contestants: dict[str, Callable[[], Any]] = {
        "presidio analyze": lambda: [engine.analyze(text, "en") for text in texts],
        "spaCy line by line": lambda: [plain(text) for text in texts],
        "ours presidio, 1 process": ours(requests, ["presidio"]),
        "ours high_entity, 1 process": ours(requests, ["high_entity"]),
        "ours presidio + four levels, 1 process": ours(requests, ["presidio"], LEVELS),
    }
    if not options.one_process:
        contestants |= {
            "ours presidio, 2 processes": ours(requests, ["presidio"], workers=2),
            "ours presidio + four levels, 2 processes": ours(requests, ["presidio"], LEVELS, workers=2),
        }
    from presidio_analyzer import BatchAnalyzerEngine

    batch = BatchAnalyzerEngine(analyzer_engine=engine)
    contestants["presidio BatchAnalyzer, defaults"] = lambda: list(batch.analyze_iterator(texts, "en"))
    if not options.one_process:
        contestants["presidio BatchAnalyzer, batch 256, 2 processes"] = lambda: list(
            batch.analyze_iterator(texts, "en", batch_size=256, n_process=2)
        )
    least = least_seconds(contestants, options.rounds)
    seconds, processor = ({name: pair[which] for name, pair in least.items()} for which in (0, 1))
    document["tokens_per_second"] = {name: round(num_tokens / taken) for name, taken in seconds.items()}
    analyze, loop = seconds["presidio analyze"], seconds["spaCy line by line"]
    separate = analyze + len(LEVELS) * loop
    document["times_analyze"] = {n: round(analyze / s, 2) for n, s in seconds.items() if n != "presidio analyze"}
    document["times_analyze_in_processor_time"] = {
        name: round(processor["presidio analyze"] / taken, 2)
        for name, taken in processor.items()
        if "2 processes" not in name and name != "presidio analyze"
    }
    document["times_separate_runs"] = {n: round(separate / s, 2) for n, s in seconds.items() if "four levels" in n}
    print(write_json(None, document))


def memory(requests: Sequence[Request]) -> dict[str, int]:
    """Measures peak resident MiB after the sentences, and after ten times as many distinct ones, in one process."""
    redactor = Redactor.from_spec(RedactorSpec(policies=("high_entity", "presidio"), options={"model": MODEL}))
    peaks = []
    for copies in (1, 10):
        for copy in range(copies):
            more = f"{copy}{copies}"
            ends = ((r, len(r.text) + 1) for r in requests)
            redactor.judge([Request(f"{r.text} {more}", [*r.starts, at], [*r.ends, at + len(more)]) for r, at in ends])
            redactor._seen.clear()
        peaks.append(peak_bytes() // 2**20)
    return {"peak_mib_once": peaks[0], "peak_mib_ten_times": peaks[1]}


if __name__ == "__main__":
    main()
