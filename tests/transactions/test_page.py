"""Tests that docs/internals/transactions.md has the same tables as the code, and a correct
example."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from protocol.records.section import decode_section
from tests.transactions.test_shard import Driver
from transactions.calls import (
    TV1,
    TV2,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
)
from transactions.outcome import EndReply, InitReply
from transactions.record_codec import run_records, runs_of_records
from transactions.states import State
from transactions.values import TransactionRun, TransactionValue

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "transactions.md").read_text()
AT_MS = 1_700_000_000_000
ORDERS = (("orders", (0, 2)), ("__consumer_offsets", (7,)))
ONGOING = TransactionValue(
    4001, 3, 60_000, State.ONGOING, ORDERS, AT_MS + 250, AT_MS, client_rules=2
)
EXAMPLE = [
    TransactionRun("billing-1", ONGOING),
    TransactionRun(
        "billing-1",
        ONGOING._replace(state=State.COMPLETE_COMMIT, partitions=(), producer_epoch=4),
    ),
    TransactionRun("billing-1", None),
]
WIRE_NAMES = {state.wire_name: state for state in State}


def examples() -> list[bytes]:
    blocks = re.findall(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    return [
        bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines()))
        for block in blocks
    ]


def test_example_of_the_transactions_page_equals_the_encoded_bytes() -> None:
    assert [run_records(run, 0) for run in EXAMPLE] == examples()


def test_example_of_the_transactions_page_is_decoded() -> None:
    for run, data in zip(EXAMPLE, examples(), strict=True):
        [(_, read)] = runs_of_records(decode_section(data, 1, 0, 0, 0), Counter())
        assert read == run


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the first table after a heading of the page."""
    section = PAGE.split(f"# {heading}\n", 1)[1]
    lines = re.findall(r"^\|(.*)\|$", section.split("\n#", 1)[0], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def test_transactions_page_lists_all_states_of_the_code() -> None:
    said = {row[0].strip("`"): int(row[1]) for row in rows("The states")}
    assert said == {state.wire_name: state.number for state in State}


STATES = (
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
)


def brought_to(state: State, rules: int) -> tuple[Driver, int, int]:
    """Returns a driver with a transactional id in ``state``, and the producer id and epoch of its
    producer."""
    driver = Driver()
    [(_, reply)] = driver.handle(InitProducerId("i", "x", 60_000, -1, -1)).replies
    assert isinstance(reply, InitReply)
    producer_id, epoch = reply.producer_id, reply.producer_epoch
    if state is State.EMPTY:
        return driver, producer_id, epoch
    driver.handle(AddPartitions("a", "x", producer_id, epoch, [("t", [0])], rules))
    if state is State.ONGOING:
        return driver, producer_id, epoch
    committed = state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    driver.handle(EndTransaction("e", "x", producer_id, epoch, committed, rules))
    epoch += rules == TV2
    if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        driver.handle(MarkersWritten("m", "x", producer_id, epoch))
    return driver, producer_id, epoch


@pytest.mark.parametrize("row", rows("EndTxn"), ids=lambda row: " ".join(row[:2]))
def test_every_cell_of_the_end_txn_table_on_the_transactions_page_is_correct(
    row: list[str],
) -> None:
    rules = TV1 if row[0] == "TV1" else TV2
    committed = row[1].startswith("commit")
    for state, said in zip(STATES, row[2:], strict=True):
        driver, producer_id, epoch = brought_to(state, rules)
        asked = epoch - 1 if row[1].endswith("retry") else epoch
        call = EndTransaction("end", "x", producer_id, asked, committed, rules)
        [reply] = [reply for ticket, reply in driver.handle(call).replies if ticket == "end"]
        assert isinstance(reply, EndReply)
        assert reply.error_code == int(said), state


def test_files_that_the_transactions_page_names_exist() -> None:
    named = re.findall(r"`(transactions/\w+\.py)`", PAGE)
    assert len(named) >= 2
    assert [name for name in named if not (ROOT / name).exists()] == []
