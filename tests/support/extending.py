"""The plug-ins that docs/extending.md shows, as modules that can be imported."""

import re
import sys
import tomllib

from support import REPOSITORY

PAGE = REPOSITORY / "docs" / "extending.md"


def blocks(title, kind):
    """The code of one kind in a section of the page."""
    section = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.M)
    (text,) = [part for part in section if part.startswith(f"{title}\n")]
    return re.findall(rf"```{kind}\n(.*?)```", text, re.S)


def write_modules(title, folder, monkeypatch):
    """Writes the section's Python code to the files that its first lines name, and makes them importable."""
    for code in blocks(title, "python"):
        (name,) = re.findall(r"The file is (\w+)\.py", code.splitlines()[0])
        (folder / f"{name}.py").write_text(code, "utf-8")
        sys.modules.pop(name, None)  # of an earlier test
    monkeypatch.syspath_prepend(str(folder))


def write_entry_points(title, folder):
    """Writes what an installer makes of the section's entry points beside its modules."""
    (text,) = [text for text in blocks(title, "toml") if "entry-points" in text]
    found = folder / "example-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n", "utf-8")
    lines = []
    for group, points in tomllib.loads(text)["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (found / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
