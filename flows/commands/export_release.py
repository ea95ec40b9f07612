"""``reticent export model`` and ``dataset``: writes the published one as a signed folder with a card for the hub.

Every file comes from the public root, which the gate has searched. The export adds a card of texts that were searched
there and, for models, ids of tokens in the settings of generation.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from flows.commands.export import out_path
from flows.commands.ledger import latest_run_with_valid_claims
from flows.running.spec import open_store
from pipelines.errors import ConfigError, StoreError
from pipelines.files import copy_file
from pipelines.release_folder import OWN, sign_folder
from pipelines.report.cards import synthetic_section
from pipelines.report.claims import headline_claim
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.signatures import signing_key
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.place.disk import remove_tree
from pipelines.store.place.locks import store_lock
from pipelines.store.place.roots import Roots

Kind = Literal["model", "dataset"]
KINDS: Final[tuple[Kind, ...]] = ("model", "dataset")
_HUB_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")
_CARD: Final = "README.md"
_LIBRARY: Final = "reticent"
_SYNTHETIC: Final = "synthetic.parquet"


@dataclass(frozen=True)
class _Run:
    """The published part of the latest run."""

    roots: Roots
    record: Mapping[str, Any]
    report: Mapping[str, Any]

    def folders(self, stage: str) -> list[Path]:
        """Returns the public folders of a stage, verified byte by byte, in an order that follows from their contents.

        Raises:
            StoreError: a file is damaged.
        """
        found = []
        for name, _, key in self.record.get("artifacts", ()):
            if name != stage:
                continue
            manifest = manifests.load(self.roots, stage, key)
            if manifest is None or manifests.damage(self.roots, manifest, full=True):
                raise StoreError(
                    f"an artifact of {stage} is missing or damaged; use `reticent verify --repair`, then run again"
                )
            public = {file: entry for file, entry in manifest.files.items() if file.startswith("public/")}
            found.append((sorted(entry["sha256"] for entry in public.values()), manifest.public_dir(self.roots)))
        return [folder for _, folder in sorted(found)]


def release_document(
    config: Path, environ: Mapping[str, str], kind: Kind, out: Path, *, licence: str | None = None
) -> dict[str, Any]:
    """Writes the folder, which appears complete or not at all.

    Returns:
        A dictionary of ``out``, ``kind``, ``num_files`` (with those of the signature), ``fingerprint`` (of the key),
        and ``notes`` about features that a plain loader lacks.

    Raises:
        ConfigError: nothing of the kind can be released, or ``out`` exists or is in the store.
        PrivacyGateError: the run's claims no longer hold.
        StoreError: a file is damaged.
    """
    settings = load_settings(config, environ)
    roots = open_store(settings, create=False)
    out = out_path(roots, out)
    with store_lock(roots.private):
        run = _published(settings, roots)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            made = work / "whole"
            made.mkdir()
            data, text, notes = _BUILDERS[kind](run, made)
            _copy(run.folders("report")[0], made / "report", ("report.html", "report.json"))
            (made / _CARD).write_text(_card(kind, data, text, run.report, licence), encoding="utf-8")
            about = {
                "kind": kind,
                "made_with": f"reticent {version('reticent')}",
                "released": f"{datetime.now(UTC):%F}",
            }
            fingerprint = sign_folder(made, about, signing_key(roots.secret))
            num_files = _make_readable(made)
            made.rename(out)
        finally:
            remove_tree(work)
    return {"out": str(out), "kind": kind, "num_files": num_files, "fingerprint": fingerprint, "notes": notes}


def release_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    return "\n".join(
        [
            f"wrote {document['out']}: {document['num_files'] - len(OWN)} signed files, all public, and the {len(OWN)} "
            f"files of their signature ({', '.join(OWN)})",
            *(f"  {note}" for note in document["notes"]),
            f"  key     {document['fingerprint']}: tell it to readers yourself, and not only in this folder",
            f"  check   reticent verify-release {document['out']} --key {document['fingerprint']}",
        ]
    )


def _published(settings: ProjectSettings, roots: Roots) -> _Run:
    record, _ = latest_run_with_valid_claims(settings, roots, then="export")
    run = _Run(roots, record, {})
    folders = run.folders("report") if runs.key_in(record, "report") else []
    pages = [folder for folder in folders if (folder / "data_card.md").is_file()]
    if not pages:
        raise ConfigError(
            "the latest run has no public report with texts for cards; set report.public = true, run `reticent run`, "
            "and export again"
        )
    return _Run(roots, record, json.loads((pages[0] / "report.json").read_text("utf-8")))


def _model(run: _Run, made: Path) -> tuple[dict[str, Any], str, list[str]]:
    """Copies the model; returns metadata of its card, the card's text, and notes."""
    from huggingface_hub import ModelCard

    sources = [folder / "model" for folder in run.folders("train") if (folder / "model").is_dir()]
    if not sources:
        raise ConfigError(
            "the latest run published no model: its method has no bound, so the model stays on the trusted side. "
            "`reticent export private_model --out PLACE` copies it there"
        )
    (source,) = sources
    for path in sorted(source.rglob("*")):
        if path.is_file():
            _copy(path.parent, made / path.parent.relative_to(source), (path.name,))
    from pipelines.training.plain_loading import OPEN_TRAINED, prepare

    card = ModelCard((made / _CARD).read_text("utf-8"), ignore_metadata_errors=True)
    kind, notes = prepare(made)
    data = card.data.to_dict() | ({"library_name": _LIBRARY} if kind == OPEN_TRAINED else {})
    base = run.report["training"].get("base_model")
    if base and _HUB_NAME.fullmatch(base):
        data["base_model"] = base
    sections = (run.folders("report")[0] / "model_card.md").read_text("utf-8")
    return data, f"{card.text.strip()}\n\n{sections}", notes


def _dataset(run: _Run, made: Path) -> tuple[dict[str, Any], str, list[str]]:
    """Copies the tables; returns metadata of the card, its text, and notes."""
    configs = []
    if run.report["publishes_rows"]:
        for number, folder in enumerate(run.folders("publish")):
            _copy(folder, made / "public", ("public.parquet",), f"part-{number:05d}.parquet")
        configs.append(_table("public"))
    text = (run.folders("report")[0] / "data_card.md").read_text("utf-8")
    for folder in run.folders("synthesize"):
        if (folder / _SYNTHETIC).is_file():  # an unpublished model has no public table
            _copy(folder, made / "synthetic", (_SYNTHETIC,), "part-00000.parquet")
            _copy(folder, made / "synthetic", ("synthetic.json",))
            configs.append(_table("synthetic"))
            text += synthetic_section(json.loads((folder / "synthetic.json").read_text("utf-8")))
    if not configs:
        raise ConfigError(
            "the latest run published no table. For public rows, set redact.conservative and shard.publish = true. For "
            "synthetic text, run `reticent synthesize`. Then export again"
        )
    tasks = {"task_categories": ["text-generation"], "configs": configs}
    return tasks, text, []


def _table(name: str) -> dict[str, Any]:
    return {"config_name": name, "data_files": [{"split": "train", "path": f"{name}/*.parquet"}]}


_BUILDERS: Final[Mapping[Kind, Callable[[_Run, Path], tuple[dict[str, Any], str, list[str]]]]] = {
    "model": _model,
    "dataset": _dataset,
}


def _card(kind: Kind, data: Mapping[str, Any], text: str, report: Mapping[str, Any], licence: str | None) -> str:
    """Returns the card: metadata in the hub's form, and text."""
    from huggingface_hub import DatasetCardData, ModelCardData

    privacy = _privacy(report)
    if kind == "dataset" and report["publishes_rows"]:
        privacy |= {"unprotected": ["public"]}
    found = {**data, "tags": [_LIBRARY, "privacy", "differential-privacy"], "privacy": privacy}
    if licence is not None:
        found["license"] = licence
    metadata = (ModelCardData if kind == "model" else DatasetCardData)(**found)
    return f"---\n{metadata.to_yaml()}\n---\n{text}"


def _privacy(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the headline claim for programs; it covers all releases together if there are several."""
    claim, metrics = headline_claim(report["claims"]), report["metrics"]
    if claim is None or claim["status"] != "issued":
        return {"claim": "none"}
    return {
        "notion": claim["notion"],
        "about": claim["covers"],
        "epsilon": metrics["epsilon"],
        "delta": metrics["delta"],
        "epsilon_this_model": metrics["epsilon_this_model"],
        "num_releases": metrics["num_releases"],
        "relation": claim["relation"],
        "unit": claim["unit"],
        "group_size": claim["group_size"],
        "theorem": claim["theorem"],
        "num_assumptions": len(claim["assumptions"]),
    }


def _copy(source: Path, target: Path, names: tuple[str, ...], as_name: str | None = None) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        copy_file(source / name, target / (as_name or name))


def _make_readable(folder: Path) -> int:
    """Makes all files readable, regardless of the umask, and returns their number."""
    found = [folder, *folder.rglob("*")]
    for path in found:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return sum(path.is_file() for path in found)
