"""What happened in a broker, as values."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]


def utc(ms: float) -> datetime:
    """A time of the broker, which counts milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


@dataclass(frozen=True)
class Group:
    """A group as its coordinator has it."""

    group: str
    kind: str
    """`classic`, or another of Kafka's kinds."""
    state: str
    """Kafka's name: `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable`, `Dead`."""
    generation_id: int
    protocol_type: str
    protocol: str
    """The assignor that its members chose."""
    members: int
    """How many there are."""
    coordinator: str
    """The address of the broker that coordinates it."""

    @classmethod
    def of(cls, told: Json) -> Group:
        """From what the broker says."""
        return cls(
            group=told["group"], kind=told["kind"], state=told["state"],
            generation_id=told["generation_id"], protocol_type=told["protocol_type"] or "",
            protocol=told["protocol"] or "", members=told["members"],
            coordinator=str(told["coordinator"]),
        )  # fmt: skip


@dataclass(frozen=True)
class Member:
    """A member of a group."""

    member: str
    """Its id."""
    group_instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    last_heard_ms: int
    assignment: tuple[tuple[str, int], ...]
    """The partitions it was given, as (topic, partition), in order."""
    subscription: tuple[str, ...]
    """The topics it asked for."""

    @classmethod
    def of(cls, told: Json) -> Member:
        """From what the broker says."""
        return cls(
            member=told["member"], group_instance_id=told["group_instance_id"],
            client_id=told["client_id"], host=told["host"],
            session_timeout_ms=told["session_timeout_ms"], last_heard_ms=told["last_heard_ms"],
            assignment=tuple(sorted((topic, partition) for topic, partition in told["assignment"])),
            subscription=tuple(told["subscription"]),
        )  # fmt: skip


@dataclass(frozen=True)
class Offset:
    """What a group committed in one partition."""

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_ms: int
    lag: int | None
    """How many records follow it; None where the partition is gone."""

    @property
    def committed_at(self) -> datetime:
        """When it was committed, by the broker's clock, in UTC."""
        return utc(self.commit_ms)

    @classmethod
    def of(cls, told: Json) -> Offset:
        """From what the broker says."""
        return cls(
            offset=told["offset"], leader_epoch=told["leader_epoch"],
            metadata=told["metadata"] or "", commit_ms=told["commit_ms"], lag=told["lag"],
        )  # fmt: skip


class Committed(Mapping[tuple[str, int], Offset]):
    """The committed offsets of a group: (topic, partition) to `Offset`."""

    def __init__(self, group: str, offsets: Mapping[tuple[str, int], Offset]) -> None:
        self.group = group
        self._offsets = dict(sorted(offsets.items()))

    @classmethod
    def of(cls, group: str, told: Json) -> Committed:
        """From what the broker says."""
        return cls(
            group, {(each["topic"], each["partition"]): Offset.of(each) for each in told["offsets"]}
        )

    def offset(self, topic: str, partition: int = 0) -> int | None:
        """The offset of one partition; None if none is committed."""
        found = self._offsets.get((topic, partition))
        return None if found is None else found.offset

    @property
    def lag(self) -> int:
        """How many records of the partitions with a committed offset are not read yet."""
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
    """Something that happened to a group, with its reason."""

    at_ms: int
    what: str
    """The kind of event."""
    sentence: str
    """What `muster groups why` says."""
    details: Json = field(repr=False)
    """All that the broker knows of it."""

    @property
    def at(self) -> datetime:
        """When, by the broker's clock, in UTC."""
        return utc(self.at_ms)

    @classmethod
    def of(cls, told: Json) -> JournalEvent:
        """From what the broker says."""
        return cls(told["at_ms"], told["what"], told["sentence"], told)

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {self.sentence}"


@dataclass(frozen=True)
class SeenRequest:
    """A request that a client sent, and what it was answered."""

    seq: int
    """Its place in the order of all requests."""
    at_ms: int
    api: str
    version: int
    client_id: str | None
    host: str
    correlation_id: int
    outcome: str
    """`answered`, `waits`, `wants no answer`, or `disconnected`: its client is gone."""
    error: str | None
    """The first error of the answer, by Kafka's name; None if it has none."""
    errors: tuple[str, ...]
    """All of them."""
    took_ms: float | None
    request: Json | None = field(repr=False)
    """The body, decoded: Kafka's fields by their names; None if it had more than 4 MiB."""
    response: Json | None = field(repr=False)
    """The body of the answer; None if there was none, or is none yet."""

    @property
    def at(self) -> datetime:
        """When it came, by the broker's clock, in UTC."""
        return utc(self.at_ms)

    @classmethod
    def of(cls, told: Json) -> SeenRequest:
        """From what the broker says."""
        known = {name: told[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "errors": tuple(told["errors"])})


@dataclass(frozen=True)
class Record:
    """A record as it stands in the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def timestamp(self) -> datetime:
        """Its time, in UTC."""
        return utc(self.timestamp_ms)

    @classmethod
    def of(cls, topic: str, told: Json) -> Record:
        """From what the broker says."""
        return cls(
            topic, told["partition"], told["offset"], told["timestamp_ms"],
            _bytes(told["key"]), _bytes(told["value"]),
            tuple((name, _bytes(value)) for name, value in told["headers"]),
        )  # fmt: skip


def _bytes(told: Any) -> bytes | None:
    """Bytes are text where they are UTF-8, and base64 where not."""
    if told is None:
        return None
    if "text" in told:
        return str(told["text"]).encode()
    return base64.b64decode(told["base64"])
