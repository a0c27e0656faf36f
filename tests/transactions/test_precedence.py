"""Tests of the order of checks in each handler, which returns the error of the first failing check.

The rows of each table are in the order of the checks. The call of a row causes the error of this
row and of all rows below it. The call of the last row causes no error. The id "x" is complete,
"open" has an open transaction, "ending" is between Prepare and Complete, and "none" is unknown.
"""

from __future__ import annotations

import pytest

from protocol.errors import NAMES
from tests.aligned import rows
from tests.transactions.driver import Driver
from transactions.calls import (
    TV2,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    VerifyPartitions,
)


@pytest.fixture
def driver() -> Driver:
    """Returns a driver with three transactional ids. Producer 1000 owns "x" at epoch 1, 1001 owns
    "open" at epoch 0, and 1002 owns "ending" at epoch 1."""
    driver = Driver(max_record_bytes=700)
    for producer_id, name in enumerate(("x", "open", "ending"), 1000):
        driver.handle(InitProducerId("i", name, 1000, -1, -1))
        driver.handle(AddPartitions("a", name, producer_id, 0, [("t", [0])], TV2))
        if name != "open":
            driver.handle(EndTransaction("e", name, producer_id, 0, True, TV2))
        if name == "x":
            driver.write_markers()
    return driver


INIT = """
id     | timeout | pid  | epoch | error
ending | 900001  | 7    | 9     | INVALID_TRANSACTION_TIMEOUT
ending | 0       | 7    | 9     | INVALID_TRANSACTION_TIMEOUT
ending | 900000  | 7    | 9     | CONCURRENT_TRANSACTIONS
ending | 900000  | 1002 | 1     | CONCURRENT_TRANSACTIONS
open   | 900000  | 7    | 9     | PRODUCER_FENCED
open   | 900000  | 1001 | 9     | CONCURRENT_TRANSACTIONS
x      | 900000  | 7    | 9     | PRODUCER_FENCED
x      | 900000  | 1000 | 9     | PRODUCER_FENCED
x      | 900000  | 1000 | 1     | NONE
none   | 900000  | 7    | 9     | NONE
"""


@pytest.mark.parametrize(("name", "timeout", "pid", "epoch", "error"), rows(INIT))
def test_init_producer_id_returns_the_error_of_its_first_failing_check(
    driver: Driver, name: str, timeout: str, pid: str, epoch: str, error: str
) -> None:
    call = InitProducerId("t", name, int(timeout), int(pid), int(epoch))
    assert NAMES[driver.error(call)] == error


ADD = """
id     | pid  | epoch | partitions | error
none   | 7    | 9     | 999        | INVALID_PRODUCER_ID_MAPPING
ending | 7    | 9     | 999        | CONCURRENT_TRANSACTIONS
x      | 7    | 9     | 999        | INVALID_PRODUCER_ID_MAPPING
x      | 1000 | 9     | 999        | PRODUCER_FENCED
x      | 1000 | 0     | 999        | PRODUCER_FENCED
x      | 1000 | 1     | 999        | UNKNOWN_SERVER_ERROR
open   | 1001 | 0     | 999        | UNKNOWN_SERVER_ERROR
x      | 1000 | 1     | 100        | NONE
"""


@pytest.mark.parametrize(("name", "pid", "epoch", "partitions", "error"), rows(ADD))
def test_add_partitions_returns_the_error_of_its_first_failing_check(
    driver: Driver, name: str, pid: str, epoch: str, partitions: str, error: str
) -> None:
    before = len(driver.log)
    added = [("t", range(int(partitions)))]
    call = AddPartitions("t", name, int(pid), int(epoch), added, TV2)
    assert NAMES[driver.error(call)] == error
    assert (len(driver.log) > before) == (error == "NONE"), "all or nothing"


VERIFY = """
id     | pid  | epoch | partition | error
none   | 7    | 9     | 5         | INVALID_PRODUCER_ID_MAPPING
ending | 7    | 9     | 5         | INVALID_PRODUCER_ID_MAPPING
ending | 1002 | 9     | 5         | PRODUCER_FENCED
ending | 1002 | 1     | 5         | CONCURRENT_TRANSACTIONS
ending | 1002 | 1     | 0         | CONCURRENT_TRANSACTIONS
open   | 1001 | 9     | 5         | PRODUCER_FENCED
open   | 1001 | 0     | 5         | TRANSACTION_ABORTABLE
x      | 1000 | 1     | 0         | TRANSACTION_ABORTABLE
open   | 1001 | 0     | 0         | NONE
"""


@pytest.mark.parametrize(("name", "pid", "epoch", "partition", "error"), rows(VERIFY))
def test_verify_partitions_returns_the_error_of_its_first_failing_check(
    driver: Driver, name: str, pid: str, epoch: str, partition: str, error: str
) -> None:
    call = VerifyPartitions("t", name, int(pid), int(epoch), [("t", [int(partition)])])
    [code] = driver.answer(call)
    assert NAMES[code] == error
    verified = driver.shard.view.verify(name, int(pid), int(epoch), "t", int(partition))
    assert verified == code


END = """
id     | pid  | epoch | rules | error
none   | 7    | 9     | 1     | INVALID_PRODUCER_ID_MAPPING
ending | 7    | 9     | 1     | INVALID_PRODUCER_ID_MAPPING
ending | 1002 | 9     | 1     | PRODUCER_FENCED
ending | 1002 | 1     | 1     | CONCURRENT_TRANSACTIONS
x      | 7    | 9     | 1     | INVALID_PRODUCER_ID_MAPPING
x      | 1000 | 9     | 1     | PRODUCER_FENCED
x      | 1000 | 0     | 1     | PRODUCER_FENCED
x      | 1000 | 1     | 1     | NONE
none   | 7    | 9     | 2     | INVALID_PRODUCER_ID_MAPPING
ending | 7    | 9     | 2     | CONCURRENT_TRANSACTIONS
ending | 1002 | 9     | 2     | CONCURRENT_TRANSACTIONS
open   | 7    | 0     | 2     | INVALID_PRODUCER_ID_MAPPING
open   | 1001 | 9     | 2     | PRODUCER_FENCED
x      | 7    | 9     | 2     | INVALID_PRODUCER_ID_MAPPING
x      | 7    | 0     | 2     | INVALID_PRODUCER_ID_MAPPING
x      | 1000 | 9     | 2     | PRODUCER_FENCED
x      | 1000 | 1     | 2     | INVALID_TXN_STATE
x      | 1000 | 0     | 2     | NONE
open   | 1001 | 0     | 2     | NONE
"""


@pytest.mark.parametrize(("name", "pid", "epoch", "rules", "error"), rows(END))
def test_end_transaction_returns_the_error_of_its_first_failing_check(
    driver: Driver, name: str, pid: str, epoch: str, rules: str, error: str
) -> None:
    call = EndTransaction("t", name, int(pid), int(epoch), True, int(rules))
    assert NAMES[driver.error(call)] == error


@pytest.mark.parametrize(
    ("name", "error"), [("none", "TRANSACTIONAL_ID_NOT_FOUND"), ("x", "NONE"), ("ending", "NONE")]
)
def test_describe_transaction_returns_the_error_of_its_first_failing_check(
    driver: Driver, name: str, error: str
) -> None:
    assert NAMES[driver.error(DescribeTransaction("t", name))] == error
