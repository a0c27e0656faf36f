"""Tests the formats of group records in clusters in which a broker of an earlier Kafka version may
become the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cluster.coordinators.old_forms import for_fellows
from broker.cluster.peers.inter_broker import parse
from broker.cores.runtime_settings import RuntimeSettings
from offsets.partitioner import partition_for
from protocol.errors import NONE, UNSUPPORTED_VERSION
from protocol.records.stored import iter_stored, stored_records
from tests.broker.cluster.coordinating import CoordinatingBroker
from tests.broker.edge import GROUPS

GROUP = next(name for name in ("a", "b", "c", "d") if partition_for(name, 2) == 0)
GROUP_KEY, OFFSET_KEY = b"\0\2", b"\0\1"


def settings_for_version(version: str, message_format: str = "0.10.2") -> RuntimeSettings:
    return for_fellows(RuntimeSettings(GROUPS), parse(version), message_format)


def recorded(broker: CoordinatingBroker) -> tuple[set[int], dict[bytes, int]]:
    """Reads the log of partition 0. Returns the magic of its batches and, for each type of key, the
    version of the last value."""
    data = b"".join(path.read_bytes() for path in broker.directory.glob("*-0/*.log"))
    magics, versions = set(), {}
    for header, _ in iter_stored(data):
        magics.add(header.magic)
        for record in stored_records(data, header):
            assert record.key is not None
            if record.value is not None:
                versions[record.key[:2]] = int.from_bytes(record.value[:2], "big")
    return magics, versions


@pytest.mark.proves("clusters 25")
@pytest.mark.parametrize(
    ("version", "magic", "of_groups", "of_offsets"),
    [
        ("0.10.2", 1, 1, 1),
        ("2.1-IV0", 1, 1, 1),
        ("2.1", 1, 2, 3),
        ("2.3", 1, 3, 3),
        ("3.0", 2, 3, 3),
    ],
)
async def test_group_records_have_versions_that_an_older_broker_can_decode(
    version: str, magic: int, of_groups: int, of_offsets: int, tmp_path: Path
) -> None:
    """A value of an unknown version makes the load of a whole partition fail."""
    async with CoordinatingBroker(tmp_path, settings=settings_for_version(version)) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        assert await client.commit(GROUP, 5) == NONE
        await client.join_alone(GROUP)
        assert recorded(broker) == ({magic}, {GROUP_KEY: of_groups, OFFSET_KEY: of_offsets})

        broker.follow()
        broker.lead(epoch=3)
        await broker.serves()
        assert await client.fetch(GROUP) == 5, "it is read back"


async def test_static_members_are_refused_if_group_records_cannot_contain_instance_ids(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path, settings=settings_for_version("2.2")) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        asked = client.send_join(GROUP, instance_id="one")
        assert (await client.receive(asked))["error_code"] == UNSUPPORTED_VERSION


def test_offset_record_has_retention_time_below_inter_broker_protocol_2_1() -> None:
    assert settings_for_version("2.0").core.commit_retention_ms == GROUPS.offsets_retention_ms
    assert settings_for_version("2.1").core.commit_retention_ms == -1


def test_zstd_is_not_used_for_batches_of_magic_1() -> None:
    settings = RuntimeSettings(GROUPS, compression=4)
    assert for_fellows(settings, parse("2.8"), "0.11.0").compression == 4
    assert for_fellows(settings, parse("2.8"), "0.10.2").compression == 0
