"""Moves a store elsewhere: the old private root is retired, or the ledger says that two roots may spend.

A retired root trains no more. A copy that was made afterwards takes over by itself. A copy that was made before takes
over with the proof that retiring printed, unless something was released in between. Two copies of a retired root cannot
be noticed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.store.objects.ledger_lines import append, locked, read_documents
from pipelines.store.place import ledger_file, location
from pipelines.store.place.ledger_file import COPIED, MOVED, RETIRED, Anchor
from pipelines.store.place.location import Location, is_here, location_of, location_problem
from pipelines.store.place.locks import exclusive_store_lock
from pipelines.store.place.roots import Roots

_PROOF_CHARACTERS = 32


def register_location(roots: Roots) -> None:
    """Records this folder as the location of a new store, or of a copy of a retired one. Every run does so first.

    Raises:
        PrivacyGateError: this is a copy of a store that was not retired, or a retired store.
        LedgerError: the ledger was changed or damaged.
    """
    with locked(roots) as path:
        read_documents(roots, path)  # an older copy in this place is reported as damage, and not as a copy
    found = location_of(roots)
    if found is None or (found.retired is not None and not is_here(roots, found)):
        with locked(roots) as path:
            found = location_of(roots)
            if found is None:
                location.record_location(roots)
            elif found.retired is not None and not is_here(roots, found):
                read_documents(roots, path)
                _take_over(roots, path, {"type": MOVED, "from": found.home_id})
    location.require_valid_location(roots)
    with locked(roots) as path:
        location.write_witness(roots, ledger_file.length(path))


def retire(roots: Roots) -> dict[str, Any]:
    """Retires this private root, which trains no more. Doing so again returns the same.

    Returns:
        ``proof``, and ``num_lines``, the number of lines of the ledger that the proof vouches for.

    Raises:
        ConfigError: this is a copy. Retire the original.
        StoreError: a run is using the store.
    """
    with exclusive_store_lock(roots.private), locked(roots) as path:
        read_documents(roots, path)
        found = location_of(roots) or location.record_location(roots)
        if not is_here(roots, found):
            raise ConfigError(f"{roots.private} is a copy: retire the store in {found.path} on {found.machine}")
        retired = found.retired
        if retired is None:
            retired = ledger_file.length(path)
            location.mark_retired(
                roots, found, retired
            )  # before its line, so that a kill in between leaves no root that trains
            append(roots, path, [{"type": RETIRED, "home": found.home_id, "at": _now()}])
    return {"proof": _proof(roots, found, retired), "num_lines": retired.count}


def accept_retired(roots: Roots, proof: str) -> None:
    """Lets a copy train after the root that it was copied from was retired.

    Raises:
        ConfigError: this is not a copy.
        PrivacyGateError: the proof is not that of the original store, or the original's ledger got another line after
            the copy was made.
    """
    with locked(roots) as path:
        read_documents(roots, path)
        found = location_of(roots)
        if found is None or is_here(roots, found):
            raise ConfigError(f"{roots.private} is no copy: nothing has to be retired for it")
        if not hmac.compare_digest(_proof(roots, found, ledger_file.length(path)), proof.strip()):
            raise PrivacyGateError(
                f"this is not the proof that the store in {found.path} on {found.machine} was retired with the ledger "
                "as it is in this copy: another store was retired, or something was released after the copy was made. "
                "Copy the private root once more, now that it is retired"
            )
        _take_over(roots, path, {"type": MOVED, "from": found.home_id})


def acknowledge_copy(roots: Roots, reason: str) -> None:
    """Enters that a copy of this store may spend too. From now on, claims state the assumption that it does not.

    Args:
        roots: the copy, or the original that was copied.
        reason: reason in the user's words. It stands in the ledger, and in no claim.

    Raises:
        ConfigError: no reason is given.
    """
    if not reason.strip():
        raise ConfigError("--acknowledge-copy needs a reason, which will stand in the ledger")
    with locked(roots) as path:
        read_documents(roots, path)
        found = location_of(roots)
        line = {"type": COPIED, "reason": reason, "at": _now()}
        if found is None or location_problem(roots):
            _take_over(roots, path, line)
        else:
            append(roots, path, [line])


def _take_over(roots: Roots, path: Path, line: Mapping[str, Any]) -> None:
    """Enters the line, then records the location. After a kill in between, the user has to ask once more."""
    append(roots, path, [{"at": _now(), **line}])
    location.record_location(roots)


def _proof(roots: Roots, found: Location, ledger: Anchor) -> str:
    message = f"reticent retired\0{found.home_id}\0{ledger.count}\0{ledger.head}".encode()
    return hmac.new(roots.secret, message, hashlib.sha256).hexdigest()[:_PROOF_CHARACTERS]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
