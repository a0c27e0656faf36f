"""Verdicts of groups in a whole broker with a mock clock.

Every five seconds of the mock clock, the members send heartbeats and the broker judges the groups.
In production a timer of the broker judges them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.config.config_table import BROKER
from broker.metrics import progress, verdicts
from broker.metrics.lag import BLOCK
from broker.metrics.verdicts import Held
from log.values import Marker
from protocol.consumer_protocol import encode_assignment, encode_subscription
from protocol.errors import INCONSISTENT_GROUP_PROTOCOL, NONE, REBALANCE_IN_PROGRESS
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.leave_group import API as LEAVE_GROUP
from protocol.messages.sync_group import API as SYNC_GROUP
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.config.served import Served, serving
from tests.broker.edge import Client, eventually
from tests.broker.partitions import partition_of
from verdicts.judge import Judgement
from verdicts.spelling import instant
from verdicts.thresholds import OLD_SETTINGS, SETTINGS, Thresholds

GROUP = "billing"
LOOK_MS = 5000
AT_ONCE = {"group.initial.rebalance.delay.ms": 0}


class Member:
    """A member of the group. It owns partitions of ``orders`` and has its own connection."""

    def __init__(self, trial: Trial, client: Client, member_id: str, generation: int) -> None:
        self.trial = trial
        self.client = client
        self.member_id = member_id
        self.generation = generation
        self.beats = True

    async def heartbeat(self) -> int:
        return await self.client.heartbeat(GROUP, self.member_id, self.generation)

    async def commit(self, offset: int, partition: int = 0) -> None:
        mine = {"member_id": self.member_id, "generation_id": self.generation}
        assert await self.trial.commit(offset, partition, self.client, **mine) == NONE

    async def leave(self) -> None:
        self.trial.members.remove(self)
        left = [{"member_id": self.member_id, "group_instance_id": None}]
        await self.client.call(LEAVE_GROUP.key, 3, group_id=GROUP, members=left)
        self.client.close()


class Trial:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.broker = served.broker
        self.members: list[Member] = []

    async def join(self, *partitions: int, topic: str = "orders", instance: Any = None) -> Member:
        """Forms a group. Its only member owns ``partitions`` of ``topic``."""
        client = await Client.connect(self.broker.sockets.addresses()[0][1])
        joined = await client.receive(self.send_join(client, topic=topic, instance=instance))
        member = Member(self, client, joined["member_id"], joined["generation_id"])
        self.members.append(member)
        await self.sync(member, {member: partitions}, topic)
        return member

    def send_join(
        self, client: Client, member_id: str = "", topic: str = "orders", instance: Any = None
    ) -> Any:
        client.client_id = "app"
        return client.send(
            JOIN_GROUP.key,
            3 if instance is None else 5,
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": encode_subscription([topic])}],
        )

    async def sync(self, leader: Member, owned: dict[Member, Any], topic: str = "orders") -> None:
        """Sends SyncGroup for every member; the request of the leader contains the assignment."""
        given = [
            {"member_id": each.member_id, "assignment": encode_assignment({topic: list(mine)})}
            for each, mine in owned.items()
        ]
        for each in [leader, *(each for each in owned if each is not leader)]:
            synced = await each.client.call(
                SYNC_GROUP.key,
                3,
                group_id=GROUP,
                generation_id=each.generation,
                member_id=each.member_id,
                assignments=given if each is leader else [],
            )
            assert synced["error_code"] == NONE

    async def join_two(self, first: Any, second: Any) -> tuple[Member, Member]:
        one = await self.join(*first)
        client = await Client.connect(self.broker.sockets.addresses()[0][1])
        handle = self.send_join(client)
        while await one.heartbeat() != REBALANCE_IN_PROGRESS:
            pass
        again = await one.client.receive(self.send_join(one.client, one.member_id))
        joined = await client.receive(handle)
        one.generation = again["generation_id"]
        two = Member(self, client, joined["member_id"], joined["generation_id"])
        self.members.append(two)
        await self.sync(one, {one: first, two: second})
        return one, two

    async def commit(
        self,
        offset: int,
        partition: int = 0,
        client: Client | None = None,
        group: str = GROUP,
        **mine: Any,
    ) -> int:
        rows = [
            {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        ]
        reply = await (client or self.served.client).call(
            8,
            8,
            group_id=group,
            generation_id_or_member_epoch=mine.get("generation_id", -1),
            member_id=mine.get("member_id", ""),
            topics=[{"name": "orders", "partitions": rows}],
        )
        code: int = reply["topics"][0]["partitions"][0]["error_code"]
        return code

    def produce(self, count: int, partition: int = 0, age_s: float = 0, **fields: Any) -> None:
        """Appends records whose timestamps are ``age_s`` seconds before the current time."""
        at_ms = self.served.time.wall_ms - round(age_s * 1000)
        records = [Record(index, at_ms, None, b"v") for index in range(count)]
        partition_of(self.broker, "orders", partition).append(
            encode_batch(records, **fields), at_ms
        )

    def end_transaction(self, producer_id: int) -> None:
        marker = Marker(producer_id, 0, 0, committed=True)
        partition_of(self.broker, "orders").append_marker(marker, self.served.time.wall_ms)

    async def pass_s(self, seconds: float, each: Callable[[], Any] = lambda: None) -> None:
        """Advances the clock. Every five seconds of the mock clock, sends heartbeats, calls
        ``each`` and judges the groups."""
        left_ms = round(seconds * 1000)
        while left_ms > 0:
            self.served.pass_ms(min(LOOK_MS, left_ms))
            left_ms -= LOOK_MS
            for member in self.members:
                if member.beats:
                    await member.heartbeat()
            if (work := each()) is not None:
                await work
            await self.look()

    async def look(self) -> None:
        """Judges the groups, and waits until the timestamps of records have been read."""
        await self.broker.verdicts.judge_all()
        await self.broker.lags.times.settled()

    def held(self, group: str = GROUP) -> Held:
        hosted = self.broker.groups.hosted_for(group)
        assert hosted is not None
        return self.broker.verdicts.of(hosted, hosted.core.view.groups[group])

    @property
    def verdict(self) -> str:
        return self.held().verdict.value

    async def judged(self) -> Judgement:
        hosted = self.broker.groups.hosted_for(GROUP)
        assert hosted is not None
        group = hosted.core.view.groups[GROUP]
        slices = self.broker.slicer.work("test")
        return await self.broker.verdicts.judged(hosted, group, slices)

    def ago(self, seconds: float) -> int:
        return self.served.time.wall_ms - round(seconds * 1000)


@asynccontextmanager
async def trial_of(directory: Path, **settings: Any) -> AsyncIterator[Trial]:
    async with serving(directory, {**AT_ONCE, **settings}) as served:
        trial = Trial(served)
        try:
            yield trial
        finally:
            for member in trial.members:
                member.client.close()


# ------------------------------------------------------------------------------------ OK


async def test_verdict_ignores_the_time_in_which_a_group_had_no_unread_records(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(5)
        await member.commit(5)
        await trial.pass_s(300, lambda: member.commit(5))
        assert trial.verdict == "OK"

        trial.produce(1)
        await trial.pass_s(29)
        assert trial.verdict == "OK", "what stands is counted from when a record waits"


async def test_verdict_of_a_group_that_reads_every_new_record_is_ok(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        offset = 0

        async def work() -> None:
            nonlocal offset
            trial.produce(10)
            offset += 10
            await member.commit(offset - 3)

        await trial.pass_s(300, work)
        assert trial.verdict == "OK"


async def test_verdict_is_ok_when_partitions_are_empty_and_have_no_commits(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        await trial.join(0, 1, 2)
        await trial.pass_s(300)
        assert trial.verdict == "OK"


async def test_verdict_of_a_group_without_members_is_ok_when_all_records_are_read(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(5)
        await member.commit(5)
        await member.leave()
        await trial.pass_s(300)
        assert trial.verdict == "OK"


async def test_verdict_is_ok_while_consumers_that_use_assign_commit(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        offset = 0

        async def work() -> None:
            nonlocal offset
            trial.produce(10)
            offset += 10
            await trial.commit(offset - 3)

        await trial.pass_s(300, work)
        assert trial.verdict == "OK"
        await trial.pass_s(65)
        assert trial.verdict == "ABANDONED"


async def test_unsubscribed_topic_does_not_stall_the_group(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        await trial.commit(0)
        trial.produce(5)
        await trial.broker.topics.create("payments", 1, {})
        await trial.join(0, topic="payments")
        await trial.pass_s(300)
        assert trial.verdict == "OK"


# ------------------------------------------------------------------------------------ stalled


async def test_member_that_keeps_committing_the_same_offset_is_stalled(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(9)
        await member.commit(5)
        await trial.look()
        since_ms = trial.ago(0)
        await trial.pass_s(25, lambda: member.commit(5))
        assert trial.verdict == "OK"
        await trial.pass_s(10, lambda: member.commit(5))

        held = trial.held()
        assert (held.verdict, held.since_ms) == ("STALLED", since_ms)
        assert "keeps committing the same offset" in held.sentence
        assert member.member_id in held.sentence

        await member.commit(6)
        await trial.look()
        assert trial.verdict == "OK", "one step is progress"


async def test_verdict_is_ok_when_only_a_transaction_marker_is_unread(tmp_path: Path) -> None:
    """The marker has an offset after the last record, and the member commits only offsets of
    records."""
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(9, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        trial.end_transaction(7)
        await trial.pass_s(400, lambda: member.commit(9))
        assert trial.verdict == "OK"

        trial.produce(1)
        await trial.pass_s(35, lambda: member.commit(9))
        assert trial.verdict == "STALLED", "there is a record behind the marker"


async def test_group_has_verdict_refused_while_a_client_tries_to_join_with_another_assignor(
    tmp_path: Path,
) -> None:
    """In an incident, 715 joins were refused in 23 minutes during an incomplete rolling upgrade,
    but the verdict was OK."""
    async with trial_of(tmp_path) as trial:
        await trial.join(0)
        late = await Client.connect(trial.broker.sockets.addresses()[0][1])
        late.client_id = "late"

        async def try_to_join(name: str = "roundrobin") -> int:
            joined = await late.call(
                JOIN_GROUP.key,
                3,
                group_id=GROUP,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id="",
                protocol_type="consumer",
                protocols=[{"name": name, "metadata": encode_subscription(["orders"])}],
            )
            return int(joined["error_code"])

        assert await try_to_join() == INCONSISTENT_GROUP_PROTOCOL
        assert await try_to_join() == INCONSISTENT_GROUP_PROTOCOL
        await trial.look()
        assert trial.verdict == "REFUSED"
        sentence = trial.held().sentence
        assert "client 'late' on 127.0.0.1 has been refused 2 times since" in sentence
        assert sentence.endswith("the client offers roundrobin; all members support range")
        (finding,) = (await trial.judged()).findings
        assert "partition.assignment.strategy" in finding.advice

        await trial.pass_s(605)
        assert trial.verdict == "OK", "it has stopped trying"


async def test_member_without_heartbeats_is_stalled_until_its_session_expires(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(9)
        await member.commit(5)
        member.beats = False
        await trial.pass_s(35)
        assert trial.verdict == "STALLED"
        assert "the member has sent no heartbeat for 35.0 s, and its session expires in 10.0 s" in (
            trial.held().sentence
        )

        await trial.pass_s(15)
        assert trial.verdict == "OK", "it is out, and others may come"
        await trial.pass_s(60)
        assert trial.verdict == "ABANDONED"


async def test_member_that_never_commits_is_stalled(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(9)
        await trial.join(0)
        await trial.pass_s(40)
        assert trial.verdict == "STALLED"
        assert "has no committed offset" in trial.held().sentence


async def test_verdict_is_flapping_then_stalled_when_a_static_member_keeps_restarting(
    tmp_path: Path,
) -> None:
    """The member fails at its first record each time; its process restarts after 1 s."""
    async with trial_of(tmp_path) as trial:
        trial.produce(9)
        verdicts = []
        for _ in range(12):
            member = await trial.join(0, instance="i-1")
            await trial.pass_s(5)
            verdicts.append(trial.verdict)
            trial.members.remove(member)
            member.client.close()
            await eventually(lambda: closed(trial))
        assert list(dict.fromkeys(verdicts)) == ["OK", "FLAPPING", "STALLED"]
        assert verdicts.index("FLAPPING") == 3
        stalled, flapping = (await trial.judged()).findings
        assert "its client has restarted 11 times since" in stalled.sentence
        assert flapping.sentence.startswith("static member i-1 (")
        assert " has restarted 11 times since " in flapping.sentence
        assert flapping.advice == "check the client's log for the reason why its process exits"
        assert flapping.instance == "i-1"


def closed(trial: Trial) -> bool:
    hosted = trial.broker.groups.hosted_for(GROUP)
    assert hosted is not None
    members = hosted.core.view.groups[GROUP].members.values()
    return all(each.closed_ms is not None for each in members)


async def test_member_that_started_at_log_end_is_stalled_only_after_new_records(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(9)
        member = await trial.join(0, 1)
        trial.produce(1, 1)
        await member.commit(1, 1)
        await trial.pass_s(100)
        assert trial.verdict == "OK", "nothing has come to orders:0 since"

        trial.produce(1)
        await trial.pass_s(40)
        assert trial.verdict == "STALLED"


async def test_verdict_is_stuck_record_when_only_one_partition_makes_no_progress(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0, 1, 2)
        trial.produce(9)
        await member.commit(5)
        offset = 0

        async def work() -> None:
            nonlocal offset
            for partition in (1, 2):
                trial.produce(1, partition)
                await member.commit(offset + 1, partition)
            offset += 1

        await trial.pass_s(40, work)
        held = trial.held()
        assert held.verdict == "STUCK_RECORD"
        assert "orders:0 has been stuck at offset 5 since" in held.sentence
        judged = await trial.judged()
        assert [judged.of_partition("orders", each) for each in range(3)] == [
            "STUCK_RECORD", "OK", "OK",
        ]  # fmt: skip


async def test_stalled_verdict_names_the_hanging_member_but_not_the_active_member(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        one, two = await trial.join_two([0], [1, 2])
        for partition in (0, 1, 2):
            trial.produce(9, partition)
        await one.commit(1)
        await two.commit(1, 1)
        await two.commit(1, 2)
        offset = 1

        async def work() -> None:
            nonlocal offset
            trial.produce(1)
            offset += 1
            await one.commit(offset)

        await trial.pass_s(40, work)
        held = trial.held()
        assert held.verdict == "STALLED"
        assert two.member_id in held.sentence
        assert "orders:1-2" in held.sentence
        assert one.member_id not in held.sentence


# ------------------------------------------------------------------------------------ others


async def test_verdict_is_blocked_when_a_rebalance_waits_for_a_member(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        client = await Client.connect(trial.broker.sockets.addresses()[0][1])
        trial.send_join(client)
        while await member.heartbeat() != REBALANCE_IN_PROGRESS:
            pass
        began_ms = trial.ago(0)
        await trial.pass_s(5)
        assert trial.verdict == "OK", "members hear of a rebalance by their next heartbeat"
        await trial.pass_s(5)

        held = trial.held()
        assert (held.verdict, held.since_ms) == ("BLOCKED", began_ms)
        assert f"waiting for {member.member_id} on 127.0.0.1 since" in held.sentence
        assert "the member still heartbeats (last 0.0 s ago) but does not rejoin" in held.sentence

        member.beats = False
        await trial.pass_s(30)
        assert "no heartbeat for 30.0 s" in trial.held().sentence
        client.close()


async def test_start_time_of_a_blocked_rebalance_is_correct_after_broker_pauses(
    tmp_path: Path,
) -> None:
    """A pause of the broker does not count as waiting time, but must not change the start time of
    the rebalance."""
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        client = await Client.connect(trial.broker.sockets.addresses()[0][1])
        trial.send_join(client)
        while await member.heartbeat() != REBALANCE_IN_PROGRESS:
            pass
        began_ms = trial.ago(0)
        for _ in range(4):
            trial.served.time.wall_ms += 3000
            await trial.look()
        await trial.pass_s(5)
        assert trial.verdict == "OK", "it has waited for 5 s"
        await trial.pass_s(5)
        held = trial.held()
        assert (held.verdict, held.since_ms) == ("BLOCKED", began_ms)
        client.close()


async def test_blocked_rebalance_shows_the_closed_connection_of_a_crashed_member(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(50)
        member = await trial.join(0)
        await member.commit(10)
        client = await Client.connect(trial.broker.sockets.addresses()[0][1])
        trial.send_join(client)
        while await member.heartbeat() != REBALANCE_IN_PROGRESS:
            pass
        member.beats = False
        member.client.close()
        hosted = trial.broker.groups.hosted_for(GROUP)
        assert hosted is not None
        known = hosted.core.view.groups[GROUP].members[member.member_id]
        await eventually(lambda: known.closed_ms is not None)
        await trial.pass_s(15)

        held = trial.held()
        assert held.verdict == "BLOCKED"
        until = instant(trial.ago(-30))
        assert f"waiting for {member.member_id} on 127.0.0.1 since" in held.sentence
        closed = f"(until {until} at the latest): the member's connection closed 15.0 s ago"
        assert closed in held.sentence
        assert "session expires" not in held.sentence, "the phase has one deadline"
        assert "heartbeats" not in held.sentence
        assert held.reads_nothing_since_ms is None, "for less than the time of STALLED"

        read_ms = trial.ago(15)
        await trial.pass_s(20)
        held = trial.held()
        assert held.reads_nothing_since_ms is not None
        assert abs(held.reads_nothing_since_ms - read_ms) <= LOOK_MS
        assert "no member of the group has read since" in held.sentence
        client.close()


async def test_verdict_is_flapping_when_a_client_rejoins_repeatedly(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        await trial.commit(0)
        for _ in range(4):
            member = await trial.join(0)
            await trial.pass_s(5)
            await member.leave()
            await trial.pass_s(5)

        held = trial.held()
        assert held.verdict == "FLAPPING"
        assert "has left and rejoined 3 times" in held.sentence
        await trial.pass_s(300)
        assert trial.verdict == "OK"


async def test_verdict_of_a_growing_or_restarted_group_is_not_flapping(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        await trial.commit(0)
        for _ in range(2):
            one, two = await trial.join_two([0], [1])
            await trial.pass_s(5)
            assert trial.verdict == "OK"
            await two.leave()
            await one.leave()


async def test_verdict_is_out_of_range_when_committed_offset_is_outside_the_log(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(50)
        assert await trial.commit(60) == NONE
        await trial.look()
        assert trial.verdict == "OUT_OF_RANGE"
        assert "the committed offset of orders:0 is 60, 10 records above" in trial.held().sentence

        assert await trial.commit(10) == NONE
        partition_of(trial.broker, "orders").log.delete_records(40)
        await trial.look()
        assert "its log start offset 40: 30 records were deleted" in trial.held().sentence

        assert await trial.commit(50) == NONE
        await trial.look()
        assert trial.verdict == "OK"


async def test_group_without_members_is_abandoned_after_a_minute(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(9)
        await member.commit(5)
        await member.leave()
        await trial.pass_s(55)
        assert trial.verdict == "OK"
        await trial.pass_s(10)
        assert trial.verdict == "ABANDONED"


async def test_group_without_commits_is_abandoned_when_its_last_member_is_removed(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(428)
        member = await trial.join(0, 1)
        await trial.pass_s(40)
        assert trial.verdict == "STALLED"
        member.beats = False
        await trial.pass_s(50)
        assert trial.held().sentence == (
            "428 unread records, none of them overdue; the group has no members"
        )
        await trial.pass_s(60)
        assert trial.verdict == "ABANDONED"
        assert "428 unread records have waited in orders:0 since" in trial.held().sentence
        again = await trial.join(0, 1)
        await again.commit(428)
        await trial.pass_s(5)
        await again.leave()
        await trial.pass_s(100)
        assert trial.verdict == "OK"


async def test_group_is_abandoned_when_its_members_hang_before_their_first_commit(
    tmp_path: Path,
) -> None:
    """The group rebalances until the coordinator has removed the last member."""
    async with trial_of(tmp_path) as trial:
        trial.produce(9)
        one, two = await trial.join_two([0], [1])
        await trial.pass_s(10)
        one.beats = False
        await trial.pass_s(40)
        two.beats = False
        await trial.pass_s(200)
        assert trial.verdict == "ABANDONED"


async def test_group_is_not_abandoned_when_its_member_started_at_log_end(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(9)
        member = await trial.join(0, 1)
        trial.produce(1, 1)
        await member.commit(1, 1)
        await trial.pass_s(10)
        await member.leave()
        await trial.pass_s(100)
        assert trial.verdict == "OK", "nothing came to orders:0 while it was owned"


async def test_group_is_lagging_when_its_oldest_unread_record_is_old(tmp_path: Path) -> None:
    """The group commits regularly and always has 100 unread records. One record arrives per
    second."""
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        offset = 0

        async def work() -> None:
            nonlocal offset
            for second in range(5):
                trial.produce(1, age_s=4 - second)
            offset += 5
            await member.commit(max(offset - 100, 0))

        await trial.pass_s(60, work)
        assert trial.verdict != "LAGGING"
        await trial.pass_s(200, work)
        assert trial.verdict == "LAGGING"
        finding = (await trial.judged()).worst
        assert finding.since_ms is not None
        assert 95 <= (trial.ago(0) - finding.since_ms) / 1000 <= 130


async def test_new_records_with_old_timestamps_do_not_make_the_group_lagging(
    tmp_path: Path,
) -> None:
    """The topic is a copy of another topic, so its new records have old timestamps."""
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        offset = 0

        async def work() -> None:
            nonlocal offset
            trial.produce(10, age_s=86_400)
            offset += 10
            await member.commit(offset - 2)

        await trial.pass_s(200, work)
        assert trial.verdict == "OK"


# ------------------------------------------------------------------------------- stored state


async def test_start_time_of_a_verdict_is_kept_while_the_verdict_is_unchanged(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        trial.produce(50)
        assert await trial.commit(10) == NONE
        partition_of(trial.broker, "orders").log.delete_records(40)
        await trial.look()
        since_ms = trial.ago(0)
        await trial.pass_s(100)
        assert trial.held().since_ms == since_ms


async def test_group_is_judged_immediately_when_its_verdict_is_first_read(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        assert await trial.commit(10) == NONE
        assert trial.verdict == "OUT_OF_RANGE"


async def test_verdict_after_a_restart_uses_commit_timestamps_from_the_log(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(9)
        await member.commit(5)
        stood_ms = trial.ago(0)
        await member.leave()
        await trial.pass_s(10)

    async with trial_of(tmp_path) as trial:
        trial.served.time.move(90_000)
        await trial.look()
        held = trial.held()
        assert held.verdict == "ABANDONED"
        assert stood_ms <= held.since_ms < trial.ago(80)


async def test_group_is_not_stalled_while_members_rejoin_after_a_restart(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        member = await trial.join(0)
        trial.produce(9)
        await member.commit(5)
        await trial.pass_s(20)

    async with trial_of(tmp_path) as trial:
        trial.served.time.wall_ms += 40_000  # No broker runs in this time.
        trial.members.append(
            Member(trial, trial.served.client, member.member_id, member.generation)
        )
        await trial.pass_s(25)
        assert trial.verdict == "LAGGING", "it has stood for long, and the broker runs for 25 s"
        await trial.pass_s(10)
        assert trial.verdict == "STALLED"


async def test_pause_of_the_broker_does_not_count_as_stalled_time_of_a_group(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        await trial.join(0)
        trial.produce(9)
        await trial.commit(0, group="simple")
        await trial.pass_s(10)
        trial.served.time.wall_ms += 600_000  # The machine was suspended.
        await trial.pass_s(25)
        assert (trial.verdict, trial.held("simple").verdict) == ("OK", "LAGGING")
        await trial.pass_s(10)
        assert trial.verdict == "STALLED"


async def test_progress_and_verdicts_of_deleted_groups_are_removed(tmp_path: Path) -> None:
    async with trial_of(tmp_path) as trial:
        for partition in (0, 1):
            assert await trial.commit(0, partition) == NONE
        await trial.look()
        looks = trial.broker.verdicts.looks
        assert looks.progress.size == 2

        await trial.served.client.call(DELETE_GROUPS.key, 2, groups_names=[GROUP])
        await trial.look()
        assert looks.progress.size == 0
        assert not trial.broker.verdicts._held
        await trial.look()
        assert not looks.arrivals._marks


async def test_progress_of_consumers_is_stored_for_a_bounded_number_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PARTITIONS_MAX", 1)
    async with trial_of(tmp_path) as trial:
        for partition in (0, 1):
            assert await trial.commit(0, partition) == NONE
        trial.produce(5)
        await trial.pass_s(300)
        assert trial.broker.verdicts.looks.progress.size <= 1
        assert trial.verdict, "it is judged by what one look shows"


async def test_each_judgement_step_reads_a_bounded_number_of_partitions(
    tmp_path: Path,
) -> None:
    async with trial_of(tmp_path) as trial:
        count = 3 * BLOCK
        await trial.broker.topics.create("wide", count, {})
        member = await trial.join(*range(count), topic="wide")
        hosted = trial.broker.groups.hosted_for(GROUP)
        assert hosted is not None
        group = hosted.core.view.groups[GROUP]
        for committed in (0, count):
            if committed:
                mine = {"member_id": member.member_id, "generation_id": member.generation}
                code = await member.client.commit(
                    GROUP, 0, topic="wide", partitions=committed, **mine
                )
                assert code == NONE
            steps = list(trial.broker.verdicts.looks.facts(hosted, group, 60_000))
            assert max(steps) <= BLOCK
            assert sum(steps) >= count


async def test_each_judgement_step_reads_a_bounded_number_of_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trial_of(tmp_path) as trial:
        await trial.join(0)
        trial.produce(5)
        hosted = trial.broker.groups.hosted_for(GROUP)
        assert hosted is not None
        group = hosted.core.view.groups[GROUP]
        [one] = group.members.values()
        with monkeypatch.context() as patch:
            patch.setattr(group, "members", {f"m-{each}": one for each in range(3 * BLOCK)})
            steps = list(trial.broker.verdicts.looks.facts(hosted, group, 60_000))
        assert steps.count(BLOCK) == 3


async def test_large_group_is_judged_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "PARTITIONS_AT_ONCE", 1)
    async with trial_of(tmp_path) as trial:
        for partition in (0, 1):
            assert await trial.commit(10, partition) == NONE
        assert trial.held().sentence == "the group has not been checked yet"
        await trial.look()
        assert trial.verdict == "OUT_OF_RANGE"


# ------------------------------------------------------------------------------------- thresholds


def test_verdict_thresholds_equal_the_defaults_of_their_settings() -> None:
    defaults = {name: BROKER[name].default for name in SETTINGS}

    assert Thresholds.of(defaults) == Thresholds()  # type: ignore[arg-type]
    named = {*SETTINGS, *OLD_SETTINGS}
    assert named == {name for name in BROKER if name.startswith("group.verdict.")}
