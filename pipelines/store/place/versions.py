"""The version of each kind of document that a store holds. One kind may change without making the others look damaged.

``store.json`` of an older version is read through its migration, and a newer one is refused by name. A manifest of any
other version is no artifact, and such a line no entry of the ledger. Tests read stores that hold the earlier versions
(``tests/store/test_store_document_versions.py``).
"""

from __future__ import annotations

from typing import Final

STORE: Final = 2
"""``store.json``. 1 held the version only; 2 holds the secret's fingerprint and how long the ledger was, sealed; since
the first of that version, where the store lives."""
HOME: Final = 1
"""The file ``home`` of a store, and its witness in the state folder. Before it, ``home`` held a fixed text."""
KEY: Final = 1
"""The ingredients of artifact keys: another number would rebuild everything, models included."""
MANIFEST: Final = 1
"""Manifests, the joint ones and those beside the files. The secret's fingerprint and a release's place in the ledger
came later; a manifest without them is of a store from before that."""
LEDGER: Final = 2
"""Lines of ``ledger/releases.jsonl``. 1 was a bare line; 2 is chained, sealed, and knows facts of the release."""
RUN: Final = 2
"""Specifications and records of runs, and ``latest.json``. 1 was not sealed."""
MIRROR: Final = 1
"""``latest.json`` of a mirror of the public root."""
MARK: Final = 1
"""Marks of a training, in its scratch folder. That of 0.1.0 had neither a version nor a seal."""
FORGOTTEN: Final = 1
"""The list of forgotten documents."""
REMOVED: Final = 1
"""What stays of a release whose model was removed."""
