"""Checks of policies, models and tokenisers by the files of their packages. Loading them would take seconds."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement

from pipelines.language import model_distribution, model_module
from pipelines.policies import registry
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.options import PolicyOptions

if TYPE_CHECKING:
    from pipelines.policies.judging.apply import RedactorSpec

_LARGEST: Final = 2**26
"""The size of the files of a package, in bytes, above which loading it is no slower than reading it."""

_SPACYS_OWN: Final = re.compile(r"[a-z]{2}_core_(web|news)_(sm|md|lg)")
"""The models that spaCy publishes and that hold no code but spaCy's."""

_ON_DEMAND: Final = frozenset({"tagger", "attribute_ruler", "lemmatizer"})
"""The components that Presidio requests for single sentences."""


_NEED_MORE: Final = frozenset({"ja", "ko", "th", "vi"})
"""The languages whose tokeniser needs another package than spaCy."""


def has_tokenizer(language: str) -> bool:
    """Checks by its files that spaCy has a tokeniser for a language. False if only loading it can tell."""
    spacy = importlib.util.find_spec("spacy")
    if spacy is None or spacy.origin is None or language in _NEED_MORE or not language.isalpha():
        return False
    return (Path(spacy.origin).parent / "lang" / language / "__init__.py").is_file()


def can_make(spec: RedactorSpec) -> bool:
    """Checks that `RedactorSpec.make` succeeds, without a model, as far as installed files show it.

    Makes every policy that is quick to make. Presidio and models of spaCy count as usable if each of their files has
    the digest that their package declares, and their requirements are installed.

    Returns:
        False if only `RedactorSpec.make` can tell.

    Raises:
        ConfigError: a policy cannot be made.
    """
    options = PolicyOptions(name="", **spec.options)
    conservative = (spec.conservative,) if spec.conservative is not None else ()
    settings = {
        **dict.fromkeys(spec.observed, "redact.also_levels"),
        **dict.fromkeys(conservative, "redact.conservative"),
        **dict.fromkeys(spec.policies, "redact.policies"),
    }
    if any(name not in SPECS or "torch" in SPECS[name].packages for name in settings):
        return False
    if spec.models:
        return False
    needs: set[str] = set()
    for name, setting in settings.items():
        if name == "presidio":
            if options.recognizers or options.language != "en" or not is_intact("presidio-analyzer"):
                return False
            needs |= SPECS[name].components | _ON_DEMAND
        else:
            needs |= registry.make_policy(options.model_copy(update={"name": name}), setting).needs
    return not needs or _is_usable(options.model, options.language, needs)


def _is_usable(model: str, language: str, needs: Set[str]) -> bool:
    """Checks that a model of spaCy is as it was installed, for this language, and has the components."""
    if _SPACYS_OWN.fullmatch(model) is None or not is_intact(model_distribution(model)):
        return False
    found = importlib.util.find_spec(model_module(model))
    if found is None or found.origin is None:
        return False
    try:
        meta = json.loads((Path(found.origin).parent / "meta.json").read_text("utf-8"))
        components = {*meta["pipeline"]} - {*meta.get("disabled", ())}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return meta.get("lang") == language and components >= needs


@functools.cache
def is_intact(distribution: str) -> bool:
    """Checks that a package's files have the digests of its list of files, and that its requirements are installed.

    Returns:
        False also if the package has no list, or is too large to read.
    """
    try:
        listed = importlib.metadata.files(distribution) or ()
        files = [(Path(str(file.locate())), file.hash) for file in listed if file.hash is not None]
        if not files or sum(path.stat().st_size for path, _ in files) > _LARGEST:
            return False
        if any(hashlib.new(h.mode, path.read_bytes()).digest() != _decoded(h.value) for path, h in files):
            return False
        return _has_requirements(distribution, set())
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        return False


def _decoded(digest: str) -> bytes:
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))


def _has_requirements(distribution: str, seen: set[str]) -> bool:
    """Checks the requirements of a package, and theirs. Raises PackageNotFoundError if one is not installed."""
    seen.add(distribution)
    for text in importlib.metadata.requires(distribution) or ():
        needed = Requirement(text)
        if needed.name in seen or not (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            continue
        if not needed.specifier.contains(importlib.metadata.version(needed.name), prereleases=True):
            return False
        if not _has_requirements(needed.name, seen):
            return False
    return True
