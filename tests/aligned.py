"""Parses aligned text tables into test parameters."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def rows(table: str) -> list[ParameterSet]:
    """Returns the rows of a table as test parameters. A cell "-" becomes an empty string. The
    dashed line below the header is skipped."""
    lines = [
        [cell.strip() for cell in line.split("|")]
        for line in table.strip().splitlines()
        if not line.startswith("---")
    ]
    cells = [["" if cell == "-" else cell for cell in line] for line in lines[1:]]
    return [pytest.param(*line, id=" ".join(line)) for line in cells]
