"""Aligned tables as the parameters of a test."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def rows(table: str) -> list[ParameterSet]:
    """Returns a table's rows as parameters; "-" is an empty cell, and the rule of dashes is left
    out."""
    lines = [
        [cell.strip() for cell in line.split("|")]
        for line in table.strip().splitlines()
        if not line.startswith("---")
    ]
    cells = [["" if cell == "-" else cell for cell in line] for line in lines[1:]]
    return [pytest.param(*line, id=" ".join(line)) for line in cells]
