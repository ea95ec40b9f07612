"""Gathers the pages of the documentation site for mkdocs (``make site``).

The pages come from ``docs/`` and the repository's root, where their links work as well. This module needs only Python,
because mkdocs has an environment of its own (``requirements-site.lock``).

    python -m flows.docs.site build
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[2]
ROOT_PAGES: Final = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the repository's root, with their names on the site."""

COPIES: Final = "files"
"""Folder of the site for repository files that pages link to."""

GUIDES: Final = "How to"
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Start": ("index.md", "installing.md", "faq.md"),
    "Tutorials": (
        "tutorials/README.md",
        *(f"tutorials/{name}.md" for name in ("chat-logs", "improve", "auditing", "comparing", "people", "nightly")),
        "tutorials/*",
    ),
    GUIDES: (
        "corpora.md",
        "policies.md",
        "reviewing.md",
        "models.md",
        "methods.md",
        "audit.md",
        "releasing.md",
        "signing.md",
        "inspecting.md",
        "engine.md",
        "extending.md",
        "deploying.md",
        "encryption.md",
        "scale.md",
    ),
    "Reference": ("commands.md", "settings.md", "formats.md", "api/"),
    "Explanation": ("concepts.md", "security.md", "sharp_edges.md"),
    "Evidence": ("reproductions.md", "papers/*", "orderings.md", "gpu.md"),
    "Project": ("architecture.md", "decisions/", "contributing.md", "changelog.md"),
}
"""Pages by section. ``*`` is every page of a folder, and a folder is a section inside it, by its name in `FOLDERS`.
A page that is not listed comes last among the guides.
"""
FOLDERS: Final = {"api/": "The API", "decisions/": "Decisions"}

SOUGHT: Final[dict[str, str]] = {
    "installing.md": "pip, pipx, wheel, offline, air gap, telemetry, internet, CVE",
    "faq.md": "FAQ, glossary, terminology, comparison, alternatives",
    "concepts.md": "epsilon, delta, privacy budget, DP, user-level privacy, group privacy",
    "corpora.md": "import, Slack, WhatsApp, Teams, Outlook, e-mail, transcripts, CSV, JSON, Excel",
    "policies.md": "anonymise, anonymize, anonymisation, anonymization, de-identify, deidentify, PII, PHI, "
    "redaction, pseudonymise, pseudonymize, scrub, NER, Presidio, GLiNER, masking",
    "reviewing.md": "annotate, annotation, labelling, labeling, recall, false negatives",
    "models.md": "train, fine-tune, finetune, LoRA, Llama, SmolLM2, batch size, learning rate",
    "methods.md": "DP-SGD, CRT, JFT",
    "audit.md": "membership inference, MIA, memorisation, memorization, leakage, canary, red team",
    "releasing.md": "publish, share, upload, Hub, model card, synthetic data, vLLM",
    "signing.md": "GDPR, DSGVO, RGPD, CCPA, HIPAA, data protection officer, lawyer, compliance, anonymous",
    "inspecting.md": "polars, pandas, Parquet, SQL",
    "engine.md": "Opacus, PrivacyEngine, Trainer, accelerate, PyTorch",
    "deploying.md": "cron, schedule, Airflow, Docker, Kubernetes, systemd, backup, Prometheus, right to be forgotten, "
    "erasure, delete, unlearning",
    "security.md": "vulnerability, attacker, adversary",
}
"""Words that people type into the search of the site, by the page that answers. They need not stand on that page."""

_LINK: Final = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
_FENCE: Final = re.compile(r"\s*```")
_ITEM: Final = re.compile(r"(-|\d+\.) ")


def sources() -> dict[str, Path]:
    """Returns every file of the site by its name there: the files of ``docs/`` and the root's pages."""
    docs = {p.relative_to(_ROOT / "docs").as_posix(): p for p in (_ROOT / "docs").rglob("*") if p.is_file()}
    return {**docs, **{name: _ROOT / source for source, name in ROOT_PAGES.items()}}


def navigation(pages: list[str]) -> list[dict[str, list[Any]]]:
    """Returns mkdocs' ``nav`` with every page once."""
    left = sorted(pages)
    nav: dict[str, list[Any]] = {}
    for section, names in SECTIONS.items():
        nav[section] = []
        for name in names:
            taken = [p for p in left if (p.startswith(name.rstrip("*")) if name.endswith(("*", "/")) else p == name)]
            nav[section] += [{FOLDERS[name]: taken}] if taken and name in FOLDERS else taken
            left = [p for p in left if p not in taken]
    nav[GUIDES] += left
    return [{section: found} for section, found in nav.items() if found]


def page(text: str, source: Path, names: dict[Path, str]) -> str:
    """Converts a page for the site.

    Links of the repository become links to the site's page of that name, or to a copy of the file. Lists get the form
    that only Python-Markdown needs: a blank line before a list, four spaces inside an item.

    Args:
        text: page as Markdown
        source: path of the page
        names: names on the site by path; this function adds the files that the page links to
    """
    here = posixpath.dirname(names[source]) or "."

    def link(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if "://" in match[1] or not target.is_file():
            return match[1]  # mkdocs refuses a link to a missing page
        name = names.setdefault(target, f"{COPIES}/{target.relative_to(_ROOT).as_posix()}")
        return posixpath.relpath(name, here)

    lines = [""]
    is_code, inside = False, 0  # inside: indentation of text in the current list's items
    for line in text.split("\n"):
        is_code ^= bool(_FENCE.match(line))
        item = None if is_code else _ITEM.match(line)
        if item and not inside and lines[-1]:
            lines.append("")
        if item:
            inside = item.end()
        elif line and not line.startswith(" " * inside):
            inside = 0
        shown = line if is_code else _LINK.sub(link, line)
        lines.append(" " * (4 - inside) + shown if inside and line and not item else shown)
    return "\n".join(lines[1:])


def gather(out: Path) -> None:
    """Writes ``out/site-pages`` and ``out/mkdocs.json``, which adds the navigation to ``mkdocs.yml``.

    Args:
        out: folder for both; their earlier versions are removed
    """
    pages, found = out / "site-pages", sources()
    names = {path.resolve(): name for name, path in found.items()}
    shutil.rmtree(pages, ignore_errors=True)
    written: set[Path] = set()
    while left := [path for path in names if path not in written]:
        for source in left:
            to = pages / names[source]
            to.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix == ".md":
                sought = SOUGHT.get(names[source])
                tags = f"---\ntags: {json.dumps(sought.split(', '))}\n---\n" if sought else ""
                to.write_text(tags + page(source.read_text("utf-8"), source, names), "utf-8")
            else:
                shutil.copyfile(source, to)
        written.update(left)
    settings = {
        "INHERIT": str(_ROOT / "mkdocs.yml"),
        "docs_dir": str(pages.resolve()),
        "site_dir": str((out / "site").resolve()),
        "nav": navigation([name for name in found if name.endswith(".md")]),
    }
    (out / "mkdocs.json").write_text(json.dumps(settings, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
