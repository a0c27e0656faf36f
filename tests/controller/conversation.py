"""The language of the files in tests/golden/controller. Each line is a step of a simulated cluster.

These lines change the nodes and the brokers, and the controller receives the fact immediately:

- ``up 1 2``, ``down 1``, ``bounce 1``: starts, stops or restarts brokers.
- ``unseen 1``: restarts a broker, but no controller sees the restart.
- ``topic t 1,2 2,1``: creates a topic with the replicas of each partition.
- ``grow t 1,2``: adds a partition.
- ``delete t``, ``erase t``: requests the deletion of a topic, or removes its nodes.
- ``move t/0=3,4``, ``preferred t/0``: writes the nodes of /admin.
- ``isr-by-leader t/0 1,2``, ``disk 2 t/0``, ``unclean t``.

``elect 1`` creates a controller, and ``as 1`` selects the controller of that epoch. Calls are ``isr
t/0 1,2`` (from the leader of the partition; ``epoch=`` and ``version=`` set other values),
``shutdown 1``, ``elect-leaders t/0 unclean=1``, ``reassign t/0 3,4``, ``cancel t/0``, ``list`` and
``ids 2``.

Other steps happen only if a line requests them. ``land`` completes all writes to ZooKeeper. With
``land failed`` the writes fail; with ``land lost`` the writes succeed but their result is
BAD_VERSION. ``read`` completes the reads, ``answer`` lets brokers respond to all requests, and
``rest`` repeats these three steps until no work is left. ``tick 5000`` advances the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from controller.calls import (
    AllocateProducerIds,
    AlterReassignments,
    Call,
    ControlledShutdown,
    ElectLeaders,
    ListReassignments,
)
from controller.facts import (
    DeletionsSeen,
    Fact,
    LogDirsNotified,
    PreferredSeen,
    ReassignmentsSeen,
    Result,
    Tick,
    TopicGone,
    TopicSeen,
    TopicsSeen,
    UncleanSeen,
    WriteResult,
    Written,
)
from controller.outcome import Outcome
from controller.values import Replicas, TopicPartition
from tests import golden_text
from tests.controller.render import render_outcome
from tests.controller.world import Host, World, replicas
from tests.golden_text import Words, words_of

_OPTIONS = re.compile("epoch|version|unclean|broker")


def ids(word: str) -> Replicas:
    return tuple(int(each) for each in word.split(",") if each)


def key_of(word: str) -> TopicPartition:
    topic, _, partition = word.partition("/")
    return topic, int(partition)


class Conversation:
    """A controller in a simulated cluster. Each line of a conversation is one step."""

    def __init__(self, config: dict[str, int]) -> None:
        self.world = World(5, **config)
        self.tickets = 0

        self.speaks = -1

    @property
    def host(self) -> Host:
        return self.world.hosts[self.speaks]

    def say(self, line: str) -> list[str]:
        """Runs one line of the conversation, and returns the outcome as lines of text."""
        verb, _, rest = line.partition(" ")
        outcomes = getattr(self, "_" + verb.replace("-", "_"))(words_of(rest, _OPTIONS))
        return [line for outcome in outcomes or () for line in render_outcome(outcome)]

    def _give(self, event: Fact | Call) -> Iterable[Outcome]:
        if not self.world.hosts:
            return
        yield self.host.give(event)
        while self.host.more:
            yield self.host.work()

    def _ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    # -------------------------------------------------------------------------- nodes, brokers

    def _up(self, words: Words) -> Iterable[Outcome]:
        for each in words.plain:
            self.world.register(int(each))
        return self._give(self.world.see_brokers())

    _bounce = _up

    def _unseen(self, words: Words) -> Iterable[Outcome]:
        """Restarts brokers without notifying the controller."""
        for each in words.plain:
            self.world.register(int(each))
        return ()

    def _down(self, words: Words) -> Iterable[Outcome]:
        for each in words.plain:
            self.world.unregister(int(each))
        return self._give(self.world.see_brokers())

    def _elect(self, words: Words) -> Iterable[Outcome]:
        host = self.world.elect(int(words.plain[0]))
        self.speaks = -1
        outcome = Outcome(
            [*host.writes], [each for sends in host.channels.values() for each in sends],
            [*host.reads], [], [*host.events],
        )  # fmt: skip
        return [outcome]

    def _as(self, words: Words) -> Iterable[Outcome]:
        """Selects a controller by its epoch. The selected controller receives the facts and calls
        that follow."""
        self.speaks = int(words.plain[0]) - 1
        return ()

    def _topic(self, words: Words) -> Iterable[Outcome]:
        name, *partitions = words.plain
        self.world.nodes.create_topic(
            name, {i: replicas(*ids(each)) for i, each in enumerate(partitions)}, None
        )
        return self._give(TopicsSeen([*self.world.nodes.topics]))

    def _grow(self, words: Words) -> Iterable[Outcome]:
        """Adds partitions by rewriting the topic node without its topic id, as an old tool does."""
        name, *more = words.plain
        partitions = {
            i: replicas(*each.replicas)
            for i, each in self.world.nodes.topics[name].partitions.items()
        }
        for each in more:
            partitions[len(partitions)] = replicas(*ids(each))
        self.world.nodes.rewrite_topic(name, partitions=partitions, topic_id=None)
        return self._give(TopicSeen(self.world.nodes.topics[name], self.world.spare_id(name)))

    def _delete(self, words: Words) -> Iterable[Outcome]:
        self.world.nodes.deletions |= set(words.plain)
        return self._give(DeletionsSeen(sorted(self.world.nodes.deletions)))

    def _erase(self, words: Words) -> Iterable[Outcome]:
        del self.world.nodes.topics[words.plain[0]]
        for key in [each for each in self.world.nodes.states if each[0] == words.plain[0]]:
            del self.world.nodes.states[key]
        return self._give(TopicGone(words.plain[0]))

    def _move(self, words: Words) -> Iterable[Outcome]:
        pairs = [word.split("=") for word in words.plain]
        self.world.nodes.moves = {key_of(key): ids(target) for key, target in pairs}
        return self._give(ReassignmentsSeen(dict(self.world.nodes.moves)))

    def _preferred(self, words: Words) -> Iterable[Outcome]:
        self.world.nodes.preferred = [*map(key_of, words.plain)]
        return self._give(PreferredSeen(self.world.nodes.preferred))

    def _isr_by_leader(self, words: Words) -> Iterable[Outcome]:
        key = key_of(words.plain[0])
        state = self.world.nodes.states[key]
        self.world.nodes.leader_writes_isr(key, state._replace(isr=ids(words.plain[1])))
        return self._give(self.world.notified())

    def _disk(self, words: Words) -> Iterable[Outcome]:
        broker_id = int(words.plain[0])
        self.world.brokers[broker_id].failed |= set(map(key_of, words.plain[1:]))
        return self._give(LogDirsNotified(["/log_dir_event_notification/1"], [broker_id]))

    def _unclean(self, words: Words) -> Iterable[Outcome]:
        self.world.nodes.unclean[words.plain[0]] = True
        return self._give(UncleanSeen(words.plain[0], True))

    # ------------------------------------------------------------------------------ the calls

    def _isr(self, words: Words) -> Iterable[Outcome]:
        key, isr = key_of(words.plain[0]), ids(words.plain[1])
        state = self.world.nodes.states[key]
        broker_id = words.number("broker", state.leader)
        call = self.world.isr_asked(self._ticket(), state.leader, {key: isr})
        change = call.changes[0]._replace(
            leader_epoch=words.number("epoch", state.leader_epoch),
            partition_epoch=words.number("version", state.partition_epoch),
        )
        epoch = self.world.brokers[broker_id].epoch
        return self._give(type(call)(call.ticket, broker_id, epoch, [change]))

    def _shutdown(self, words: Words) -> Iterable[Outcome]:
        broker_id = int(words.plain[0])
        epoch = words.number("epoch", self.world.brokers[broker_id].epoch)
        return self._give(ControlledShutdown(self._ticket(), broker_id, epoch))

    def _elect_leaders(self, words: Words) -> Iterable[Outcome]:
        keys = [*map(key_of, words.plain)] or None
        if words.number("unclean", 0):
            self.world.nodes.unclean_asked |= {topic for topic, _ in keys or ()}
        return self._give(ElectLeaders(self._ticket(), bool(words.number("unclean", 0)), keys))

    def _reassign(self, words: Words) -> Iterable[Outcome]:
        key, target = words.plain
        return self._give(AlterReassignments(self._ticket(), {key_of(key): ids(target)}))

    def _cancel(self, words: Words) -> Iterable[Outcome]:
        targets = {key_of(each): None for each in words.plain}
        return self._give(AlterReassignments(self._ticket(), targets))

    def _list(self, words: Words) -> Iterable[Outcome]:
        return self._give(ListReassignments(self._ticket(), None))

    def _ids(self, words: Words) -> Iterable[Outcome]:
        broker_id = int(words.plain[0])
        epoch = words.number("epoch", self.world.brokers[broker_id].epoch)
        return self._give(AllocateProducerIds(self._ticket(), broker_id, epoch))

    # ------------------------------------------------------------------------ what is under way

    def _land(self, words: Words) -> Iterable[Outcome]:
        host, results = self.host, []
        while host.writes:
            if words.plain == ["failed"]:
                results.append(WriteResult(host.writes.popleft().ticket, Result.FAILED))
                continue
            result = host.write_one()
            if words.plain == ["lost"]:
                result = WriteResult(result.ticket, Result.BAD_VERSION)
            results.append(result)
        return self._give(Written(results))

    def _read(self, words: Words) -> Iterable[Outcome]:
        reads = [self.host.reads.popleft() for _ in range(len(self.host.reads))]
        for read in reads:
            name = getattr(read, "name", "")
            for fact in self.world.nodes.read(read, self.world.spare_id(name)):
                yield from self._give(fact)

    def _answer(self, words: Words) -> Iterable[Outcome]:
        for channel in sorted(self.host.channels):
            for _ in range(len(self.host.channels[channel])):
                if channel not in self.host.channels:
                    break
                answer = self.host.send_one(channel)
                if answer is not None:
                    yield from self._give(answer)

    def _rest(self, words: Words) -> Iterable[Outcome]:
        host = self.host
        for _ in range(100):
            if host.writes:
                yield from self._land(words)
            elif host.reads:
                yield from self._read(words)
            elif host.channels and not host.resigned:
                yield from self._answer(words)
            else:
                return
        raise AssertionError("it does not come to rest")

    def _tick(self, words: Words) -> Iterable[Outcome]:
        self.host.now_ms += int(words.plain[0])
        return self._give(Tick())


def run_text(text: str) -> tuple[str, Conversation]:
    """Runs a conversation. Returns the text of the conversation with its current outcomes, and the
    `Conversation` object."""
    return golden_text.run_text(text, Conversation)
