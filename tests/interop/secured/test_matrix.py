"""Requests and rights, cell by cell: Muster and Apache Kafka 4.3.1 are asked at the same time.

What Kafka answers stands in the table too, so that nothing can agree by accident. `BROKER=kafka`
asks Kafka alone.
"""

from __future__ import annotations

import re

import pytest

from tests.brokers import KIND
from tests.interop.secured.brokers import Secured
from tests.interop.secured.matrix import Cell, Side, told
from tests.interop.secured.table.whole import CELLS, GROUPS, TOPICS, TRANSACTIONS

pytestmark = pytest.mark.interop


@pytest.fixture(scope="session")
def kafka_side(kafka: Secured) -> Side:
    """Apache Kafka with all that the cells need."""
    side = Side("Kafka", kafka)
    side.prepare(CELLS, TOPICS, GROUPS, TRANSACTIONS)
    return side


@pytest.fixture(scope="session")
def muster_side(secured: Secured) -> Side:
    """Muster with the same."""
    side = Side("Muster", secured)
    side.prepare(CELLS, TOPICS, GROUPS, TRANSACTIONS)
    return side


@pytest.mark.parametrize("cell", CELLS, ids=[cell.id for cell in CELLS])
def test_a_cell(kafka_side: Side, request: pytest.FixtureRequest, cell: Cell) -> None:
    theirs = kafka_side.ask(cell)

    assert told(theirs) == cell.expected
    if KIND == "muster":
        muster: Side = request.getfixturevalue("muster_side")
        assert muster.ask(cell) == theirs


def test_the_table_has_what_is_denied_and_what_is_not() -> None:
    denied = [cell for cell in CELLS if re.search(r"[:,](29|30|31|53|64|65)\b", cell.expected)]
    assert len(CELLS) >= 120
    assert len(denied) >= 60
    assert len(CELLS) - len(denied) >= 60
    assert not [cell.id for cell in CELLS if "?" in cell.expected]
