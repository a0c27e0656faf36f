"""The install commands in the docs work, although Muster is not in a package index."""

from __future__ import annotations

import re

import pytest

from tests.house.test_links import PAGES

_BY_NAME = re.compile(r"pip install [^\n`]*?(?<![/\w])musterd(\[\w+\])?(?![\w\[-]| @ git\+)")
"""Matches `pip install` commands that would search for Muster in a package index."""
_ADDS = "installed already, `pip install 'musterd[light]'` adds the extra."
"""A text in the docs that the check does not report. The text says that Muster is installed
already, so pip does not search for Muster in a package index."""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pip install musterd", True),
        ("pip install pytest 'musterd[light]'", True),
        ("pip install dist/musterd-*.whl pytest", False),
        ("pip install 'musterd[light] @ git+URL'", False),
        ("pip install git+URL", False),
    ],
)
def test_pattern_matches_install_commands_that_need_a_package_index(
    line: str, expected: bool
) -> None:
    assert bool(_BY_NAME.search(line)) is expected


def test_pages_do_not_install_muster_from_a_package_index() -> None:
    found = [
        f"{page.name}: {match[0]}"
        for page in PAGES
        for match in _BY_NAME.finditer(page.read_text().replace(_ADDS, ""))
    ]

    assert found == []
