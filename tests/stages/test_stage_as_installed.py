"""``plan`` accepts policies and models whose files are as they were installed, and loads everything else."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.commands.init import OWN_POLICIES
from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError
from pipelines.policies.detectors.specs import SPECS
from pipelines.settings.as_installed import can_make, has_tokenizer, is_intact
from pipelines.settings.redact import RedactConfig

intact = is_intact.__wrapped__
"""The check without its memory of earlier answers."""

_PIPELINE = ["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner"]


def install(folder: Path, name: str, files: dict[str, bytes], requires: tuple[str, ...] = ()) -> Path:
    """Writes a package with its list of files."""
    about = folder / f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    lines = []
    for path, data in {f"{about.name}/METADATA": metadata.encode(), **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    (about / "RECORD").write_text("\n".join([*lines, f"{about.name}/RECORD,,", ""]))
    return folder


def model(**changes: object) -> dict[str, bytes]:
    meta = {"lang": "en", "pipeline": _PIPELINE, "disabled": [], **changes}
    return {"en_core_web_md/__init__.py": b"", "en_core_web_md/meta.json": json.dumps(meta).encode()}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    is_intact.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    "policies",
    [
        *(("high_entity",), ("digits", "propagate")),
        *(pytest.param(names, marks=pytest.mark.slow) for names in (OWN_POLICIES, ("high_contextual",))),
    ],
)
def test_the_installed_packages_are_accepted(policies: tuple[str, ...]) -> None:
    spec = RedactConfig(policies=policies, conservative="conservative").redactor_spec()
    assert can_make(spec)
    spec.make()


@pytest.mark.parametrize(
    "config",
    [
        {"policies": ["a.plugin:Policy"]},
        {"policies": ["presidio"], "recognizers": ["a.plugin:Recognizer"]},
        {"policies": ["presidio"], "language": "de"},
        {"policies": ["high_entity"], "language": "de"},
        {"policies": ["high_entity"], "model": "en_core_web_trf"},
        {"policies": ["high_entity"], "model": "xx_core_web_sm"},
        {"policies": ["gliner"], "gliner": "/nowhere"},
        *({"policies": [name]} for name, spec in SPECS.items() if "torch" in spec.packages and not spec.requires),
    ],
)
def test_everything_else_is_loaded(config: dict[str, object]) -> None:
    assert not can_make(RedactConfig.model_validate(config).redactor_spec())


@pytest.mark.slow
def test_every_tokenizer_that_is_found_can_be_loaded() -> None:
    found = importlib.util.find_spec("spacy")
    assert found is not None
    assert found.origin is not None
    named = [path.parent.name for path in (Path(found.origin).parent / "lang").glob("*/__init__.py")]
    usable = list(filter(has_tokenizer, named))
    assert len(usable) > 60
    assert {"en", "de", "fr", "zh"} <= {*usable}
    for language in usable:
        Splitter(language)


@pytest.mark.parametrize("language", ["qq", "ja", "..", "en/../de", "", "deu"])
def test_other_tokenizers_are_loaded(language: str) -> None:
    assert not has_tokenizer(language)


def test_settings_of_policies_are_checked_without_a_model(tmp_path: Path) -> None:
    spec = RedactConfig(policies=("names",), names_file=str(tmp_path / "missing.txt")).redactor_spec()
    with pytest.raises(ConfigError, match="names_file"):
        can_make(spec)


def test_a_model_is_refused_if_it_lacks_a_component_or_a_byte(site: Path) -> None:
    def check(**changes: object) -> bool:
        install(site, "en_core_web_md", model(**changes))
        is_intact.cache_clear()
        return can_make(RedactConfig(policies=("high_entity",), model="en_core_web_md").redactor_spec())

    assert check()
    assert not check(pipeline=["tok2vec", "tagger"])
    assert not check(disabled=["ner"])
    assert not check(lang="de")
    assert not check(pipeline=None)
    assert check()
    (site / "en_core_web_md" / "__init__.py").write_bytes(b"#")
    is_intact.cache_clear()
    assert not can_make(RedactConfig(policies=("high_entity",), model="en_core_web_md").redactor_spec())


@given(at=st.integers(0, 63), bit=st.integers(0, 7))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_changed_bit_is_found(site: Path, at: int, bit: int) -> None:
    install(site, "a_package", {"a_package/weights": bytes(64)})
    assert intact("a-package")
    data = bytearray(64)
    data[at] ^= 1 << bit
    (site / "a_package" / "weights").write_bytes(data)
    assert not intact("a-package")


def test_missing_files_requirements_and_lists_are_found(site: Path) -> None:
    install(site, "a_package", {"a_package/weights": b"1"}, ("pytest>=2", "absent-package; extra == 'more'"))
    assert intact("a-package")
    (site / "a_package" / "weights").unlink()
    assert not intact("a-package")
    for number, wanted in enumerate(("absent-package", "pytest>=9999", "another")):
        install(site, f"wants_{number}", {f"wants_{number}/a": b"1"}, (wanted,))
        install(site, "another", {}, ("absent-package",))
        assert not intact(f"wants-{number}")
    install(site, "no_list", {"no_list/a": b"1"})
    (site / "no_list-1.0.dist-info" / "RECORD").unlink()
    assert not intact("no-list")
    assert not intact("absent-package")
