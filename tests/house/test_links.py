"""Links in the docs lead to existing files and headings, and the files that the docs name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_link_check_covers_all_pages_in_docs() -> None:
    assert len(PAGES) > 30


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_links_of_a_page_lead_to_existing_files_and_headings(page: str) -> None:
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
def test_files_named_by_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"`((?:[a-z_0-9-]+/)+[a-z_0-9]+\.(?:py|md|yml|json))`", text)
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    gone = [name for name in named if name.split("/")[0] in tops and not (ROOT / name).exists()]

    assert gone == []
