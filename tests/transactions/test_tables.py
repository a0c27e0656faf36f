"""Tests of the outcome of each request in each state of a transactional id, for both transaction
versions.

A cell of a table has the error code, or the state of the id after the request. The row "again" is a
request with the previous epoch. This row applies only to ids that have had more than one epoch.
"""

from __future__ import annotations

import pytest

from protocol.errors import NAMES
from tests.aligned import rows
from tests.transactions.driver import FIRST_ID, Driver
from transactions import tables
from transactions.calls import (
    TV1,
    TV2,
    AddPartitions,
    Call,
    EndTransaction,
    InitProducerId,
    MarkersRefused,
    MarkersWritten,
    VerifyPartitions,
)
from transactions.states import LEGAL_PREVIOUS, State


def in_state(state: State) -> Driver:
    """Returns a driver in which producer 1000 owns the transactional id "x" in ``state``, with an
    epoch above 0 and TV2."""
    driver = Driver()
    epoch = 0
    driver.handle(InitProducerId("i", "x", 1000, -1, -1))
    if state is State.EMPTY:
        driver.handle(InitProducerId("i", "x", 1000, FIRST_ID, 0))
        return driver
    driver.handle(EndTransaction("e", "x", FIRST_ID, epoch, False, TV2))
    driver.write_markers()
    driver.handle(AddPartitions("a", "x", FIRST_ID, 1, [("t", [0])], TV2))
    if state is State.ONGOING:
        return driver
    commits = state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    driver.handle(EndTransaction("e", "x", FIRST_ID, 1, commits, TV2))
    if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        driver.write_markers()
    return driver


def outcome(driver: Driver, call: Call) -> str:
    """Returns the error code of a call. If the call wrote a record, the new state of the
    transactional id follows the code."""
    before = len(driver.log)
    reply = driver.answer(call)
    error = reply[0] if isinstance(reply, list) else getattr(reply, "error_code", reply)
    moved = driver.get("x").state.wire_name if len(driver.log) > before else ""
    if error == 0:
        return f"0 {moved}".strip()
    return f"{error} {moved}".strip()


REQUESTS = """
request         | Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort
init            | 0 Empty | 51 PrepareAbort | 51 | 51 | 0 Empty | 0 Empty
init own        | 0 Empty | 51 PrepareAbort | 51 | 51 | 0 Empty | 0 Empty
init before     | 0 Empty | 51 PrepareAbort | 51 | 51 | 0 Empty | 0 Empty
init other      | 90 | 90 | 51 | 51 | 90 | 90
add             | 0 Ongoing | 0 Ongoing | 51 | 51 | 0 Ongoing | 0 Ongoing
add known       | 0 Ongoing | 0 | 51 | 51 | 0 Ongoing | 0 Ongoing
add before      | 90 | 90 | 51 | 51 | 90 | 90
add other       | 49 | 49 | 51 | 51 | 49 | 49
verify          | 120 | 0 | 51 | 51 | 120 | 120
verify before   | 90 | 90 | 90 | 90 | 90 | 90
verify other    | 49 | 49 | 49 | 49 | 49 | 49
commit tv1      | 48 | 0 PrepareCommit | 51 | 51 | 0 | 48
abort tv1       | 48 | 0 PrepareAbort | 51 | 51 | 48 | 0
commit tv1 before | 90 | 90 | 90 | 90 | 90 | 90
commit tv1 other | 49 | 49 | 49 | 49 | 49 | 49
commit tv2      | 48 | 0 PrepareCommit | 51 | 51 | 48 | 48
abort tv2       | 0 PrepareAbort | 0 PrepareAbort | 51 | 51 | 0 PrepareAbort | 0 PrepareAbort
commit tv2 before | 90 | 90 | 51 | 51 | 0 | 90
abort tv2 before | 90 | 90 | 51 | 51 | 48 | 0
commit tv2 other | 49 | 49 | 51 | 51 | 49 | 49
written         | 0 | 0 | 0 CompleteCommit | 0 CompleteAbort | 0 | 0
refused         | 0 | 0 | 0 CompleteCommit | 0 CompleteAbort | 0 | 0
written before  | 0 | 0 | 0 | 0 | 0 | 0
"""
STATES = [state for state in State if state is not State.DEAD]


def made(request: str, driver: Driver) -> Call:
    """Returns the call that the row ``request`` describes."""
    verb, *words = request.split()
    value = driver.get("x").value
    producer_id, epoch = value.producer_id, value.producer_epoch
    if "other" in words:
        producer_id = 7
    if "before" in words:
        epoch -= 1
    owner = ("t", "x", producer_id, epoch)
    match verb:
        case "init" if not words:
            return InitProducerId("t", "x", 1000, -1, -1)
        case "init":
            return InitProducerId("t", "x", 1000, producer_id, epoch)
        case "add":
            return AddPartitions(*owner, [("t", [0 if "known" in words else 1])], TV2)
        case "verify":
            return VerifyPartitions(*owner, [("t", [0])])
        case "written":
            return MarkersWritten(*owner)
        case "refused":
            return MarkersRefused(*owner, 47)
        case _:
            return EndTransaction(*owner, verb == "commit", TV2 if "tv2" in words else TV1)


@pytest.mark.parametrize(("request_name", *(each.wire_name for each in STATES)), rows(REQUESTS))
def test_each_request_in_each_transaction_state_has_the_expected_outcome(
    request_name: str,
    Empty: str,
    Ongoing: str,
    PrepareCommit: str,
    PrepareAbort: str,
    CompleteCommit: str,
    CompleteAbort: str,
) -> None:
    cells = (Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort)
    got = []
    for state in STATES:
        driver = in_state(state)
        assert driver.get("x").state is state
        got.append(outcome(driver, made(request_name, driver)))
    assert got == list(cells)


def test_every_transaction_table_in_the_code_has_every_state() -> None:
    plain = (
        tables.INIT_PRODUCER_ID,
        tables.ADD_PARTITIONS,
        tables.VERIFY_PARTITIONS,
        tables.END_TV1,
        *tables.END_TV2.values(),
        tables.MARKERS,
        tables.DESCRIBE,
    )
    for table in plain:
        assert set(table) == set(State)


def test_every_error_code_in_the_transaction_tables_has_a_name() -> None:
    cells = [
        *tables.INIT_PRODUCER_ID.values(),
        *tables.ADD_PARTITIONS.values(),
        *(cell for pair in tables.END_TV1.values() for cell in pair),
    ]
    assert all(isinstance(cell, tables.Act) or cell in NAMES for cell in cells)


def test_requests_cause_only_legal_state_transitions() -> None:
    for state in STATES:
        for request, *_ in [case.values for case in rows(REQUESTS)]:
            driver = in_state(state)
            driver.handle(made(str(request), driver))
            now = driver.get("x").state
            assert now is state or state in LEGAL_PREVIOUS[now]
