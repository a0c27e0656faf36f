"""Muster and Apache Kafka 4.3.1 receive the same requests with the same ACLs, and must return the
same responses.

The table also contains Kafka's responses, so that the two brokers cannot be equal by accident.
`BROKER=kafka` compares only Kafka with the table.
"""

from __future__ import annotations

import re

import pytest

from tests.brokers import KIND
from tests.interop.secured.brokers import Secured
from tests.interop.secured.matrix import Cell, Side, told
from tests.interop.secured.table.whole import CELLS, GROUPS, TOPICS, TRANSACTIONS

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 21")]


@pytest.fixture(scope="session")
def kafka_side(kafka: Secured) -> Side:
    """Returns Apache Kafka, prepared with the resources and ACLs of all cells."""
    side = Side("Kafka", kafka)
    side.prepare(CELLS, TOPICS, GROUPS, TRANSACTIONS)
    return side


@pytest.fixture(scope="session")
def muster_side(secured: Secured) -> Side:
    """Returns Muster, prepared with the resources and ACLs of all cells of the matrix."""
    side = Side("Muster", secured)
    side.prepare(CELLS, TOPICS, GROUPS, TRANSACTIONS)
    return side


@pytest.mark.parametrize("cell", CELLS, ids=[cell.id for cell in CELLS])
def test_each_request_of_the_security_matrix_has_the_expected_response_of_kafka(
    kafka_side: Side, request: pytest.FixtureRequest, cell: Cell
) -> None:
    theirs = kafka_side.ask(cell)

    assert told(theirs) == cell.expected
    if KIND == "muster":
        muster: Side = request.getfixturevalue("muster_side")
        assert muster.ask(cell) == theirs


def test_security_matrix_has_at_least_60_denied_and_60_allowed_cells() -> None:
    denied = [cell for cell in CELLS if re.search(r"[:,](29|30|31|53|64|65)\b", cell.expected)]
    assert len(CELLS) >= 120
    assert len(denied) >= 60
    assert len(CELLS) - len(denied) >= 60
    assert not [cell.id for cell in CELLS if "?" in cell.expected]
