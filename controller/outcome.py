"""The outcome of one step of the controller: the effects that the host executes. The docstring of
the package `controller` describes the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller.calls import Ticket
from controller.events import Event
from controller.requests import Send
from controller.values import Assignment, LeaderAndIsr, Replicas, TopicPartition

# ---------------------------------------------------------------------------------- the writes


class CreateState(NamedTuple):
    """Creates the znodes `…/partitions`, `…/partitions/<p>` and `state` of a partition; the first
    two may already exist. The result NODE_EXISTS means that the `state` znode exists. The result OK
    has version 0."""

    ticket: int
    topic: str
    partition: int
    state: LeaderAndIsr


class SetState(NamedTuple):
    """A write of a partition's state. It succeeds only if the znode has the version
    ``state.partition_epoch``. The result OK contains the new version."""

    ticket: int
    topic: str
    partition: int
    state: LeaderAndIsr


class RewriteTopic(NamedTuple):
    """Writes `/brokers/topics/<name>` if the znode has the version ``znode_version``. If the write
    succeeds, its result contains the new version."""

    ticket: int
    name: str
    topic_id: bytes | None
    partitions: Mapping[int, Assignment]
    znode_version: int
    unknown: object
    """The value of `TopicFact.unknown`: data that this broker does not interpret and writes back.
    """


class DeleteTopic(NamedTuple):
    """Deletes, in this order, the tree of `/brokers/topics/<name>`, `/config/topics/<name>` and
    `/admin/delete_topics/<name>`. A znode that does not exist is not an error."""

    ticket: int
    name: str


class DeleteNodes(NamedTuple):
    """Deletes znodes by their paths, at any version. A missing znode is not an error."""

    ticket: int
    paths: Sequence[str]


class SetReassignments(NamedTuple):
    """Writes the remaining reassignments to `/admin/reassign_partitions`; deletes the znode if no
    reassignment remains."""

    ticket: int
    targets: Mapping[TopicPartition, Replicas]


class SetProducerIds(NamedTuple):
    """Writes `/latest_producer_id_block` if the znode has the version ``znode_version``. Creates
    the znode if ``znode_version`` is -1."""

    ticket: int
    broker_id: int
    block_start: int
    block_end: int
    znode_version: int


Write = (
    CreateState
    | SetState
    | RewriteTopic
    | DeleteTopic
    | DeleteNodes
    | SetReassignments
    | SetProducerIds
)

# ----------------------------------------------------------------------------------- the reads


class ReadTopic(NamedTuple):
    """Reads `/brokers/topics/<name>` and sets a watch on its data. The result is TopicSeen or
    TopicGone."""

    name: str


class ReadStates(NamedTuple):
    """Reads the state znodes of partitions. The result arrives in one StatesRead or several."""

    partitions: Sequence[TopicPartition]


class ReadUnclean(NamedTuple):
    """Reads `unclean.leader.election.enable` of a topic. The result is UncleanSeen."""

    topic: str


class ReadProducerIds(NamedTuple):
    """Reads `/latest_producer_id_block`. The result is ProducerIdsRead or ProducerIdsUnknown."""


Read = ReadTopic | ReadStates | ReadUnclean | ReadProducerIds

# --------------------------------------------------------------------------------- the replies


class AlteredPartition(NamedTuple):
    """One partition of an AlterPartition response. It has the current state of the partition if
    ``error_code`` is 0."""

    topic: str
    topic_id: bytes | None
    partition: int
    error_code: int
    leader: int = -1
    leader_epoch: int = -1
    isr: Replicas = ()
    partition_epoch: int = -1
    recovering: bool = False


class AlterPartitionReply(NamedTuple):
    """The reply to AlterPartition, with the partitions in the order of the call."""

    error_code: int
    partitions: Sequence[AlteredPartition] = ()


class ControlledShutdownReply(NamedTuple):
    """The reply to ControlledShutdown: the partitions that the stopping broker still leads."""

    error_code: int
    remaining: Sequence[TopicPartition] = ()


class ElectLeadersReply(NamedTuple):
    """The reply to ElectLeaders, with an error code for each partition."""

    error_code: int
    partitions: Mapping[TopicPartition, tuple[int, str]]


class ReassignmentsReply(NamedTuple):
    """The reply to AlterPartitionReassignments, with an error code for each partition."""

    error_code: int
    partitions: Mapping[TopicPartition, tuple[int, str]]


class ListedReassignments(NamedTuple):
    """The reply to ListPartitionReassignments."""

    error_code: int
    partitions: Mapping[TopicPartition, Assignment]


class ProducerIdsReply(NamedTuple):
    """The reply to AllocateProducerIds."""

    error_code: int
    first: int = -1
    length: int = 0


Reply = (
    AlterPartitionReply
    | ControlledShutdownReply
    | ElectLeadersReply
    | ReassignmentsReply
    | ListedReassignments
    | ProducerIdsReply
)


@dataclass(slots=True)
class Outcome:
    """The effects of one step. The host executes the fields in the order of their declaration; the
    docstring of the package `controller` has the details."""

    writes: Sequence[Write] = ()
    sends: Sequence[Send] = ()
    reads: Sequence[Read] = ()
    replies: Sequence[tuple[Ticket, Reply]] = ()
    events: Sequence[Event] = ()
    resign: str = ""
    """The reason why this broker is no longer the controller; "" while it is the controller."""
    more: bool = False
    """True if work remains; the host then calls `Controller.work` in the next turn."""
