"""The broker's groups, offsets, events, requests and records, as values."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]


def utc(ms: float) -> datetime:
    """Return a time of the broker, given in milliseconds since 1970, as a datetime in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC)


@dataclass(frozen=True)
class Group:
    """The state of a group, as its coordinator reports it."""

    group: str
    kind: str
    """Kafka's type of the group: `classic` or `consumer`."""
    state: str
    """`Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`; for a consumer
    group `Empty`, `Assigning`, `Reconciling` or `Stable`."""
    generation_id: int
    """The generation; for a consumer group the epoch."""
    protocol_type: str
    protocol: str
    """The assignor that the members have selected; empty before the members have selected an
    assignor."""
    members: int
    """The number of members."""
    coordinator: str
    """The address of the coordinator, HOST:PORT."""

    @classmethod
    def of(cls, row: Json) -> Group:
        """Return the group that the broker's JSON describes."""
        return cls(
            group=row["group"], kind=row["kind"], state=row["state"],
            generation_id=row["generation_id"], protocol_type=row["protocol_type"] or "",
            protocol=row["protocol"] or "", members=row["members"],
            coordinator=str(row["coordinator"]),
        )  # fmt: skip


@dataclass(frozen=True)
class Partition:
    """The state of a partition of a cluster."""

    topic: str
    partition: int
    leader: int | None
    """The broker id of the leader; None if the partition has no leader."""
    leader_epoch: int
    replicas: tuple[int, ...]
    """The broker ids of the replicas. The first replica is the preferred leader."""
    isr: tuple[int, ...]
    """The broker ids of the in-sync replicas."""

    @classmethod
    def of(cls, row: Json) -> Partition:
        """Return the partition that the broker's JSON describes."""
        return cls(
            row["topic"], row["partition"], row["leader"], row["leader_epoch"],
            tuple(row["replicas"]), tuple(row["isr"]),
        )  # fmt: skip

    def __str__(self) -> str:
        led = "no broker leads" if self.leader is None else f"broker {self.leader} leads"
        isr = ", ".join(map(str, self.isr))
        replicas = ", ".join(map(str, self.replicas))
        return f"{self.topic}-{self.partition}: {led}, ISR {isr} of {replicas}"


@dataclass(frozen=True)
class PartitionEvent:
    """A past event of a partition with its reason: a new leader, or a change of the ISR."""

    at: datetime
    what: str
    """The kind of event, such as `leader` or `isr`."""
    sentence: str
    """The reason, such as `the leader, broker 2, is no longer registered in ZooKeeper`."""
    leader: int | None
    """The broker id of the leader after the event; None without a leader, or if it is unknown."""
    isr: tuple[int, ...]
    """The ISR after the event; empty if unknown."""
    seen_by: int
    """The id of the broker that recorded the event."""

    @classmethod
    def of(cls, row: Json) -> PartitionEvent:
        """Return the event that the broker's JSON describes."""
        return cls(
            utc(row["at_ms"]), row["what"], row["sentence"], row["leader"],
            tuple(row["isr"]), row["seen_by"],
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.what}: {self.sentence} (broker {self.seen_by})"


@dataclass(frozen=True)
class Reconciliation:
    """The progress of a member of a consumer group (KIP-848) towards its target assignment."""

    epoch: int
    """The member's epoch; -2 for a static member that has left temporarily."""
    state: str
    """`STABLE`, `UNREVOKED`, `UNRELEASED` or `UNKNOWN`."""
    target: tuple[tuple[str, int], ...]
    """The target assignment as (topic, partition), sorted."""
    revoking: tuple[tuple[str, int], ...]
    """The partitions that the member must give up and still owns."""
    revoke_until_ms: int | None
    """The time at which the member is removed if it has not given up the partitions in `revoking`,
    in milliseconds since 1970 by the broker's clock. None if `revoking` is empty."""
    waits_for: Mapping[tuple[str, int], str]
    """For each partition that this member waits for, the id of the member that still holds it."""

    @classmethod
    def of(cls, row: Json | None) -> Reconciliation | None:
        """Return the reconciliation that the broker's JSON describes."""
        if row is None:
            return None
        return cls(
            epoch=row["epoch"], state=row["state"], target=_partitions(row["target"]),
            revoking=_partitions(row["revoking"]), revoke_until_ms=row["revoke_until_ms"],
            waits_for={(each["topic"], each["partition"]): each["member"]
                       for each in row["waits_for"]},
        )  # fmt: skip


def _partitions(row: Mapping[str, list[int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((topic, each) for topic, numbers in row.items() for each in numbers))


@dataclass(frozen=True)
class Member:
    """A member of a group."""

    member: str
    """The member id."""
    group_instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    last_heard_ms: int
    """The time at which the member's last request arrived, in milliseconds since 1970 by the
    broker's clock."""
    assignment: tuple[tuple[str, int], ...]
    """The assigned partitions as (topic, partition), sorted."""
    subscription: tuple[str, ...]
    """The topics to which the member subscribes."""
    reconciliation: Reconciliation | None = None
    """The progress towards the target assignment in a consumer group (KIP-848); None in a classic
    group."""

    @classmethod
    def of(cls, row: Json) -> Member:
        """Return the member that the broker's JSON describes."""
        return cls(
            member=row["member"], group_instance_id=row["group_instance_id"],
            client_id=row["client_id"], host=row["host"],
            session_timeout_ms=row["session_timeout_ms"], last_heard_ms=row["last_heard_ms"],
            assignment=tuple(sorted((topic, partition) for topic, partition in row["assignment"])),
            subscription=tuple(row["subscription"]),
            reconciliation=Reconciliation.of(row.get("reconciliation")),
        )  # fmt: skip


@dataclass(frozen=True)
class Offset:
    """A group's committed offset of one partition."""

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_ms: int
    """The time at which the offset was committed, in milliseconds since 1970 by the broker's clock.
    """
    lag: int | None
    """The number of records after the offset; None if the partition does not exist."""

    @property
    def committed_at(self) -> datetime:
        """The time at which the offset was committed, by the broker's clock, in UTC."""
        return utc(self.commit_ms)

    @classmethod
    def of(cls, row: Json) -> Offset:
        """Return the offset that the broker's JSON describes."""
        return cls(
            offset=row["offset"], leader_epoch=row["leader_epoch"],
            metadata=row["metadata"] or "", commit_ms=row["commit_ms"], lag=row["lag"],
        )  # fmt: skip


class Committed(Mapping[tuple[str, int], Offset]):
    """The committed offsets of a group: a mapping of (topic, partition) to `Offset`."""

    def __init__(self, group: str, offsets: Mapping[tuple[str, int], Offset]) -> None:
        self.group = group
        self._offsets = dict(sorted(offsets.items()))

    @classmethod
    def of(cls, group: str, row: Json) -> Committed:
        """Return the offsets that the broker's JSON describes."""
        return cls(
            group, {(each["topic"], each["partition"]): Offset.of(each) for each in row["offsets"]}
        )

    def offset(self, topic: str, partition: int = 0) -> int | None:
        """Return the committed offset of one partition; None if the group has not committed an
        offset of the partition."""
        found = self._offsets.get((topic, partition))
        return None if found is None else found.offset

    @property
    def lag(self) -> int:
        """The number of records after the committed offsets, over all partitions with a committed
        offset."""
        return sum(each.lag or 0 for each in self._offsets.values())

    def __getitem__(self, partition: tuple[str, int]) -> Offset:
        return self._offsets[partition]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __str__(self) -> str:
        return ", ".join(
            f"{topic}-{partition} at {each.offset} (lag {each.lag})"
            for (topic, partition), each in self._offsets.items()
        )

    def __repr__(self) -> str:
        return f"<Committed of {self.group!r}: {self or 'nothing'}>"


@dataclass(frozen=True)
class JournalEvent:
    """An event of a group, with its reason."""

    at_ms: int
    """The time at which the event happened, in milliseconds since 1970 by the broker's clock."""
    what: str
    """The kind of event, as a keyword."""
    sentence: str
    """The event as a sentence, as `muster groups why` shows it."""
    details: Json = field(repr=False)
    """All fields of the event in the broker's journal."""

    @property
    def at(self) -> datetime:
        """The time at which the event happened, by the broker's clock, in UTC."""
        return utc(self.at_ms)

    @classmethod
    def of(cls, row: Json) -> JournalEvent:
        """Return the event that the broker's JSON describes."""
        return cls(row["at_ms"], row["what"], row["sentence"], row)

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {self.sentence}"


@dataclass(frozen=True)
class SeenRequest:
    """A request of a client, and the broker's response."""

    seq: int
    """The number of the request, in order of arrival."""
    at_ms: int
    api: str
    version: int
    client_id: str | None
    host: str
    correlation_id: int
    outcome: str
    """`answered`, `waits` (no response yet), `wants no answer` (acks=0), or `disconnected` before
    the response."""
    error: str | None
    """The first error of the response, by Kafka's name; None if it has no error."""
    errors: tuple[str, ...]
    """All errors of the response, by Kafka's names."""
    took_ms: float | None
    """Milliseconds from the arrival of the request to its response; None without a response."""
    request: Json | None = field(repr=False)
    """The decoded body of the request, with Kafka's field names; None if the body had more than 4
    MiB."""
    response: Json | None = field(repr=False)
    """The decoded body of the response; None without a response."""

    @property
    def at(self) -> datetime:
        """The time at which the request arrived, by the broker's clock, in UTC."""
        return utc(self.at_ms)

    @classmethod
    def of(cls, row: Json) -> SeenRequest:
        """Return the request that the broker's JSON describes."""
        known = {name: row[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "errors": tuple(row["errors"])})


@dataclass(frozen=True)
class Record:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp, in UTC."""
        return utc(self.timestamp_ms)

    @classmethod
    def of(cls, topic: str, row: Json) -> Record:
        """Return the record that the broker's JSON describes."""
        return cls(
            topic, row["partition"], row["offset"], row["timestamp_ms"],
            _bytes(row["key"]), _bytes(row["value"]),
            tuple((name, _bytes(value)) for name, value in row["headers"]),
        )  # fmt: skip


def _bytes(row: Any) -> bytes | None:
    """Decode bytes from JSON. The JSON contains them as text if they are UTF-8, otherwise as
    base64."""
    if row is None:
        return None
    if "text" in row:
        return str(row["text"]).encode()
    return base64.b64decode(row["base64"])
