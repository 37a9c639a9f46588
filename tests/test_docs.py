"""Rules about the documentation that running its blocks doesn't show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopwarden.transcripts import FORMATS, NOTE_KINDS

pytestmark = pytest.mark.tree

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MAX_LINES = 250

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def prose(path: Path) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = (re.sub(r"[^\w\- ]", "", text).strip().lower() for text in HEADING.findall(prose(path)))
    return {heading.replace(" ", "-") for heading in headings}


def test_every_format_has_its_row() -> None:
    text = (DOCS / "guides" / "formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9][a-z0-9-]*)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(reader.name for reader in FORMATS)


def test_every_note_is_explained() -> None:
    text = (DOCS / "guides" / "formats.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9]+(?:_[a-z0-9]+)+)` \| (.+) \|$", text, re.MULTILINE))
    assert rows == NOTE_KINDS


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_names_every_page() -> None:
    named = {(DOCS / link).resolve() for link in LINK.findall(prose(DOCS / "README.md"))}
    assert [page for page in PAGES if page not in named and page != DOCS / "README.md"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
