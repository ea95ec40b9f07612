"""The documentation site: every link leads somewhere, and the pages need nothing of others, at desk and phone width."""

from __future__ import annotations

import functools
import http.server
import os
import re
import threading
from pathlib import Path

import pytest
from support import REPOSITORY, chrome, run_command

from flows.docs import site

SITE = REPOSITORY / ".venv-site"
_LINK = re.compile(r"\]\(([^)\s]*)\)")
SEARCHES = {
    "GDPR": "signing",
    "HIPAA": "signing",
    "anonymise": "policies",
    "deidentify": "policies",
    "PII": "policies",
    "epsilon": "concepts",
    "privacy budget": "concepts",
    "right to be forgotten": "deploying",
    "docker": "deploying",
    "membership inference": "audit",
    "false negatives": "reviewing",
    "fine-tune": "models",
    "GPU": "gpu",
    "offline": "installing",
    "opacus": "engine",
    "synthetic data": "releasing",
    "whatsapp": "corpora",
    "exit code": "commands",
}
"""What people type, and the page that has to come first."""


def prose(file):
    """A page without its code."""
    return re.sub(r"^ *```.*?^ *```$|`[^`\n]*`", lambda code: code[0].replace("](", "] ("), file, flags=re.S | re.M)


def anchors(text):
    """What headings are called in links, as GitHub and the site have it."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M), re.M)
    words = [re.sub(r"[`*]|\]\([^)]*\)", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in words}


def broken(pages):
    """Links of pages that lead nowhere."""
    found = []
    for page in pages:
        for link in _LINK.findall(prose(page.read_text("utf-8"))):
            target, _, anchor = link.partition("#")
            file = (page.parent / target) if target else page
            if "://" in link or link.startswith("mailto:"):
                continue
            if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
                found.append(f"{page.name}: {link}")
    return found


def test_every_link_of_the_documentation_leads_somewhere():
    pages = [path for path in site.sources().values() if path.suffix == ".md"]
    assert len(pages) > 25
    assert broken(pages) == []


def test_every_picture_is_shown_by_a_page():
    text = "".join(path.read_text("utf-8") for path in site.sources().values() if path.suffix == ".md")
    assert [path.name for path in (REPOSITORY / "docs/images").iterdir() if f"images/{path.name}" not in text] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a.md").write_text("# One `two`\n[x](#one-two) [y](#three) [z](b.md)\n```md\n[w](c.md)\n# three\n```\n")
    assert broken([tmp_path / "a.md"]) == ["a.md: #three", "a.md: b.md"]


def test_the_readme_is_read_in_five_minutes():
    page = (REPOSITORY / "README.md").read_text("utf-8")
    text = re.sub(r"```.*?```|\]\([^)]*\)", "", page, flags=re.S)
    assert len(text.split()) < 5 * 220, "move it to docs/"
    assert len(page.splitlines()) <= 120, "move it to docs/"


def test_lists_and_links_are_written_for_the_site(tmp_path):
    source = (REPOSITORY / "docs/tutorials/some.md").resolve()
    names = {source: "tutorials/some.md", (REPOSITORY / "README.md").resolve(): "index.md"}
    code = "```sh\n{0}a [x](../../README.md)\n{0}```\n\n"
    text = "Text:\n1. one\n\n   " + code.format("   ") + "[x](../../README.md#y), [z](../../LICENSE)\n- a\n  b\n"
    wanted = (
        "Text:\n\n1. one\n\n    " + code.format("    ") + "[x](../index.md#y), [z](../files/LICENSE)\n\n- a\n    b\n"
    )
    assert site.page(text, source, names) == wanted
    assert names[(REPOSITORY / "LICENSE").resolve()] == "files/LICENSE"


def test_every_page_is_in_the_navigation_once():
    pages = ["index.md", "settings.md", "brand_new.md", "tutorials/improve.md", "api/dp.md"]
    nav = {name: found for section in site.navigation(pages) for name, found in section.items()}
    assert nav["Reference"].pop() == {"The API": [pages.pop()]}
    assert sorted(page for found in nav.values() for page in found) == sorted(pages)
    assert nav[site.GUIDES] == ["brand_new.md"]
    named = {name for names in site.SECTIONS.values() for name in names if not name.endswith(("*", "/"))}
    assert named | set(site.SOUGHT) <= set(site.sources()), "a page that is gone"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not (SITE / ".installed").exists():
        pytest.skip("mkdocs is not installed: make site")
    out = tmp_path_factory.mktemp("site")
    site.gather(out)
    command = [str(SITE / "bin/mkdocs"), "build", "--strict", "--quiet", "--config-file", str(out / "mkdocs.json")]
    done = run_command(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "site"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def first_found(browser, home, typed):
    """The page that the site's search names first."""
    browser.open(home + "index.html")
    browser.js("document.querySelector('[data-md-toggle=search]').click()")
    browser.js(f"const q = document.querySelector('.md-search__input'); q.focus(); q.value = {typed!r}")
    browser.js("q.dispatchEvent(new KeyboardEvent('keyup')); q.dispatchEvent(new Event('input'))")
    browser.wait("document.querySelectorAll('.md-search-result__item').length > 0")
    return Path(browser.js("document.querySelector('.md-search-result__link').pathname")).stem


@pytest.mark.slow
@pytest.mark.skipif(chrome.binary() is None, reason="no Chromium")
def test_the_site_needs_nothing_of_others_and_fits_a_phone(built: Path, tmp_path: Path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    browser = chrome.Chrome(tmp_path / "profile")
    try:
        for width, mobile in ((1280, False), (390, True)):
            browser.resize(width, 844, mobile=mobile)
            for file in sorted(built.rglob("*.html") if mobile else built.glob("a*.html")):
                browser.open(home + file.relative_to(built).as_posix())
                assert browser.js("document.querySelectorAll('main h1').length > 0"), file
                assert browser.js("document.documentElement.scrollWidth <= innerWidth"), (file, width)
                assert browser.js("[...document.images].every(image => image.complete && image.naturalWidth)"), file
        assert {typed: first_found(browser, home, typed) for typed in SEARCHES} == SEARCHES
    finally:
        browser.close()
        server.shutdown()
        server.server_close()
    assert browser.console == []
    assert {url for url in browser.requests if not url.startswith((home, "data:"))} == set()
