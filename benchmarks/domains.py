"""LiRa across three domains of MultiDoGO (Kabra and Elenberg 2023, section 6), on small models. See docs/audit.md.

    OMP_NUM_THREADS=1 nice -n 10 python benchmarks/domains.py --data-dir FOLDER [--work build/domains]
    ... --seed 1                                                              # another training of each model
    ... --prompts media                                                       # Figures 4 to 7; nothing is trained twice
    ... --redacted-by classifier                                              # the classifier masks what is trained on
    ... --without-domain-tokens --models "Public;JFT;Redaction Schedule"      # the ablation of appendix E.3

Every training is a run of the pipeline beside the others, over the rows of some domains; what is done is kept in the
work folder. What differs from the paper: customers' turns only (the files with both sides are not at hand), a GPT-2 of
two blocks that learnt English from WikiText-2, keywords from the corpus's own slots, a small classifier, fewer
conversations. A seed decides what texts are drawn, and all else that may be public; noise and the order of rows are
drawn anew by every training. The claims and what decides them (`CLAIMS`, `MARGIN`) were fixed before the first run.
Writes results/domains.json, with what differs from the above at the end of its name: domains_1.json of another seed,
domains_without_tokens.json, domains_by_classifier.json, domains_media.json, domains_media_1.json, …
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import domains_corpus as data
import numpy as np
from common import RESULTS, command_line, cpu_seconds, heading, write_json, write_lines
from increment import drive_begun

from flows.running.spec import make_spec, open_store, read_corpus
from pipelines.artifacts import Source
from pipelines.attacks import domains
from pipelines.attacks.domain_scores import Judged, Pair, choose_threshold, document, rate_difference
from pipelines.attacks.prompting import Decoding
from pipelines.corpus.tables import SENTENCES
from pipelines.policies.detectors.classifier_training import train_classifier
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.texts import TextJudge
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.overlays import make_overlay
from pipelines.store.objects.session import child_of, make_session, save_spec
from pipelines.training.encoded import Record
from pipelines.training.trained import TrainedModel, open_trained

NUM_FOR_Z: Final = 50
SEEDS: Final = 3
MARGIN: Final = 0.05
"""The difference below which two rates are alike."""
THRESHOLDS: Final = tuple(np.linspace(0.5, 0.99, 50).tolist())
Kind = Literal["above", "like"]
CLAIMS: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("DOMAIN-only", "above", "Redaction Schedule"),
    ("Public", "above", "Redaction Schedule"),
    ("Redaction Schedule", "like", "JFT"),
    ("DOMAIN-only", "above", "JFT"),
    ("DOMAIN-only", "above", "JFT, half the steps"),
    ("DOMAIN-only", "above", "Pub+Redacted"),
    ("Public", "above", "DOMAIN-only"),
    ("Private", "above", "DOMAIN-only"),
)
"""Findings of the paper (Figure 1, section 6.4: all but Private and Public lie below DOMAIN-only)."""
SETTINGS = """
[run]
seed = {seed}
[corpus]
inputs = ["corpus.jsonl"]
[split]
mode = "turns"
[dedup]
min_tokens = 100000  # the paper masks no duplicates
[redact]
{policy}
[gate]
enabled = false
[estimate]
source = "none"
[runtime]
microbatch_size = 32
[train]
task = "dialogue"
model = "{model}"
model_is_public = true
domain_tokens = {tokens}
domains = {domains}
speakers = ["USR"]
context_length = {context}
epochs = {epochs}
jft_phase1_epochs = {epochs}
schedule = "expconcave"
target_epsilon = 8.0
public_batch_size = 8
expected_batch_size = 64
public_learning_rate = 2e-3
private_learning_rate = 2e-3
max_eval_sentences = 200
"""


@dataclass(frozen=True, kw_only=True)
class WrittenOnce(Decoding):
    """A decoding whose texts are written once, and judged by several policies."""

    texts: dict[tuple[int, int], list[list[str]]] = field(default_factory=dict, hash=False, compare=False)

    def write(self, model: TrainedModel, prompts: Sequence[Record], rng: np.random.Generator) -> list[list[str]]:
        """Writes texts as `Decoding` does. Models and lists of prompts are known by identity, and must live longer."""
        key = (id(model), id(prompts))
        if key not in self.texts:
            self.texts[key] = super().write(model, prompts, rng)
        return self.texts[key]


DECODING: Final = WrittenOnce(num=10, max_new_tokens=40, top_k=40, batch_size=250)


def prepare(
    data_dir: Path,
    folder: Path,
    num: int,
    epochs: int,
    seed: int,
    has_tokens: bool,
    num_steps: int = 600,
    redacted_by: str = "keywords",
) -> Path:
    """Writes corpus, initial models and settings, and returns the settings file."""
    config = folder / "reticent.toml"
    if not config.exists():
        rows = [row for d in data.DOMAINS for row in data.conversations(data_dir, d, "train", num)]
        rows += [row for d in data.DOMAINS for row in data.conversations(data_dir, d, "dev", NUM_FOR_Z)]
        rows += [row for d in data.DOMAINS for row in data.conversations(data_dir, d, "test", data.NUM_HELD_OUT)]
        write_lines(folder / "corpus.jsonl", rows)
        models = folder.parent / "models"
        if not (models / "done").exists():
            data.write_model(data.public_lines(data_dir), models / "gpt2", num_steps)
            data.write_classifier_base(data_dir, models / "bert")
            (models / "done").touch()
        said = [(text, row["domain"]) for row in rows if row["fold"] == "train" for text in data.turns_of(row)]
        base = str(models / "bert")
        learnt = train_classifier(said, folder / "classifier", base=base, epochs=2, learning_rate=1e-3)
        print(f"classifier: {learnt['held_out_accuracy']:.1%} of held-out windows", flush=True)
        settings = SETTINGS.format(
            policy=_policy(redacted_by, data_dir, folder), model=models / "gpt2", tokens=json.dumps(has_tokens),
            domains=json.dumps(data.DOMAINS if has_tokens else []), context=data.CONTEXT, epochs=epochs, seed=seed,
        )  # fmt: skip
        config.write_text(settings, encoding="utf-8")
    return config


def _policy(name: str, data_dir: Path, folder: Path) -> str:
    """Returns the settings of the policy that masks what is trained on."""
    if name == "classifier":
        return f'policies = ["classifier"]\nclassifier = "{folder / "classifier"}"'  # at 0.96, as in the authors' code
    listed = ", ".join(f"{domain} = {json.dumps(words)}" for domain, words in data.keywords(data_dir)[0].items())
    return f'policies = ["keywords"]\nkeywords = {{{listed}}}'


@dataclass
class Trainings:
    """Trainings of models on the rows of some domains, once each."""

    config: Path

    def __post_init__(self) -> None:
        settings = load_settings(self.config, {})
        self._roots = open_store(settings)
        self._spec = make_spec(settings, read_corpus(settings, self._roots, read=True))
        self._epochs = int(self._spec.settings["train"]["epochs"])
        self._overlays: dict[tuple[str, ...], str | None] = {data.DOMAINS: None}
        self.rows: list[dict[str, Any]] = []
        self.perplexity: dict[str, float] = {}

    def model(self, needed: domains.NeededModel) -> TrainedModel:
        started = cpu_seconds()
        if needed.domains not in self._overlays:
            learnt = [row for row in self.rows if row["fold"] == "train"]
            excluded = {(row["doc_id"], None) for row in learnt if row["domain"] not in needed.domains}
            self._overlays[needed.domains] = make_overlay(make_session(self._spec), (), excluded)
        epochs = max(1, round(self._epochs * needed.num_steps_factor))
        train = {"method": needed.method, "epochs": epochs, "jft_phase1_epochs": epochs}
        overlay, run_id = self._overlays[needed.domains], runs.new_run_id()
        spec = child_of(self._spec, run_id, purpose="comparison", changes={"train": train}, overlay=overlay)
        keys: dict[str, list[str]] = {}
        for outcome in drive_begun(str(save_spec(make_session(spec)))):
            keys.setdefault(outcome.stage, []).append(str(outcome.key))
        folders = [self._roots.object_dir(root, "train", *keys["train"]) for root in ("private", "public")]
        if not self.rows:
            folders_of = [self._roots.object_dir("private", "split", key) for key in keys["split"]]
            tables = [Source(folder=folder).table(SENTENCES) for folder in folders_of]
            self.rows = [row for t in tables for row in t.rows(("doc_id", "text", "speaker", "domain", "fold"))]
        scored = self._roots.private_files("evaluate", *keys["evaluate"]).find_json("figures.json")
        self.perplexity[needed.name] = (scored or {})["perplexity"]
        print(f"{needed.name}: {cpu_seconds() - started:.0f} s, {cpu_seconds():.0f} s in all", flush=True)
        (found,) = [path.parent for folder in folders for path in folder.rglob("reticent.json")]
        return open_trained(found, device="cpu")


@dataclass
class Attacks:
    """Attacks on every model after the same prompts, judged by one policy after the other."""

    trainings: Trainings
    names: Sequence[str]
    prompted: Sequence[str]
    has_tokens: bool
    seed: int

    def __post_init__(self) -> None:
        everything, train = domains.needed_models(data.DOMAINS), self.trainings.model
        leaked = [domain for domain in data.DOMAINS if set(self.prompted) - {domain}]
        self.models = {name: train(everything[name]) for name in self.names}
        self.only = {name: train(needed) for name, needed in domains.needed_domain_only(self.prompted).items()}
        self.references = {name: train(domains.needed_references(data.DOMAINS)[name]) for name in leaked}
        self.prompts, self._for_z = self._prompts("test", data.NUM_HELD_OUT), self._prompts("valid", NUM_FOR_Z)
        self._attacked: dict[str, dict[Pair, Judged]] = {}

    def _prompts(self, fold: str, num: int) -> dict[str, domains.Prompts]:
        rows = [row for row in self.trainings.rows if row["fold"] == fold]
        found = {}
        for number, domain in enumerate(self.prompted):
            drawn = domains.dialogue_prompts(
                rows, domain, np.random.default_rng(number), num_conversations=num, num_prompts=1
            )
            drawn = drawn if self.has_tokens else drawn.without_domain_tokens()
            found[domain] = drawn.fitted(DECODING.max_new_tokens + 2, *self.models.values())
        return found

    def _drawing(self, number: int) -> np.random.Generator:
        """Returns a generator for texts; that of seed 0 is older than the seeds."""
        return np.random.default_rng(number if self.seed == 0 else (number, self.seed))

    def targets(self, name: str) -> Mapping[str, TrainedModel]:
        """Returns the model of each domain of prompts: DOMAIN-only is another one for each."""
        return self.only if name == "DOMAIN-only" else dict.fromkeys(self.prompted, self.models[name])

    def unscored(
        self, name: str, prompts: Mapping[str, domains.Prompts], policies: domains.LabelledPolicies
    ) -> dict[Pair, Judged]:
        """Judges the texts of one model, without likelihood ratios."""
        found: dict[Pair, Judged] = {}
        for domain, target in self.targets(name).items():
            whoever = dict.fromkeys(self.references, target)
            given = {domain: prompts[domain]}
            found |= domains.attack_references(whoever, given, policies, DECODING, self._drawing(30))
        return found

    def judged(self, name: str, policies: domains.LabelledPolicies) -> dict[Pair, Judged]:
        """Judges the texts of one model after the test prompts; likelihood ratios are computed only once."""
        found = self.unscored(name, self.prompts, policies)
        if name not in self._attacked:
            scored: dict[Pair, Judged] = {}
            for domain, target in self.targets(name).items():
                given = {domain: self.prompts[domain]}
                rng = self._drawing(30)
                scored |= domains.attack(target, given, policies, DECODING, rng, references=self.references)
            self._attacked[name] = scored
        return {pair: replace(judged, lira=self._attacked[name][pair].lira) for pair, judged in found.items()}

    def figures(self, policies: domains.LabelledPolicies, *, chooses_z: bool) -> dict[str, Any]:
        chosen = None
        if chooses_z:
            both = (self.unscored(name, self._for_z, policies).values() for name in ("Public", "DOMAIN-only"))
            chosen = choose_threshold(*both, THRESHOLDS)
        z = 0.0 if chosen is None else chosen.value
        of_references = domains.attack_references(self.references, self.prompts, policies, DECODING, self._drawing(10))
        judged = {name: self.judged(name, policies) for name in ("DOMAIN-only", *self.names)}
        rng = np.random.default_rng(40)
        claims = []
        for first, kind, second in CLAIMS:
            if first in judged and second in judged:
                difference, low, high = rate_difference(judged[first], judged[second], z, rng)
                told = {"first": first, "kind": kind, "second": second, "verdict": verdict(kind, low, high)}
                claims.append({**told, "difference": difference, "low": low, "high": high})
        return {
            "z": None if chosen is None else vars(chosen),
            "models": [
                {"name": name, "perplexity": self.trainings.perplexity.get(name), **document(pairs, of_references, z)}
                for name, pairs in judged.items()
            ],
            "claims": claims,
        }

    def words(self) -> dict[str, float]:
        """Returns the words a text of each model, over the test prompts."""
        found = {}
        for name in ("DOMAIN-only", *self.names):
            targets = self.targets(name)
            keys = [(id(targets[domain]), id(given.records)) for domain, given in self.prompts.items()]
            texts = [text for key in keys for each in DECODING.texts[key] for text in each]
            found[name] = sum(len(text.split()) for text in texts) / len(texts)
        return found


def verdict(kind: Kind, low: float, high: float) -> str:
    """Returns the verdict on a claim from an interval of the difference of two rates."""
    if kind == "above":
        holds, fails = low > 0, high < 0
    else:
        holds, fails = low > -MARGIN and high < MARGIN, low > MARGIN or high < -MARGIN
    return "holds" if holds else "does not hold" if fails else "cannot be told"


def markdown(by_policy: Mapping[str, Any]) -> str:
    lines = []
    for policy, found in by_policy.items():
        lines += [f"policy {policy}, z = {found['z']}"]
        lines += heading("model", "perplexity", "success rate", "suspicious", "C")
        for row in found["models"]:
            hits, units = (sum(pair["rate"][of] for pair in row["pairs"]) for of in ("num_hits", "num_units"))
            odd, asked = (
                sum(pair["rate_most_suspicious"][of] for pair in row["pairs"]) for of in ("num_hits", "num_units")
            )
            perplexity = "" if row["perplexity"] is None else f"{row['perplexity']:.1f}"
            value, high = ("none" if row["c"][of] is None else f"{row['c'][of]:.1f}" for of in ("value", "high"))
            lines.append(
                f"| {row['name']} | {perplexity} | {hits / units:.1%} | {odd / asked:.1%} "
                f"| {value} ({row['c']['low']:.1f} – {high}) |"
            )
        for claim in found["claims"]:
            lines.append(
                f"| {claim['first']} {claim['kind']} {claim['second']} | {claim['difference']:+.1%} "
                f"({claim['low']:+.1%} – {claim['high']:+.1%}) | {claim['verdict']} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = command_line(__doc__, data_dir=True, work="build/domains")
    parser.add_argument("--conversations", type=int, default=300, help="number of each domain, to train on")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=600, help="training steps of the public model")
    parser.add_argument("--models", help="names of needed_models, Public among them, with semicolons; all if not given")
    parser.add_argument("--prompts", default=data.DOMAINS[0], choices=data.DOMAINS, help="what models are asked about")
    parser.add_argument("--redacted-by", default="keywords", choices=("keywords", "classifier"))
    parser.add_argument("--seed", type=int, default=0, choices=range(SEEDS))
    parser.add_argument("--without-domain-tokens", action="store_true")
    args = parser.parse_args()
    names = tuple(domains.needed_models(data.DOMAINS)) if args.models is None else tuple(args.models.split(";"))
    has_tokens = not args.without_domain_tokens
    started = time.monotonic()
    by = "" if args.redacted_by == "keywords" else f"_by_{args.redacted_by}"
    kind = ("tokens" if has_tokens else "without_tokens") + by
    of_seed = f"_{args.seed}" if args.seed else ""
    of_prompts = "" if args.prompts == data.DOMAINS[0] else f"_{args.prompts}"
    folder = (args.work / f"{kind}-{args.conversations}-{args.epochs}{of_seed}").absolute()
    config = prepare(
        args.data_dir, folder, args.conversations, args.epochs, args.seed, has_tokens, args.steps, args.redacted_by
    )
    attacks = Attacks(Trainings(config), names, [args.prompts], has_tokens, args.seed)
    everything, distinctive = data.keywords(args.data_dir)
    classifier = {"classifier": str(folder / "classifier"), "classifier_threshold": 0.5}
    by_policy = {}
    with ExitStack() as stack:
        for policy, of, options in (
            ("keywords", "keywords", {"keywords": everything}),
            ("distinctive", "keywords", {"keywords": distinctive}),
            ("classifier", "classifier", classifier),
        ):
            redactor = stack.enter_context(Redactor.from_spec(RedactorSpec(policies=(of,), options=options)))
            policies = domains.LabelledPolicies(TextJudge(redactor), data.DOMAINS)
            figures = attacks.figures(policies, chooses_z=of == "classifier")
            z = figures["z"]["value"] if figures["z"] else 0.0
            of_people = data.held_out_rates(args.data_dir, attacks.prompted, policies, z, everything)
            by_policy[policy] = {**figures, "held_out": of_people}
            print(f"{policy}: {cpu_seconds():.0f} s in all", flush=True)
    found = {
        "schema_version": 2,
        "conversations": args.conversations,
        "epochs": args.epochs,
        "prompts": [args.prompts],
        "redacted_by": args.redacted_by,
        "domain_tokens": has_tokens,
        "margin": MARGIN,
        "words_a_text": attacks.words(),
        "policies": by_policy,
    }
    name = f"domains{'' if has_tokens else '_without_tokens'}{by}{of_prompts}{of_seed}.json"
    write_json(RESULTS / name, found, sort_keys=True)
    print(markdown(by_policy))
    print(f"{time.monotonic() - started:.0f} s, of which {cpu_seconds():.0f} s of processor time")


if __name__ == "__main__":
    main()
