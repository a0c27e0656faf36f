"""Tests ACLs in the data directory: a change takes effect when it is on disk, and concurrent
changes share a write."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from broker.authorizer.acl_store import AclFile, FileAcls
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.registry import BadDirectory
from log.files.filesystem import OsFileSystem
from security.acls.index import AclIndex
from security.acls.model import Operation, PatternType, Permission, ResourceType
from tests.broker.authorizer.peers import allow
from tests.simulated_files import SimulatedFiles
from tests.uncollected import uncollected

READ = allow("t")
DENIED = allow(
    "in", Operation.DESCRIBE_CONFIGS, "User:*", pattern=PatternType.PREFIXED,
    permission=Permission.DENY, kind=ResourceType.TRANSACTIONAL_ID,
)  # fmt: skip


def directory() -> SimulatedFiles:
    fs = SimulatedFiles()
    fs.make_directory("/data")
    return fs


async def run_inline(work: Callable[..., Any], *args: Any) -> None:
    work(*args)


def acls_on(fs: SimulatedFiles, run: Callable[..., Any] = run_inline) -> FileAcls:
    return FileAcls(fs, "/data", run, Slicer(Time()))


async def test_acl_change_takes_effect_after_it_is_on_disk() -> None:
    fs = directory()
    seen: list[tuple[int, int]] = []

    async def run(work: Callable[..., Any], *args: Any) -> None:
        work(*args)
        seen.append((len(AclFile(fs, "/data").read()), len(acls.index)))

    acls = acls_on(fs, run)
    assert await acls.change([READ, DENIED, READ], []) == {}
    assert seen == [(2, 0)]
    assert set(acls.index) == {READ, DENIED} == set(acls_on(fs).index)
    await acls.change([], [READ, allow("not there")])
    assert set(acls.index) == {DENIED} == set(acls_on(fs).index)


async def test_acl_file_has_the_keys_and_values_of_kafkas_acl_znode() -> None:
    fs = directory()
    await acls_on(fs).change([DENIED], [])
    assert json.loads(fs.written("/data/acls.json")) == {
        "version": 1,
        "acls": [
            {
                "resourceType": "TransactionalId",
                "name": "in",
                "patternType": "PREFIXED",
                "principal": "User:*",
                "permissionType": "Deny",
                "operation": "DescribeConfigs",
                "host": "*",
            }
        ],
    }


async def test_acl_change_without_effect_does_not_write_the_file() -> None:
    fs = directory()
    acls = acls_on(fs)
    await acls.change([READ], [])
    epoch, before = acls.index.epoch, len(fs.calls)
    assert await acls.change([READ], [DENIED]) == {}
    assert (acls.index.epoch, len(fs.calls)) == (epoch, before)


async def test_acl_change_does_not_take_effect_when_its_write_failed() -> None:
    fs = directory()
    acls = acls_on(fs)
    fs.fail("fsync", ".tmp", code=errno.ENOSPC)
    why = "acls.json can't be written: No space left on device"
    assert await acls.change([READ], []) == {READ: why}
    assert list(acls.index) == []
    assert await acls.change([READ], []) == {}


async def test_concurrent_acl_changes_share_the_next_file_write() -> None:
    fs = directory()
    go_on = asyncio.Event()
    writes: list[int] = []

    async def run(work: Callable[..., Any], *args: Any) -> None:
        await go_on.wait()
        work(*args)
        writes.append(len(AclFile(fs, "/data").read()))

    acls = acls_on(fs, run)
    changes = [asyncio.create_task(acls.change([allow(f"t{n}")], [])) for n in range(50)]
    await asyncio.sleep(0)
    changes.append(asyncio.create_task(acls.change([], [allow("t7")])))
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(*changes) == [{}] * 51
    assert writes == [1, 49]
    assert allow("t7") not in acls.index


async def test_change_of_many_acls_yields_to_other_tasks() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    acls = FileAcls(directory(), "/data", run_inline, Slicer(Time(), slice_ns=0))
    running = asyncio.create_task(others())
    await acls.change([allow(f"t{number}") for number in range(300)], [])
    running.cancel()
    assert len(acls.index) == 300
    assert turns > 300, "a slice is over after each entry"


@pytest.mark.parametrize(
    ("acls", "sentence"),
    [
        ("{}", "the list 'acls' is missing"),
        ("[{}]", "ACL 0: missing or invalid field: 'resourceType'"),
        (
            '[{"resourceType": "Topic", "name": "t", "patternType": "MATCH", "principal": "User:a",'
            ' "permissionType": "Allow", "operation": "Read", "host": "*"}]',
            "ACL 0: Invalid patternType MATCH",
        ),
        (
            '[{"resourceType": "Topic", "name": "t", "patternType": "LITERAL", "principal": "a",'
            ' "permissionType": "Allow", "operation": "Read", "host": "*"}]',
            "ACL 0: Could not parse principal from `a`",
        ),
        ('[{"resourceType": "Topic", "name": 5, "patternType": "LITERAL"}]', "ACL 0: "),
    ],
)
def test_start_fails_when_acl_file_is_damaged(acls: str, sentence: str) -> None:
    fs = directory()
    fs.put("/data/acls.json", f'{{"version": 1, "acls": {acls}}}'.encode())
    with pytest.raises(BadDirectory) as refused:
        acls_on(fs)
    assert str(refused.value).startswith(f"/data/acls.json is damaged: {sentence}")


def test_100_000_acls_load_within_2_s(tmp_path: Path) -> None:
    file = AclFile(OsFileSystem(), str(tmp_path))
    operations = [Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER]
    file.write(
        allow(
            f"topic-{n // 4}", operations[n % 4], f"User:u{n % 97}",
            pattern=PatternType.PREFIXED if n % 8 < 4 else PatternType.LITERAL,
        )
        for n in range(100_000)
    )  # fmt: skip
    with uncollected():  # The start of a broker loads ACLs under the same setting.
        began = thread_time()
        index = AclIndex(file.read())
        took = thread_time() - began
    assert len(index) == 100_000
    assert took < 2
