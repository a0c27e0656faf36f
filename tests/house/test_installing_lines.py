"""Install commands of the docs work: Muster is on no package index."""

from __future__ import annotations

import re

import pytest

from tests.house.test_links import PAGES

_BY_NAME = re.compile(r"pip install [^\n`]*?(?<![/\w])musterd(\[\w+\])?(?![\w\[-]| @ git\+)")
"""`pip install` of Muster by its name alone."""
_ADDS = "installed already, `pip install 'musterd[light]'` adds the extra."
"""There pip accepts the installed version, and looks for no other."""


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
def test_an_install_by_name_is_found(line: str, expected: bool) -> None:
    assert bool(_BY_NAME.search(line)) is expected


def test_pages_do_not_install_muster_from_an_index() -> None:
    found = [
        f"{page.name}: {match[0]}"
        for page in PAGES
        for match in _BY_NAME.finditer(page.read_text().replace(_ADDS, ""))
    ]

    assert found == []
