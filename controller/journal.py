"""Journal entries from the controller's events: causes of leader changes, and restarts of brokers.

`Story.entry` accepts the events in order, each with its time. It returns an entry and the name of
the journal page that the entry belongs to. `Story` stores which brokers are live and how the other
brokers left, so that the entry about a partition can state in words why its leader changed.
"""

from __future__ import annotations

from controller.events import (
    BrokerJoined,
    BrokerLeft,
    Cause,
    ControllerReady,
    ControllerResigned,
    DeletionQueued,
    DeletionStarted,
    Event,
    LogDirsFailed,
    OtherController,
    ReassignmentDone,
    ReassignmentStarted,
    RequestRefused,
    ShutdownAsked,
    StateWritten,
    TopicRemoved,
)
from controller.values import NO_LEADER, Replicas, TopicPartition
from journal.happened import CONTROLLER, Happened, Kind, Named, of_broker, of_partition, of_topic
from protocol.errors import NAMES
from protocol.now import Now

_GONE = "is no longer registered in ZooKeeper"
_NOT_THERE = "was down when this controller was elected"
_STOPS = "is in controlled shutdown"
_STOPPED = "has shut down cleanly"
_RESTARTED = "has restarted"
_NO_DIRECTORY = "has lost the log directory of this replica"
_CAUSES = {
    Cause.CREATED: "elected when the partition was created",
    Cause.REASSIGNED: "the partition's replicas are being reassigned",
}


class Story:
    """Converts controller events into journal entries, over all terms in which this broker is the
    controller."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._epoch = -1
        self._live: set[int] = set()
        self._how: dict[int, str] = {}
        """By broker id: a text about the last stop or restart of the broker, such as "was stopped".
        Later journal entries contain this text."""
        self._failed: dict[int, frozenset[TopicPartition]] = {}
        """The partitions whose log directory has failed, by broker id."""

    def entry(self, event: Event, now: Now) -> Named | None:
        """Returns the name of a journal page and the entry for this page; None if the event has no
        entry."""
        match event:
            case StateWritten():
                return self._written(event, now)
            case ReassignmentStarted() | ReassignmentDone():
                return self._moving(event, now)
            case DeletionQueued() | DeletionStarted() | TopicRemoved():
                return self._deleting(event, now)
            case ControllerReady() | ControllerResigned() | OtherController():
                return self._of_controller(event, now)
            case ShutdownAsked(broker) if self._how.get(broker) == _STOPS:
                return None  # repeated until the broker's partitions are settled
            case BrokerJoined() | BrokerLeft() | ShutdownAsked() | LogDirsFailed():
                return self._of_broker(event, now)
            case RequestRefused(broker, request, error):
                why = f"broker {broker} refused {request}: {NAMES.get(error, error)}"
                return of_broker(broker), self._entry(now, Kind.BROKER, "refused", why, broker)
            case _:
                return None

    def _entry(self, now: Now, kind: Kind, cause: str, why: str, broker: int = -1) -> Happened:
        return Happened(now.wall_ms, kind, cause, why, broker, self._epoch)

    # -- brokers and the controller

    def _of_controller(
        self, event: ControllerReady | ControllerResigned | OtherController, now: Now
    ) -> Named:
        me = f"broker {self._node_id}"
        match event:
            case ControllerReady(epoch, brokers, topics, partitions):
                self._epoch = epoch
                self._live, self._how, self._failed = {*brokers}, {}, {}
                counts = ((topics, "topic"), (partitions, "partition"))
                held = " and ".join(f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts)
                why = f"{me} was elected controller (live brokers {_ids(brokers)}; {held})"
                cause = "elected"
            case ControllerResigned(reason):
                cause, why = "resigned", f"{me} is no longer the controller: {reason}"
            case OtherController(topic, partition, epoch):
                cause = "other"
                why = f"a newer controller (epoch {epoch}) changed {topic}-{partition}"
        return CONTROLLER, self._entry(now, Kind.CONTROLLER, cause, why)

    def _of_broker(
        self, event: BrokerJoined | BrokerLeft | ShutdownAsked | LogDirsFailed, now: Now
    ) -> Named:
        broker = event.broker_id
        match event:
            case BrokerJoined(_, _, bounced):
                self._live.add(broker)
                self._how.pop(broker, None)
                if bounced:
                    self._how[broker] = _RESTARTED
                cause, why = ("restarted", _RESTARTED) if bounced else ("came", "has registered")
            case BrokerLeft():
                stopped = self._how.get(broker) in (_STOPS, _STOPPED)
                self._live.discard(broker)
                self._failed.pop(broker, None)
                self._how[broker] = why = _STOPPED if stopped else _GONE
                cause = "stopped" if stopped else "gone"
            case ShutdownAsked():
                self._how[broker] = why = _STOPS
                cause = "stops"
            case LogDirsFailed(_, partitions):
                self._failed[broker] = self._failed.get(broker, frozenset()) | {*partitions}
                cause = "directory"
                count = len(partitions)
                why = f"has lost the log directories of {count} replica{'s' * (count != 1)}"
        return of_broker(broker), self._entry(
            now, Kind.BROKER, cause, f"broker {broker} {why}", broker
        )

    # -- topics and replicas

    def _moving(self, event: ReassignmentStarted | ReassignmentDone, now: Now) -> Named:
        if isinstance(event, ReassignmentStarted):
            target = event.assignment.target
            cause = "started"
            why = f"reassignment started from replicas {_ids(event.before)} to {_ids(target)}"
        else:
            cause, why = "done", f"reassignment completed: the replicas are {_ids(event.replicas)}"
        name = of_partition(event.topic, event.partition)
        return name, self._entry(now, Kind.MOVE, cause, why)

    def _deleting(self, event: DeletionQueued | DeletionStarted | TopicRemoved, now: Now) -> Named:
        match event:
            case DeletionQueued(_, waits_for):
                cause, why = "queued", "the deletion of the topic was requested"
                if waits_for:
                    why += f"; the deletion waits for {_brokers(waits_for)} to return"
            case DeletionStarted():
                cause, why = "started", "the replicas of the topic are being deleted"
            case TopicRemoved():
                cause, why = "deleted", "the topic is deleted"
        return of_topic(event.name), self._entry(now, Kind.TOPIC, cause, why)

    def _written(self, event: StateWritten, now: Now) -> Named | None:
        moved = event.leader != event.leader_before
        if not moved and event.isr == event.isr_before:
            return None
        name = of_partition(event.topic, event.partition)
        entry = Happened(
            now.wall_ms,
            Kind.LEADER if moved else Kind.ISR,
            event.cause.name.lower(),
            self._why_moved(event) if moved else self._why_isr(event),
            controller_epoch=self._epoch,
            leader=event.leader,
            leader_before=event.leader_before,
            leader_epoch=event.leader_epoch,
            isr=event.isr,
            isr_before=event.isr_before,
        )
        return name, entry

    def _why_moved(self, event: StateWritten) -> str:
        before, leader = event.leader_before, event.leader
        match event.cause:
            case Cause.OFFLINE if leader == NO_LEADER:
                none = f"no member of the ISR ({_ids(event.isr)}) is alive"
                return f"{self._led(event)}; {none}"
            case Cause.OFFLINE if before == NO_LEADER:
                return f"broker {leader}, a member of the ISR, has returned"
            case Cause.OFFLINE | Cause.SHUTDOWN:
                return f"{self._led(event)}; broker {leader} is the first live member of the ISR"
            case Cause.UNCLEAN:
                return (
                    f"no member of the ISR ({_ids(event.isr_before)}) is alive; an unclean election"
                    " is enabled or was requested: records that only the ISR had are lost"
                )
            case Cause.PREFERRED:
                return f"the election of the preferred leader, broker {leader}, was requested"
            case Cause.BALANCE:
                return (
                    f"broker {leader}, the preferred leader, is in the ISR again, and"
                    " auto.leader.rebalance.enable is set"
                )
            case _:
                return _CAUSES.get(event.cause, str(event.cause.value))

    def _led(self, event: StateWritten) -> str:
        before = event.leader_before
        return f"the leader, broker {before}, {self._what_of(before, event)}"

    def _why_isr(self, event: StateWritten) -> str:
        out = [each for each in event.isr_before if each not in event.isr]
        if event.cause is Cause.ISR:
            into = [each for each in event.isr if each not in event.isr_before]
            did = [f"removed {_brokers(out)}"] * bool(out)
            did += [f"added {_brokers(into)}"] * bool(into)
            return f"the leader, broker {event.leader}, changed the ISR: {', '.join(did)}"
        if event.cause is Cause.OFFLINE and out:
            return ", ".join(f"broker {each} {self._what_of(each, event)}" for each in out)
        return _CAUSES.get(event.cause, str(event.cause.value))

    def _what_of(self, broker: int, event: StateWritten) -> str:
        if (event.topic, event.partition) in self._failed.get(broker, ()):
            return _NO_DIRECTORY
        how = self._how.get(broker)
        if how is None:
            return "was briefly unregistered" if broker in self._live else _NOT_THERE
        return how


def _ids(brokers: Replicas) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _brokers(brokers: Replicas | list[int]) -> str:
    return f"broker{'s' * (len(brokers) != 1)} {_ids(tuple(brokers))}"
