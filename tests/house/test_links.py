"""Every link of the pages leads to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_there_are_pages() -> None:
    assert len(PAGES) > 30


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    path = ROOT / page
    broken = []
    for link in LINK.findall(path.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"`((?:[a-z_0-9-]+/)+[a-z_0-9]+\.(?:py|md|yml|json))`", text)
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    gone = [name for name in named if name.split("/")[0] in tops and not (ROOT / name).exists()]

    assert gone == []
