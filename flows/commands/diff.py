"""``reticent diff``: compares two runs' inputs, settings, code, counts, miss rates, guarantees and utility.

Everything comes from run specifications, manifests and figures in the private root. Files have pseudonyms and settings
that may quote private text are hidden, unless the user asks for them.
"""

from __future__ import annotations

import hashlib
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.running.spec import open_store
from pipelines.context import pseudonym
from pipelines.files import canonical_json, read_json
from pipelines.graph import GRAPH, config_references
from pipelines.numbers import real, same_figures
from pipelines.settings.loading import load_settings
from pipelines.settings.tables import config_class
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.manifest import Manifest
from pipelines.store.place.roots import Roots

_PLAIN_FIELDS = frozenset({"redact.policies", "redact.conservative", "redact.model", "split.language"})
"""Settings that hold words, but only names of installed packages or of parts of the program."""

_MISS_RATES = ("miss_rate", "false_negative_rate", "delta2")
_UTILITY = (
    "perplexity",
    "perplexity_at_initialisation",
    "perplexity_per_word",
    "bits_per_byte",
    "next_token_accuracy",
    "loss_per_token",
    "num_steps",
    "num_parameters",
)
_CLAIM = ("epsilon", "delta", "epsilon_unamplified", "is_guarantee", "refused", "together")


@dataclass(frozen=True)
class _File:
    """An input file of a run: digest of its rows, and the places of its cuts, on which the digest depends."""

    digest: str
    cuts: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.cuts[-1]


@dataclass(frozen=True)
class _Run:
    """A side of the comparison."""

    spec: Mapping[str, Any]
    record: Mapping[str, Any]
    manifests: Mapping[str, Sequence[Manifest]]
    """Manifests by stage, without artifacts that ``gc`` removed."""


def diff_document(
    config: Path, environ: Mapping[str, str], before: str, after: str, *, show_names: bool = False
) -> dict[str, Any]:
    """Returns the changes from one run to another.

    Raises:
        ConfigError: there is no such run, or the run never finished.
    """
    roots = open_store(load_settings(config, environ), create=False)
    one, two = (_load(roots, name) for name in (before, after))
    return {
        "runs": [
            {"run_id": r.record["run_id"], "state": r.record["state"], "purpose": r.record.get("purpose", "release")}
            for r in (one, two)
        ],
        "inputs": _inputs(roots, one, two, show_names),
        "config": _config(one, two, show_names),
        "code": _code(one, two),
        "packages": _environment(one, two),
        "stages": _rebuilt(one, two),
        "counts": _pairs(_counts(one), _counts(two)),
        "miss_rate": _pairs(_miss_rate(roots, one), _miss_rate(roots, two)),
        "guarantee": _claims(roots, one, two),
        "utility": _pairs(_utility(roots, one), _utility(roots, two)),
    }


def _load(roots: Roots, name: str) -> _Run:
    record = runs.resolve(roots, name)
    found: dict[str, list[Manifest]] = {}
    for stage, _, key in record.get("artifacts", []):
        if stage in GRAPH and (manifest := manifests.load(roots, stage, key)) is not None:
            found.setdefault(stage, []).append(manifest)
    spec = read_json(roots.runs / str(record["run_id"]) / "spec.json")
    return _Run(spec if isinstance(spec, dict) else {}, record, found)


def _files(run: _Run) -> dict[str, _File]:
    """Returns the input files of a run by name."""
    pieces: dict[str, list[Mapping[str, Any]]] = {}
    for partition in run.spec.get("partitions", []):
        for piece in partition["pieces"]:
            pieces.setdefault(piece["name"], []).append(piece)
    found = {}
    for name, parts in pieces.items():
        ordered = sorted(parts, key=lambda piece: int(piece["start_byte"]))
        content = [[p["digest"], p["format"]] for p in ordered]
        digest = hashlib.sha256(canonical_json(content)).hexdigest()
        found[name] = _File(digest, tuple(p["end_byte"] for p in ordered))
    return found


def _inputs(roots: Roots, one: _Run, two: _Run, show_names: bool) -> dict[str, Any]:
    old, new = _files(one), _files(two)

    def shown(name: str) -> str:
        return name if show_names else pseudonym(roots.secret, "file", name)[:12]

    both = sorted(old.keys() & new.keys())
    recut = [n for n in both if old[n].cuts != new[n].cuts and old[n].size == new[n].size]
    changed = [n for n in both if n not in recut and old[n].digest != new[n].digest]
    removed, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    renamed = []
    waiting: dict[str, list[str]] = {}
    for name in removed:
        waiting.setdefault(old[name].digest, []).append(name)
    for name in list(added):
        if same := waiting.get(new[name].digest):
            renamed.append((same.pop(0), name))
            added.remove(name)
    gone = {name for name, _ in renamed}
    return {
        "num_files": [len(old), len(new)],
        "num_unchanged": len(both) - len(changed),
        "num_compared_by_size": len(recut),  # partition_documents changed, which changes the digests
        "new": [shown(n) for n in added],
        "changed": [shown(n) for n in changed],
        "renamed": [[shown(a), shown(b)] for a, b in renamed],
        "removed": [shown(n) for n in removed if n not in gone],
        "names_shown": show_names,
    }


def _config(one: _Run, two: _Run, show_hidden: bool) -> list[dict[str, Any]]:
    rows = []
    old, new = one.spec.get("settings", {}), two.spec.get("settings", {})
    for table in sorted(old.keys() | new.keys()):
        then, now = old.get(table, {}), new.get(table, {})
        for name in sorted(then.keys() | now.keys()):
            if then.get(name) != now.get(name):
                hidden = not show_hidden and not _is_plain(table, name)
                values = [None, None] if hidden else [then.get(name), now.get(name)]
                rows.append(_change(f"{table}.{name}", values, hidden))
    if one.spec.get("seed") != two.spec.get("seed"):
        rows.append(_change("run.seed", [one.spec.get("seed"), two.spec.get("seed")], False))
    return rows


def _change(setting: str, values: Sequence[Any], hidden: bool) -> dict[str, Any]:
    return {"setting": setting, "before": values[0], "after": values[1], "hidden": hidden}


def _is_plain(table: str, name: str) -> bool:
    """Checks if a setting cannot quote private text: a number, a truth value, a choice, or a name of ours."""
    reference = config_references().get(table)
    field = config_class(reference).model_fields.get(name) if reference else None
    return field is not None and (f"{table}.{name}" in _PLAIN_FIELDS or _is_plain_type(field.annotation))


def _is_plain_type(kind: Any) -> bool:
    if kind in (int, float, bool, type(None)) or typing.get_origin(kind) is typing.Literal:
        return True
    if typing.get_origin(kind) is typing.Annotated:
        return _is_plain_type(typing.get_args(kind)[0])
    inside = [k for k in typing.get_args(kind) if k is not Ellipsis]
    return bool(inside) and all(_is_plain_type(k) for k in inside)


def _ingredients(run: _Run, what: str) -> dict[str, dict[str, Any]]:
    """Returns a part of each stage's key ingredients. All partitions of a stage share it."""
    return {stage: (found[0].made_by or {}).get(what, {}) for stage, found in run.manifests.items() if found}


def _code(one: _Run, two: _Run) -> list[dict[str, Any]]:
    old, new = _ingredients(one, "code"), _ingredients(two, "code")
    stages: dict[str, list[str]] = {}
    for stage in (s for s in GRAPH if s in old and s in new):
        for file in sorted(old[stage].keys() | new[stage].keys()):
            if old[stage].get(file) != new[stage].get(file):
                stages.setdefault(file, []).append(GRAPH[stage].shown_name)
    return [{"file": file, "stages": used} for file, used in sorted(stages.items())]


def _environment(one: _Run, two: _Run) -> list[dict[str, Any]]:
    def versions(run: _Run) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for environment in _ingredients(run, "environment").values():
            found |= environment.get("packages", {})
            found |= {name: environment[name] for name in ("python", "machine") if name in environment}
        return found

    old, new = versions(one), versions(two)
    return [
        {"name": name, "before": old.get(name), "after": new.get(name)}
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name]
    ]


def _rebuilt(one: _Run, two: _Run) -> list[dict[str, Any]]:
    """Counts per stage how many of the later run's artifacts come from the earlier run."""
    old = Counter((stage, key) for stage, _, key in one.record.get("artifacts", []))
    rows = []
    for stage in GRAPH.values():
        keys = [key for name, _, key in two.record.get("artifacts", []) if name == stage.name]
        shared = sum((stage.name, key) in old for key in keys)
        rows.append({"stage": stage.table, "step": stage.step, "num_same": shared, "num_other": len(keys) - shared})
    return rows


def _counts(run: _Run) -> dict[str, Any]:
    totals: Counter[str] = Counter()
    for stage, found in run.manifests.items():
        if stage == "report":
            continue
        for manifest in found:
            for name, value in manifest.stats.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    totals[f"{GRAPH[stage].shown_name}.{name}"] += value
    return dict(totals)


def _read(roots: Roots, run: _Run, stage: str, file: str) -> dict[str, Any]:
    found = run.manifests.get(stage)
    document = roots.private_files(stage, found[0].key).find_json(file) if found else None
    return document if isinstance(document, dict) else {}


def _figures(roots: Roots, run: _Run, stage: str, names: Sequence[str]) -> dict[str, Any]:
    figures = _read(roots, run, stage, "figures.json")
    return {name: figures[name] for name in names if name in figures}


def _utility(roots: Roots, run: _Run) -> dict[str, Any]:
    """Returns figures of training and evaluation. In older runs, evaluation was a part of the training stage."""
    return _figures(roots, run, "train", _UTILITY) | _figures(roots, run, "evaluate", _UTILITY)


def _miss_rate(roots: Roots, run: _Run) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, rate in _figures(roots, run, "estimate", _MISS_RATES).items():
        if isinstance(rate, Mapping):
            found[name] = rate.get("value")
            upper = rate.get("upper", (rate.get("recommended") or [None, None])[-1])
            found[f"{name}_upper"] = upper
    return found | _figures(roots, run, "estimate", ("source", "recall", "precision"))


def _claims(roots: Roots, one: _Run, two: _Run) -> list[dict[str, Any]]:
    """Returns every claim of either run, with both sides and a flag that they differ."""

    def by_name(run: _Run) -> dict[tuple[str, int], dict[str, Any]]:
        claims = _read(roots, run, "guarantee", "claims.json").get("claims", [])
        return {(c["notion"], c["group_size"]): {name: c.get(name) for name in _CLAIM} for c in claims}

    old, new = by_name(one), by_name(two)
    return [
        {
            "notion": key[0],
            "group_size": key[1],
            "before": old.get(key),
            "after": new.get(key),
            "changed": not same_figures(old.get(key), new.get(key)),
        }
        for key in dict.fromkeys([*old, *new])
    ]


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {"before": old.get(name), "after": new.get(name)} for name in dict.fromkeys([*old, *new])}


def diff_text(document: Mapping[str, Any]) -> str:
    """Formats the differences for people, in the order in which they take effect."""
    one, two = (f"{run['run_id']}{_for(run['purpose'])}" for run in document["runs"])
    lines = [f"{one} → {two}"]
    inputs = document["inputs"]
    files = [f"{inputs['num_files'][0]} → {inputs['num_files'][1]} files"]
    files += [f"{len(inputs[word])} {word}" for word in ("new", "changed", "renamed", "removed") if inputs[word]]
    lines += _section("input", [", ".join(files), *_named(inputs)])
    lines += _section(
        "config",
        [
            f"{row['setting']}: " + ("changed (hidden)" if row["hidden"] else f"{row['before']} → {row['after']}")
            for row in document["config"]
        ],
    )
    lines += _section("code", [f"{row['file']}  ({', '.join(row['stages'])})" for row in document["code"]])
    lines += _section("package", [f"{row['name']} {row['before']} → {row['after']}" for row in document["packages"]])
    lines += _section(
        "rebuilt",
        [
            f"{row['stage']}{'.' + row['step'] if row['step'] else ''}: {row['num_other']} of "
            f"{row['num_other'] + row['num_same']}"
            for row in document["stages"]
            if row["num_other"]
        ],
    )
    for part, title in (("counts", "count"), ("miss_rate", "miss rate")):
        lines += _section(title, changed_pairs(document[part]))
    lines += _section("guarantee", [_claim_line(claim) for claim in document["guarantee"] if claim["changed"]])
    lines += _section("utility", changed_pairs(document["utility"]))
    return "\n".join(lines)


def _for(purpose: str) -> str:
    return "" if purpose == "release" else f" ({purpose})"


def _section(title: str, rows: Sequence[str]) -> list[str]:
    shown = rows or ["no change"]
    return [f"{title if number == 0 else '':<11}{row}" for number, row in enumerate(shown)]


def _named(inputs: Mapping[str, Any]) -> list[str]:
    rows = [f"  {word:<8} {name}" for word in ("new", "changed", "removed") for name in inputs[word]]
    rows += [f"  renamed  {old} → {new}" for old, new in inputs["renamed"]]
    if inputs["num_compared_by_size"]:
        rows.append(f"  {inputs['num_compared_by_size']} cut into other parts: compared by size only")
    return rows


def changed_pairs(pairs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Formats the figures that differ, one per line."""
    return [
        f"{n}: {_value(p['before'])} → {_value(p['after'])}"
        for n, p in pairs.items()
        if not same_figures(p["before"], p["after"])
    ]


def _claim_line(claim: Mapping[str, Any]) -> str:
    name = claim["notion"] + (f" of {claim['group_size']}" if claim["group_size"] > 1 else "")
    return f"{name}: {_claim_side(claim['before'])} → {_claim_side(claim['after'])}"


def _claim_side(claim: Mapping[str, Any] | None) -> str:
    if claim is None:
        return "not stated"
    if claim["refused"]:
        return "refused"
    void = "" if claim["is_guarantee"] else ", no guarantee"
    alone = f"ε {_value(claim['epsilon'])}, δ {_value(claim['delta'])}{void}"
    whole = claim.get("together")
    if whole is None:
        return alone
    bound = "no bound" if whole["refused"] else f"ε {_value(whole['epsilon'])}, δ {_value(whole['delta'])}"
    return f"{bound} for {whole['num_releases']} releases together ({alone} for the model alone)"


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "none" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else real(value, 5)


def runs_document(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns every run of the store, newest first, with its state and the artifacts that it built."""
    roots = open_store(load_settings(config, environ), create=False)
    return {"runs": list(runs.each_run(roots))}


def runs_text(document: Mapping[str, Any]) -> str:
    """Formats the runs for people."""
    rows = []
    for run in document["runs"]:
        built = ", ".join(f"{name} {count}" if count > 1 else name for name, count in run["built"].items())
        what = f"built {built}" if built else ("nothing to do" if run["state"] == "completed" else "")
        what += _for(run["purpose"]) + ("; read what was forgotten since" if run["is_forgotten"] else "")
        rows.append(f"{run['run_id']:<26} {run['started'] or '':<21} {run['state']:<10} {what}".rstrip())
    return "\n".join(rows) or "no run yet"
