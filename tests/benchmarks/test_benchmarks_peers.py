"""A peer's environment is made once, is not ours, and is left whole or not at all; no package of an index is needed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    specification = importlib.util.spec_from_file_location("peers", BENCHMARKS / "peers.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    package.mkdir()
    (package / "only_theirs.py").write_text("NAME = 'theirs'\n")
    wheel = tmp_path / "only_theirs-1.0-py3-none-any.whl"
    write_wheel(wheel, package / "only_theirs.py")
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "theirs.txt").write_text(f"{wheel}\n")
    return folder


def write_wheel(path: Path, module: Path) -> None:
    import zipfile

    info = "only_theirs-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.write(module, module.name)
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: only-theirs\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", f"{module.name},,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


SCRIPT = """
import importlib.util, json, os, sys
import only_theirs
print("a line that is no JSON")
ours = [name for name in ("pipelines", "numpy", "pytest") if importlib.util.find_spec(name)]
print(json.dumps({"name": only_theirs.NAME, "ours": ours, "told": sys.argv[1:], "variable": os.environ.get("TOLD")}))
"""


@pytest.mark.slow
def test_a_script_runs_on_what_is_pinned_and_sees_nothing_of_ours(peers, requirements, tmp_path, monkeypatch, capsys):
    script, home = tmp_path / "script.py", tmp_path / "home"
    script.write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS.parent))
    run = lambda: peers.run("theirs", script, "a", folder=home, requirements=requirements, variables={"TOLD": "x"})  # noqa: E731
    assert run() == {"name": "theirs", "ours": [], "told": ["a"], "variable": "x"}
    assert importlib.util.find_spec("only_theirs") is None  # our own environment is as it was
    assert "making an environment for theirs" in capsys.readouterr().err
    assert run()["name"] == "theirs"
    assert capsys.readouterr().err == ""  # the second time it is there

    # Another list is another environment, and one that cannot be made leaves nothing.
    there = list(home.iterdir())
    (requirements / "theirs.txt").write_text(f"{tmp_path / 'missing-1.0-py3-none-any.whl'}\n")
    with pytest.raises(peers.PeerError, match=r"no environment for theirs: .*missing-1\.0"):
        peers.python_of("theirs", home, requirements)
    assert list(home.iterdir()) == there


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit('it broke')", "it broke"),
        ("raise SystemExit(3)", "code 3"),
        ("print('x')", "no JSON"),
        ("", "no JSON"),
    ],
)
def test_a_script_that_fails_is_told(peers, code, told):
    with pytest.raises(peers.PeerError, match=told):
        peers.json_of([sys.executable, "-c", code], {})


def test_every_peer_has_a_list_of_pins():
    lists = sorted((BENCHMARKS / "requirements").glob("*.txt"))
    assert [path.stem for path in lists] == ["datatrove", "dolma", "rbloom"]
    for path in lists:
        lines = path.read_text().splitlines()
        assert all(line.count("==") == 1 for line in lines)
        assert any(line.startswith(f"{path.stem}==") for line in lines)
