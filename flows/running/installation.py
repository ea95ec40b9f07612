"""Checks that a process imports our own packages, and computes the digest of their code."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from pipelines.errors import ConfigError
from pipelines.files import source_digest

_TOP_LEVEL = ("reticent", "flows", "tasks", "pipelines")


def check_installation() -> None:
    """Checks that the four top-level packages are ours. A foreign ``tasks`` in the same environment may hide ours.

    Raises:
        ConfigError: another distribution installs one of them, or one lies in another folder than ours.
    """
    owners = importlib.metadata.packages_distributions()
    home = Path(__file__).resolve().parents[2]
    for name in _TOP_LEVEL:
        if foreign := sorted(set(owners.get(name, ())) - {"reticent"}):
            raise ConfigError(
                f"the distribution {', '.join(foreign)} also installs a top-level package {name}, which may hide ours; "
                "uninstall it or give reticent an environment of its own"
            )
        spec = importlib.util.find_spec(name)
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places or Path(places[0]).resolve() != home / name:
            raise ConfigError(
                f"package {name} is found at {places[0] if places else 'no place'}, not at {home / name}; remove the "
                "stale copy and install reticent again"
            )


def code_digest() -> str:
    """Returns the SHA-256 of our installed source, because two installations of one version may differ."""
    return source_digest(Path(__file__).resolve().parents[2], _TOP_LEVEL)
