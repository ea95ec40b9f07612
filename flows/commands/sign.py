"""``reticent sign``: writes the page for the person who signs, and enters the signature in the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flows.commands.diff import changed_pairs, diff_document
from flows.commands.ledger import latest_run_with_valid_claims, too_large
from flows.commands.ledger_people import people_of
from flows.running.spec import open_store
from flows.running.spending import cost_of
from pipelines.errors import ConfigError, PrivacyGateError, StoreError
from pipelines.files import finite, read_file, write_atomic
from pipelines.numbers import upper_bound
from pipelines.report.claims import TITLES
from pipelines.report.sign_off import Signing, sign_off_page
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.ledger.ledger import copies_of, read_ledger
from pipelines.store.ledger.sign_offs import enter_signature, page_path, signatures
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.place.locks import store_lock
from pipelines.store.place.roots import Roots, private_umask

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Release

_UTILITY: Final = ("perplexity", "next_token_accuracy", "accuracy")


def sign_document(config: Path, environ: Mapping[str, str], name: str | None) -> dict[str, Any]:
    """Writes the page of the latest run, and enters a signature on it if somebody signs.

    Returns:
        A dictionary of ``run_id``, ``page``, ``digest`` (SHA-256 of the page), and ``signed`` (the entry, or None).

    Raises:
        ConfigError: there is no run to sign, or the name is empty.
        PrivacyGateError: the run's claims no longer hold, or the page did not exist before the signature. In that case
            the page was written now, so that the person can read it.
        StoreError: the report is damaged.
    """
    if name is not None and not name.strip():
        raise ConfigError('--name is empty: give the name of the person who signs, e.g. --name "Ada Lovelace"')
    settings = load_settings(config, environ)
    roots = open_store(settings, create=False)
    with store_lock(roots.private), private_umask():
        record, members = latest_run_with_valid_claims(settings, roots, then="sign")
        run_id, report = str(record["run_id"]), runs.key_in(record, "report")
        if report is None:
            raise ConfigError("there is no run with a report yet; start one with `reticent run`")
        spaces = {r.facts.owner_space for r in members if r.facts is not None}
        people = people_of(settings.stages["guarantee"], read_ledger(roots) if any(spaces) else ())  # type: ignore[arg-type]
        composed = _composed(settings, members) | {
            "has_copy": bool(copies_of(roots)),
            "people": [found for found in people if found["owner_space"] in spaces],
        }
        page = _page(config, environ, roots, run_id, report, composed)
        path, digest = page_path(roots, run_id), hashlib.sha256(page).hexdigest()
        before = read_file(path) if path.exists() else None
        if before != page:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomic(path, page)
        signed = None
        if name is not None:
            if before != page:
                changed = "there was no page yet" if before is None else "the page to sign has changed"
                raise PrivacyGateError(f"{changed}, so it was written now: read {path}, then sign")
            signed = enter_signature(roots, name=name.strip(), run_id=run_id, digest=digest, report=report)
    return {"run_id": run_id, "page": str(path), "digest": digest, "signed": signed}


def sign_text(document: Mapping[str, Any], config: Path) -> str:
    """Formats the document for people."""
    lines = [
        f"page    {document['page']} (private: protect it as you protect the text)",
        f"digest  {document['digest']}",
    ]
    if (signed := document["signed"]) is None:
        return "\n".join([*lines, f'read it, then: reticent sign {config} --name "NAME"'])
    return "\n".join([*lines, f"signed  run {document['run_id']} by {signed['name']}, {signed['at']}, in the ledger"])


def _page(
    config: Path, environ: Mapping[str, str], roots: Roots, run_id: str, key: str, composed: Mapping[str, Any]
) -> bytes:

    manifest = manifests.load(roots, "report", key)
    if manifest is None or manifests.damage(roots, manifest, full=True):
        raise StoreError("the report is missing or damaged; use `reticent verify --repair`, then run again")
    last = next((found for found in reversed(signatures(roots)) if found["run_id"] != run_id), None)
    changes = None
    if last is not None and _can_be_compared(roots, last["run_id"]):
        changes = changed_lines(diff_document(config, environ, last["run_id"], run_id))
    signing = Signing(
        run_id=run_id,
        started=runs.started_at(run_id),
        config=config.name,
        composed=composed,
        last=last,
        changes=changes,
    )
    return sign_off_page(roots.private_files("report", key).json("report.json"), signing).encode()


def _can_be_compared(roots: Roots, run_id: str) -> bool:
    """Checks if a run's claims still exist. After `reticent gc` removed them, everything would seem to have changed."""
    try:
        key = runs.key_in(runs.resolve(roots, run_id), "guarantee")
    except ConfigError:
        return False
    return key is not None and manifests.load(roots, "guarantee", key) is not None


def _composed(settings: ProjectSettings, members: Sequence[Release]) -> dict[str, Any]:
    """Returns the joint cost, by the ledger, of all releases that share records with the latest run's model."""
    group = cost_of(settings.stages["guarantee"], members)  # type: ignore[arg-type]
    epsilon = None if group.delta is None else finite(group.epsilon)
    return {
        "num_releases": len(group.counted),
        "epsilon": epsilon,
        "delta": group.delta,
        "not_guaranteed_because": too_large(group.counted, group.delta),
    }


def changed_lines(document: Mapping[str, Any]) -> list[str]:
    """Formats the changes that matter to the person who signs (claims, misses, settings, utility), one per line."""
    inputs = document["inputs"]
    files = [f"{len(inputs[word])} {word}" for word in ("new", "changed", "removed") if inputs[word]]
    claims = [
        (claim["group_size"], f"{TITLES.get(claim['notion'], claim['notion'])}: {before} → {after}")
        for claim in document["guarantee"]
        if (before := _brief(claim["before"])) != (after := _brief(claim["after"]))
    ]
    groups = [line for size, line in claims if size > 1]
    utility = {name: document["utility"][name] for name in _UTILITY if name in document["utility"]}
    return [
        *(line for size, line in claims if size == 1),
        *(groups if len(groups) == 1 else [f"{len(groups)} claims about groups of secrets"] if groups else []),
        *(f"misses, {line}" for line in changed_pairs(document["miss_rate"])),
        *([f"input files: {', '.join(files)}"] if files else []),
        *(
            f"setting {row['setting']}: "
            + ("changed (not shown)" if row["hidden"] else f"{row['before']} → {row['after']}")
            for row in document["config"]
        ),
        *(f"packages: {len(document['packages'])} of other versions" for _ in document["packages"][:1]),
        *(f"code: {len(document['code'])} files" for _ in document["code"][:1]),
        *changed_pairs(utility),
    ]


def _brief(claim: Mapping[str, Any] | None) -> str:
    """Formats the figures of a claim, for all releases together if it covers them."""
    if claim is None:
        return "not stated"
    if claim["refused"]:
        return "refused"
    whole = claim.get("together")
    figures = claim if whole is None or whole["refused"] else whole
    void = "" if claim["is_guarantee"] else " (no guarantee)"
    return f"ε {upper_bound(figures['epsilon'])}, δ {upper_bound(figures['delta'])}{void}"
