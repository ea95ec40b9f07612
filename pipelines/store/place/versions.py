"""The version of each kind of document in a store. One kind may change without making the others look damaged.

A ``store.json`` of an older version is read through its migration, and a newer one is refused by name. A manifest of
another version is not an artifact, and a ledger line of another version is damage. Tests read earlier stores
(``tests/store/test_store_document_versions.py``).
"""

from __future__ import annotations

from typing import Final

STORE: Final = 2
"""``store.json``. Version 1 held only the version. Version 2 is sealed and holds the secret's fingerprint, the ledger's
length, and since later the store's location."""
HOME: Final = 1
"""The file ``home`` of a store, and its witness in the state folder. Before it, ``home`` held a fixed text."""
KEY: Final = 1
"""The ingredients of artifact keys. Another number would rebuild everything, models included."""
MANIFEST: Final = 1
"""Manifests, the joint ones and those beside the files. The secret's fingerprint and a release's place in the ledger
came later. A manifest without them is from an earlier store."""
LEDGER: Final = 2
"""Lines of ``ledger/releases.jsonl``. Version 1 was a bare line. Version 2 is chained and sealed, and has facts of the
release."""
RUN: Final = 2
"""Specifications and records of runs, and ``latest.json``. Version 1 was not sealed."""
MIRROR: Final = 1
"""``latest.json`` of a mirror of the public root."""
MARK: Final = 1
"""Marks of a training, in its scratch folder. Marks of 0.1.0 had neither a version nor a seal."""
FORGOTTEN: Final = 1
"""The list of forgotten documents."""
REMOVED: Final = 1
"""The remains of a release whose model was removed."""
