"""Parses the HTML page of the report."""

from __future__ import annotations

import re


def listed(page: str) -> dict[str, dict[str, str]]:
    """Returns the list at the top of the report, by group: each column's title with its text."""
    found = {}
    for line in re.findall(r'<tr><th scope="row">.*?</tr>', page):
        name = re.search(r"<bdi>(.*?)</bdi>", line)
        assert name
        cells = re.findall(r'data-label="(.*?)">(.*?)</td>', line)
        found[name[1]] = {label: re.sub("<.*?>", "", cell) for label, cell in cells}
    return found


def part(page: str, name: str) -> str:
    parts = re.findall(r'<section id="g\d+".*?</section>', page, re.S)
    [found] = [each for each in parts if f"<bdi>{name}</bdi></a></h2>" in each]
    return str(found)
