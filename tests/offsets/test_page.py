"""The codec writes the same bytes as the worked examples in docs/formats/consumer-offsets.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from offsets.own_batches import own_batch
from offsets.record_codec import run_records
from offsets.runs import (
    GroupMember,
    GroupRun,
    GroupValue,
    MarkerRun,
    OffsetRun,
    OffsetTombstones,
    Run,
    TransactionalRun,
)
from offsets.section_reader import runs_of_section
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareGroupRun,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from offsets.streams_records import (
    InternalTopic,
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsGroupRun,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    Subtopology,
    TaskRoles,
    Topology,
)
from protocol.records.batch import PLAIN_FORM, read_header, section_of
from protocol.records.markers import transaction_end

PAGE = Path(__file__).parent.parent.parent / "docs" / "formats" / "consumer-offsets.md"
AT_MS = 1_700_000_000_000

MEMBER = GroupMember("c-1", None, "c", "/10.0.0.7", 60_000, 10_000, b"\1\2", b"\3")
JOBS = b"\7" * 16
SHARE_RECORDS: list[ShareRecord] = [
    ShareMemberRecord("m-1", ShareMemberMetadata(None, "c", "/10.0.0.7", ("jobs",))),
    ShareEpochRecord(ShareGroupEpoch(3, 5)),
    ShareTargetRecord("m-1", {JOBS: (0, 1)}),
    ShareTargetEpochRecord(ShareTargetEpoch(3, AT_MS)),
    ShareCurrentRecord("m-1", ShareCurrentAssignment(3, 2, 0, {JOBS: (0, 1)})),
    StatePartitionsRecord(StatePartitions({}, {JOBS: ("jobs", (0, 1))}, {})),
]
CHANGELOG = InternalTopic("app-s-changelog", configs=(("cleanup.policy", "compact"),))
STREAMS_RECORDS: list[StreamsRecord] = [
    StreamsMemberRecord(
        "m-1", StreamsMemberMetadata(None, None, "c", "/10.0.0.7", 60_000, 0, "p-1")
    ),
    StreamsTopologyRecord(
        Topology(0, (Subtopology("0", ("jobs",), state_changelog_topics=(CHANGELOG,)),))
    ),
    StreamsEpochRecord(StreamsGroupEpoch(3, 5, 0, (("num.standby.replicas", "0"),))),
    StreamsTargetRecord("m-1", TaskRoles({"0": (0, 1)})),
    StreamsTargetEpochRecord(StreamsTargetEpoch(3, AT_MS)),
    StreamsCurrentRecord("m-1", StreamsCurrentAssignment(3, 2, 1, {"0": {0: 2, 1: 3}})),
]
EXAMPLE = [
    OffsetRun("shop", "orders", [0], [42], [5], None, AT_MS),
    OffsetRun("shop", "orders", [1], [9], [-1], ["mine"], AT_MS, AT_MS + 600_000),
    OffsetTombstones("shop", [("orders", 3)]),
    GroupRun("shop", GroupValue("consumer", 2, "range", "c-1", AT_MS, [MEMBER])),
    *(ShareGroupRun("work", [record]) for record in SHARE_RECORDS),
    *(StreamsGroupRun("app", [record]) for record in STREAMS_RECORDS),
]


def examples() -> list[bytes]:
    blocks = re.findall(r"```hex\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [
        bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines()))
        for block in blocks
    ]


def test_example_of_the_offsets_page_is_read_and_written() -> None:
    records = examples()[: len(EXAMPLE)]
    assert [run_records(run, 0) for run in EXAMPLE] == records
    assert [read(data) for data in records] == EXAMPLE


def test_transaction_example_of_the_offsets_page_is_read_and_written() -> None:
    batches = examples()[len(EXAMPLE) :]
    pending = OffsetRun("shop", "orders", [1], [8], [-1], None, AT_MS)
    marker = MarkerRun(4001, 3, 5, True)
    transactional = TransactionalRun(4001, 2, [pending])
    assert own_batch(transactional, PLAIN_FORM, 39, 0, AT_MS)[0] == batches[0]
    assert own_batch(marker, PLAIN_FORM, 40, 0, AT_MS + 1)[0] == batches[1]
    assert read(section_of(batches[0], read_header(batches[0]))) == pending
    assert transaction_end(batches[1], read_header(batches[1])) == (True, 5)


def read(section: bytes) -> Run:
    """Returns the run in a section that contains one run. The columns of the run are lists."""
    [(_, run)] = runs_of_section(section, 0, 1)
    if not isinstance(run, OffsetRun):
        return run
    partitions, offsets, epochs = map(list, (run.partitions, run.offsets, run.leader_epochs))
    return replace(run, partitions=partitions, offsets=offsets, leader_epochs=epochs)


def test_every_file_that_the_offsets_page_names_exists() -> None:
    root = PAGE.parents[2]
    named = re.findall(r"`(offsets/\w+\.py)`", PAGE.read_text())
    assert len(named) >= 5
    assert [name for name in named if not (root / name).exists()] == []
