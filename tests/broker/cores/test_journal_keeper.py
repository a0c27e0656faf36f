"""Tests that a restart does not change the journal, and that a failing disk affects only the
journal."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cores.journal_keeper import JournalKeeper
from coordinator.journal import FORM, Journal
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from tests.broker.edge import eventually
from tests.broker.seen import Seen, seeing
from tests.broker.web.test_http_api import GROUP, Member, got
from tests.simulated_files import SimulatedFiles

TOLD = ("rebalances", "notes", "rejected_commits", "moved_back", "flapping", "returning")


async def some_history(seen: Seen) -> None:
    """Makes a member join, commit, get a rejected commit, leave, and return with a new member
    id."""
    member = await Member(seen).alone()
    mine = {"member_id": member.member_id, "generation_id": member.generation}
    for offset in (9, 3):
        assert await seen.client.commit(GROUP, offset, **mine) == 0
    assert await seen.client.commit(GROUP, 1) != 0
    await member.leave("the consumer is being closed")
    seen.pass_ms(2000)
    again = await Member(seen).alone()
    await again.lead(again.send_join(["orders", "u"]), {again.member_id: {"orders": [0]}})
    seen.pass_ms(11_000)


async def journal_of(seen: Seen, group: str = GROUP) -> dict[str, Any]:
    journal: dict[str, Any] = await got(seen, f"/api/groups/{group}/journal")
    return {name: journal[name] for name in TOLD}


def as_seen(value: Any) -> Any:
    """Returns a copy of a journal as JSON, in which every field ``source`` is "seen"."""
    if isinstance(value, dict):
        return {key: "seen" if key == "source" else as_seen(each) for key, each in value.items()}
    return [as_seen(each) for each in value] if isinstance(value, list) else value


def sources(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["source"]} if "source" in value else set()
        return own.union(*map(sources, value.values()))
    return set().union(*map(sources, value)) if isinstance(value, list) else set()


async def wait_until_saved(seen: Seen) -> None:
    keeper = seen.broker.keeper
    await eventually(lambda: not keeper._unsaved and not keeper._due)


async def test_journal_entries_survive_a_stop(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await some_history(seen)
        before = await journal_of(seen)
    assert len(before["rebalances"]) == 5
    assert len(before["rejected_commits"]) == len(before["returning"]) == 1
    assert before["moved_back"]["commits"] == 1
    assert sources(before) == {"seen"}
    async with seeing(tmp_path) as seen:
        after = await journal_of(seen)
        summary = await got(seen, "/api/groups")
    assert sources(after) == {"kept"}
    assert as_seen(after) == before
    assert summary["groups"][0]["rebalances"] == 0, "since the start"
    assert summary["groups"][0]["last_why"] == before["rebalances"][-1]["why"]


async def test_journal_entries_survive_a_kill(tmp_path: Path) -> None:
    async with seeing(tmp_path / "data") as seen:
        await some_history(seen)
        before = await journal_of(seen)
        await wait_until_saved(seen)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    async with seeing(tmp_path / "killed") as seen:
        after = await journal_of(seen)
        assert as_seen(after) == before
        member = await Member(seen).alone()
        more = await journal_of(seen)
    assert sources(after) == {"kept"}
    numbers = [each["number"] for each in more["rebalances"]]
    assert numbers == list(range(1, len(before["rebalances"]) + 2))
    assert (more["rebalances"][-1]["source"], more["rebalances"][-1]["member"]) == (
        "seen",
        member.member_id,
    )


async def test_journal_contains_generations_from_the_log_when_its_file_is_missing(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await some_history(seen)
        before = (await journal_of(seen))["rebalances"]
    (tmp_path / FORM.file).unlink()
    async with seeing(tmp_path) as seen:
        after = await got(seen, f"/api/groups/{GROUP}/journal")
    assert [(each["source"], each["generation"]) for each in after["rebalances"]] == [
        ("log", each["generation"]) for each in before
    ]
    assert [each["leader"] for each in after["rebalances"]] == [each["leader"] for each in before]
    assert {each["cause"] for each in after["rebalances"]} == {"unknown"}
    assert after["restored"]["generations"][-1]["generation"] == before[-1]["generation"]


async def test_deleted_group_is_not_restored_from_the_journal_file(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await some_history(seen)
        shard = seen.broker.groups.hosted_for(GROUP).core
        (error,) = await deleted(seen)
        assert error == 0
        await eventually(lambda: GROUP not in shard.view.groups)
        before = await journal_of(seen)
    assert before["notes"][-1]["kind"] == "group_removed"
    async with seeing(tmp_path) as seen:
        assert (await got(seen, "/api/groups"))["groups"] == []
        assert (await seen.get(f"/api/groups/{GROUP}")).status_code == 404
        journal = await got(seen, f"/api/groups/{GROUP}/journal")
    assert (journal["state"], journal["restored"]) == (None, None)
    assert as_seen({name: journal[name] for name in TOLD}) == before


async def deleted(seen: Seen) -> list[int]:
    from protocol.messages.delete_groups import API as DELETE_GROUPS

    reply = await seen.client.call(DELETE_GROUPS.key, 2, groups_names=[GROUP])
    return [each["error_code"] for each in reply["results"]]


# -------------------------------------------------------------------------- a failing disk


class FailingJournalFiles(OsFileSystem):
    """A file system that refuses operations on journal files while ``refuses`` is true."""

    def __init__(self, operation: str) -> None:
        super().__init__()
        self.operation = operation
        self.refuses = True

    def open(self, path: str, create: bool = False) -> OsFile:
        if "groups.journal" in path and self.refuses and self.operation == "open":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return FailingFile(path, create, self) if "groups.journal" in path else OsFile(path, create)


class FailingFile(OsFile):
    def __init__(self, path: str, create: bool, fs: FailingJournalFiles) -> None:
        super().__init__(path, create)
        self.fs = fs

    def write(self, position: int, data: Any) -> None:
        if self.fs.refuses and self.fs.operation == "write":
            super().write(position, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        super().write(position, data)


@pytest.mark.parametrize("operation", ["open", "write"])
async def test_unwritable_journal_is_logged_once_and_groups_are_served(
    tmp_path: Path, operation: str
) -> None:
    fs = FailingJournalFiles(operation)
    with capture_logs() as lines:
        async with seeing(tmp_path, fs=fs) as seen:
            await some_history(seen)
            await wait_until_saved(seen)
            before = await journal_of(seen)
            assert len(before["rebalances"]) == 5, "it is told all the same"
    assert [line["event"] for line in lines if "journal" in line["event"]] == [
        "journal can't be written, new events are lost at a restart"
    ]
    fs.refuses = False
    async with seeing(tmp_path, fs=fs) as seen:
        assert await seen.client.fetch(GROUP) == 3
        assert sources((await journal_of(seen))["rebalances"]) == {"log"}
        await Member(seen).alone()
        await wait_until_saved(seen)
    async with seeing(tmp_path, fs=fs) as seen:
        assert sources((await journal_of(seen))["rebalances"]) == {"log", "kept"}


async def test_start_succeeds_when_the_journal_file_is_damaged(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await some_history(seen)
    data = bytearray((tmp_path / FORM.file).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    (tmp_path / FORM.file).write_bytes(data)
    async with seeing(tmp_path) as seen:
        rebalances = (await journal_of(seen))["rebalances"]
    assert "kept" in sources(rebalances)
    assert [each["generation"] for each in rebalances] == [1, 2, 3, 4, 5]
    (tmp_path / FORM.file).unlink()
    (tmp_path / FORM.file).mkdir()
    async with seeing(tmp_path) as seen:
        assert sources((await journal_of(seen))["rebalances"]) == {"log"}
        await Member(seen).alone()


async def test_second_broker_on_a_data_directory_does_not_change_the_journal_file(
    tmp_path: Path,
) -> None:
    from broker.broker import Broker
    from log.errors import DirectoryLocked
    from tests.broker.config.served import config

    async with seeing(tmp_path) as seen:
        await some_history(seen)
        await wait_until_saved(seen)
        size = (tmp_path / FORM.file).stat().st_size
        with pytest.raises(DirectoryLocked):
            Broker(config(tmp_path)).open()
        assert (tmp_path / FORM.file).stat().st_size == size


async def test_stop_waits_for_a_journal_write_and_writes_remaining_entries() -> None:
    from broker.loop.background import Background
    from broker.loop.watchdog import Watchdog
    from coordinator.events import Cause, OffsetsExpired
    from tests.broker.mock_time import MockTime

    fs, time = SimulatedFiles(), MockTime()
    fs.make_directory("/data")
    background = Background(time, Watchdog(time))
    keeper = JournalKeeper(Journal, time, background.spawn, fs, "/data", 1 << 20)
    for number in range(2000):
        keeper.observe(OffsetsExpired(f"g{number}", 1, Cause.EXPIRED))
    await eventually(lambda: keeper._writing is not None)
    keeper.observe(OffsetsExpired("last", 1, Cause.EXPIRED))
    await keeper.stop()
    keeper.observe(OffsetsExpired("too late", 1, Cause.EXPIRED))
    again = JournalKeeper(Journal, time, background.spawn, fs, "/data", 1 << 20)
    again.read()
    assert len(again.journal.names()) == 2001
    assert "last" in again.journal.names()
    await background.stop()


async def test_journal_writes_other_events_when_one_event_causes_an_exception() -> None:
    from broker.loop.background import Background
    from broker.loop.internal_errors import InternalErrors
    from broker.loop.watchdog import Watchdog
    from coordinator.events import Cause, CommitRejected, OffsetsExpired
    from tests.broker.mock_time import MockTime

    fs, time, errors = SimulatedFiles(), MockTime(), InternalErrors()
    fs.make_directory("/data")
    background = Background(time, Watchdog(time))
    keeper = JournalKeeper(Journal, time, background.spawn, fs, "/data", 1 << 20, errors)
    broken: Any = None
    keeper.observe(OffsetsExpired("before", 1, Cause.EXPIRED))
    keeper.observe(CommitRejected("g", "", 22, client_id=broken))
    keeper.observe(OffsetsExpired("after", 1, Cause.EXPIRED))
    assert len(keeper.journal.observed) == 3
    await eventually(lambda: not keeper.journal.observed and not keeper._due)
    assert errors.counts["observer"] == 1
    again = JournalKeeper(Journal, time, background.spawn, fs, "/data", 1 << 20)
    again.read()
    assert again.journal.names() == ["before", "after"]
    await keeper.stop()
    await background.stop()


async def test_journal_entries_are_written_by_a_retry_after_a_failed_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from broker.cores import journal_keeper
    from broker.loop.background import Background
    from broker.loop.watchdog import Watchdog
    from coordinator.events import Cause, OffsetsExpired
    from tests.broker.mock_time import MockTime

    monkeypatch.setattr(journal_keeper, "TRY_AGAIN_S", 0.01)
    fs, time = SimulatedFiles(), MockTime()
    fs.make_directory("/data")
    fs.fail("write", FORM.file)
    background = Background(time, Watchdog(time))
    keeper = JournalKeeper(Journal, time, background.spawn, fs, "/data", 1 << 20)
    for number in range(2 * journal_keeper.ENTRIES_AT_ONCE):
        keeper.observe(OffsetsExpired(f"g{number}", 1, Cause.EXPIRED))
    await eventually(lambda: not keeper._unsaved and not keeper._due)
    again = JournalKeeper(Journal, time, background.spawn, fs, "/data", 1 << 20)
    again.read()
    assert len(again.journal.names()) == journal_keeper.ENTRIES_AT_ONCE, "the first were lost"
    await keeper.stop()
    await background.stop()
