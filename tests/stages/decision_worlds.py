"""Neighbouring corpora for each decision that changes more than its own row, through the real stages.

Each world is a function of a folder and gives what later stages read of two corpora that differ in one secret or
sentence: a Counter of rows, or whether the run ends.
"""

import json
from collections import Counter
from itertools import pairwise

from from_split import Pipeline, corpus
from gate.gate_corpora import through_the_gate
from support.contexts import stage_context
from support.crt_trainings import train
from support.tables import read_table
from support.tiny import all_ids, making, read_tables, tiny_model
from support.training_tables import row_of, write_tables

from pipelines.corpus.rejection import check_rejected
from pipelines.corpus.scan import scan
from pipelines.dp.sampling import plan_private_steps
from pipelines.errors import ConfigError, InputError, PrivacyGateError, StageError
from pipelines.mask import MASK
from pipelines.methods.registry import METHODS
from pipelines.miss_rate.rates import miss_rate_of
from pipelines.policies.english.wrong_language import check_text
from pipelines.policies.protocol import Span
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.gate import GateConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.split import SplitConfig
from pipelines.stages.prepare import split as split_stage
from pipelines.store.upkeep.training_schedule import changed_share
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.models.losses import example_losses

SECRET = b"k" * 32
NAMES = "Ann Lee Kim Roe Poe May Joy Sue Tom Bob"
PLAIN = [f"The office number {at} opens early." for at in range(12)]


class Remembers:
    """A plug-in that masks every word from the one behind "secret" on, in this sentence and those that follow."""

    needs = frozenset()

    def __init__(self, options):
        self.name = options.name
        self.known = set()

    def find(self, sentence):
        words = sentence.tokens()
        self.known |= {after for word, after in pairwise(words) if word == "secret"}
        return [Span(at, at + 1, "NAME", self.name) for at, word in enumerate(words) if word in self.known]


def split_of(folder, content, name="in.jsonl", corpus=None, split=None):
    """The rows of the split table of one file, its figures, and the pieces that it was read in."""
    folder.mkdir(parents=True)
    (folder / name).write_text(content)
    settings = CorpusConfig(**(corpus or {}))
    (part,) = scan(
        [folder / name], base_dir=folder, format=settings.format, options=settings.read_options(),
        partition_documents=settings.partition_documents, secret=SECRET,
    )  # fmt: skip
    configs = {"corpus": settings, "split": SplitConfig(**(split or {}))}
    out = folder / "out"
    split_stage.run(stage_context("split", out, configs, partition=part.name, pieces=part.pieces, secret=SECRET))
    rows = read_table(out / "sentences.parquet", "sentences").to_pylist()
    found = Counter((row["doc_id"], row["text"], row["speaker"], row["fold"]) for row in rows)
    return found, json.loads((out / "figures.json").read_text()), [vars(piece) for piece in part.pieces]


def of_split(folder, one, other, **how):
    return tuple(split_of(folder / name, text, **how)[0] for name, text in (("a", one), ("b", other)))


def jsonl(*texts):
    return "".join(json.dumps({"id": f"d{at}", "text": text}) + "\n" for at, text in enumerate(texts))


def borders(folder):
    text = "My word is {}.\n\n" + "\n\n".join(PLAIN)
    how = {"name": "in.txt", "corpus": {"txt_document": "paragraph"}}
    return of_split(folder, text.format("frob\n\nnix"), text.format(MASK), **how)


def too_long(folder):
    text = " ".join(PLAIN) + " My word is {}."
    how = {"corpus": {"max_document_chars": len(text.format(MASK))}}
    return of_split(folder, jsonl(text.format("frobnixfrobnix")), jsonl(text.format(MASK)), **how)


def other_language(folder):
    text = "{} und der das gelbe Haus steht\nhinten links neben einem Garten voller Rosen Tulpen Nelken Astern"
    found = of_split(folder, jsonl(text.format(NAMES)), jsonl(text.format(MASK)), split={"other_languages": "hold"})
    named = of_split(folder / "named", jsonl(text.format(NAMES)), jsonl(text.format(MASK)))
    assert (named[0] - named[1]).total() == 1  # without holding, the secret's own row changes
    return found


def dialogue(folder):
    turns = "USR: my code is {}\n" + "\n".join(f"SYS: Fine. It is {at} now.\nUSR: Thanks. Bye." for at in range(4))
    return of_split(folder, jsonl(turns.format("frob\nnix")), jsonl(turns.format(MASK)))


def rejected_rows(folder):
    texts = [*PLAIN[:6], "My word is {}."]
    settings = {"max_document_chars": max(map(len, PLAIN[:6])), "max_rejected_fraction": 0.1}

    def ends(name, secret):
        lines = jsonl(*texts[:-1], texts[-1].format(secret))
        figures = split_of(folder / name, lines, corpus=settings)[1]
        return stops(InputError, lambda: check_rejected([figures], settings["max_rejected_fraction"]))

    return ends("a", "frobnix" * 9), ends("b", MASK)


def stops(error, run):
    try:
        run()
    except error:
        return True
    return False


def of_pipeline(folder, one, other, redact=None, dedup=None):
    """What training reads of two corpora, each a list of documents."""
    found = []
    for name, documents in (("a", one), ("b", other)):
        settings = redact or RedactConfig(policies=("digits",), check_language=False)
        pipeline = Pipeline(folder / name, settings, DedupConfig(**(dedup or {})), secret=SECRET)
        rows = pipeline.shards(corpus(*documents))["p0", "private"]
        found.append(Counter((row["speaker"], row["redacted_text"]) for row in rows))
    return tuple(found)


def copies(folder):
    be, go = ("USR", "to be"), ("SYS", "to go")
    return of_pipeline(folder, [[be, be, go]], [[be, go, go]], dedup={"mode": "mask_all"})


def copies_of_a_person(folder):
    """All documents of `of_pipeline` are one person's."""
    be, go = ("USR", "to be"), ("SYS", "to go")
    return of_pipeline(folder, [[be], [be, go]], [[be], [go, go]], dedup={"mode": "mask_all", "scope": "owner"})


def propagated(folder):
    redact = RedactConfig(policies=("propagate", "regex"), patterns={"NAME": "(?<=am )[A-Z]\\w+"}, check_language=False)
    rest = [f"so {word} Kim" for word in ("says", "is", "has", "was")]
    return of_pipeline(folder, [["I am Kim", *rest]], [[f"I am {MASK}", *rest]], redact)


def language_of_document(folder):
    """A secret that makes a document German, for which there is no model."""
    redact = RedactConfig(policies=("digits",), language_of="document")
    rest = [f"{name} {at}" for at, name in enumerate(NAMES.split())]
    return of_pipeline(folder, [["und der das nicht wir", *rest]], [[MASK, *rest]], redact)


def remembered(folder):
    redact = RedactConfig(policies=(f"{__name__}:Remembers",), stabilise=False, check_language=False)
    rest = [[f"{word} Kim"] for word in ("see", "call", "ask")]
    return of_pipeline(folder, [["a secret Kim"], *rest], [[f"a secret {MASK}"], *rest], redact)


def surrogates(folder):
    redact = RedactConfig(
        policies=("regex",), patterns={"NAME": "Kim\\w*"}, replacement="surrogate", check_language=False
    )
    rest = [["ask Kim"], ["ask Kim", "so"]]
    return of_pipeline(folder, [["ask Kim"], *rest], [["so it is"], *rest], redact)


def wrong_language(folder):
    german, english = "und der Garten ist voller Rosen und Tulpen", "it was in the garden that is to be"
    for count in range(60):  # where one sentence decides
        rest = [german] * 30 + [english] * count
        one, other = ([secret, *rest] for secret in (english, MASK))
        if stops(ConfigError, lambda rows=one: check_text(rows, "en")) != stops(
            ConfigError, lambda rows=other: check_text(rows, "en")
        ):
            break

    def ends(name, rows):
        run = Pipeline(folder / name, RedactConfig(policies=("digits",)), secret=SECRET)
        return stops(ConfigError, lambda: run.shards(corpus(rows)))

    return ends("a", one), ends("b", other)


def measured_noise(folder):
    rates = []
    for name, secret in (("a", "[frobnix]{WORD}"), ("b", MASK)):
        pipeline = Pipeline(folder / name, RedactConfig(policies=("digits",), check_language=False))
        pipeline.shards(corpus([f"my word is {secret}", "my code is [4321]{CODE}"]))
        rates.append(miss_rate_of(pipeline.measured()).value)
    return tuple(Counter({(record, rate): 1 for record in range(9)}) for rate in rates)  # the noise of every record


def through_gate(folder, secret, **settings):
    masked = [(f"dear {secret}", [(5, 5 + len(secret))], False)] if secret != MASK else [(f"dear {MASK}", [], False)]
    rows = [*masked, *((f"{word} Zedekiah", [], False) for word in ("see", "call", "ask", "meet"))]
    found = through_the_gate(folder, [rows], GateConfig(**{"max_held_fraction": 1.0, **settings}))
    return Counter(row["redacted_text"] for row in found.public)


def held(folder):
    return through_gate(folder / "a", "Zedekiah"), through_gate(folder / "b", MASK)


def gate_stops(folder):
    def ends(name, secret):
        return stops(PrivacyGateError, lambda: through_gate(folder / name, secret, max_held_fraction=0.1))

    return ends("a", "Zedekiah"), ends("b", MASK)


def reads(folder, rows, method, **how):
    how = {"make_encoder": lambda vocabulary: RecordEncoder(vocabulary, 400), "view": METHODS[method].view, **how}
    return read_tables(write_tables(folder, rows), folder, make_vocabulary=making("bytes"), **how)


def names(folder):
    def world(name, first):
        rows = [row_of(f"d{at}", 0, text, "BOSS") for at, text in enumerate([first, *PLAIN[:3]])]
        return Counter(map(tuple, all_ids(reads(folder / name, rows, "crt", min_speaker_rows=4).nonprivate_examples)))

    return world("a", "my word is frobnix"), world("b", "my word is {frobnix}")


def nights(folder):
    before, one, other = (
        split_of(folder / str(at), jsonl(*PLAIN, f"my word is {secret}"))[2]
        for at, secret in enumerate(("frobnix", "frobnix", MASK))
    )
    return changed_share(before, one) >= 0.5, changed_share(before, other) >= 0.5


def number_of_records(folder):
    redact = RedactConfig(policies=("digits",), conservative="digits", check_language=False)
    one, other = ([["my word is frobnix", "so it is", *PLAIN]], [[f"my word is {MASK}", "so it is", *PLAIN]])
    found = []
    for rows in of_pipeline(folder, one, other, redact):
        plan = plan_private_steps(rows.total(), 2, 1)
        found.append(Counter({(row, plan.sample_rate, plan.num_steps): num for row, num in rows.items()}))
    return tuple(found)


def blocks(folder):
    def world(name, sentences):
        rows = [row_of("d", at, text) for at, text in enumerate(sentences)]
        unit = RecordUnit(kind="block", sentences_per_block=2)
        return Counter(map(tuple, all_ids(reads(folder / name, rows, "dpsgd", unit=unit).private_examples)))

    return world("a", ["my word is frob.", "Nix.", *PLAIN]), world("b", ["my word is it.", *PLAIN])


def training_stops(folder):
    """A loss that overflows for one record ends the training of all."""

    def losses(model, batch):
        found = example_losses(model, batch)
        return found / (batch.weights > 0).sum(1).le(12).to(found.dtype)

    def ends(name, secret):
        (folder / name).mkdir()
        private = [(f"my word is {secret} <MASK>", "USR"), *[("hi <MASK>", "USR")] * 7]
        return stops(StageError, lambda: train(folder / name, tiny_model(), [], private, losses=losses))

    return ends("a", "frobnix" * 9), ends("b", MASK)


WORLDS = {
    "borders of documents": borders,
    "rejected documents": too_long,
    "documents in another language": other_language,
    "sentences of a document": dialogue,
    "stop by rejected rows": rejected_rows,
    "copies": copies,
    "copies of a person": copies_of_a_person,
    "what policies read beyond a sentence": propagated,
    "language of a document": language_of_document,
    "surrogates by document": surrogates,
    "stop by language": wrong_language,
    "noise by a measured rate": measured_noise,
    "held rows": held,
    "stop by the gate": gate_stops,
    "names and vocabulary": names,
    "nights that train": nights,
    "numbers of records": number_of_records,
    "records of several sentences": blocks,
    "stop of the training": training_stops,
}
"""By the name of the decision (`pipelines.accounting.decisions.DECISIONS`)."""
