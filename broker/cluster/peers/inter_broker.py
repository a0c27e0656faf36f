"""The versions of requests between brokers, by ``inter.broker.protocol.version``.

Kafka's brokers send no ApiVersions on most connections to each other: the setting decides the
versions, and a broker that does not support one of them breaks the cluster. Releases 0.10.2 to 3.9
are supported. Source: Kafka 3.9 ``MetadataVersion``, ``ControllerChannelManager``,
``RemoteLeaderEndPoint``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

OLDEST = (0, 10, 2, 0)
NEWEST = (3, 9, 0, 0)
_TEXT = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*(?:-IV(\d+))?")
_LAST_STEP = 99
"""The number after ``-IV`` that is assumed for a version without ``-IV``, such as ``2.4``. It is
greater than all real numbers, because such a version means the last one of its release."""

_Since = tuple[tuple[tuple[int, int, int, int], int], ...]
"""Pairs of a Kafka release and a request version, in ascending order. A broker of any release uses
the version of the last pair whose release is not newer than its own."""

_VERSIONS: Mapping[str, _Since] = {
    "LeaderAndIsr": (
        (OLDEST, 0),
        ((1, 0, 0, 0), 1),
        ((2, 2, 0, 0), 2),
        ((2, 4, 0, 0), 3),
        ((2, 4, 0, 1), 4),
        ((2, 8, 0, 1), 5),
        ((3, 2, 0, 0), 6),
        ((3, 4, 0, 0), 7),
    ),
    "StopReplica": (
        (OLDEST, 0),
        ((2, 2, 0, 0), 1),
        ((2, 4, 0, 1), 2),
        ((2, 6, 0, 0), 3),
        ((3, 4, 0, 0), 4),
    ),
    "UpdateMetadata": (
        (OLDEST, 3),
        ((1, 0, 0, 0), 4),
        ((2, 2, 0, 0), 5),
        ((2, 4, 0, 1), 6),
        ((2, 8, 0, 1), 7),
        ((3, 4, 0, 0), 8),
    ),
    "ControlledShutdown": ((OLDEST, 1), ((2, 2, 0, 0), 2), ((2, 4, 0, 1), 3)),
    "Fetch": (
        (OLDEST, 3),
        ((0, 11, 0, 0), 4),
        ((0, 11, 0, 1), 5),
        ((1, 1, 0, 0), 7),
        ((2, 0, 0, 1), 8),
        ((2, 1, 0, 2), 10),
        ((2, 3, 0, 1), 11),
        ((2, 7, 0, 1), 12),
        ((3, 1, 0, 0), 13),
        ((3, 5, 0, 0), 14),
        ((3, 5, 0, 1), 15),
        ((3, 7, 0, 4), 16),
        ((3, 9, 0, 0), 17),
    ),
    "ListOffsets": (
        (OLDEST, 1),
        ((0, 11, 0, 0), 2),
        ((2, 0, 0, 1), 3),
        ((2, 1, 0, 1), 4),
        ((2, 2, 0, 1), 5),
        ((2, 8, 0, 0), 6),
        ((3, 0, 0, 1), 7),
        ((3, 5, 0, 0), 8),
        ((3, 9, 0, 0), 9),
    ),
    "OffsetForLeaderEpoch": (
        ((0, 11, 0, 2), 0),
        ((2, 0, 0, 0), 1),
        ((2, 1, 0, 1), 2),
        ((2, 3, 0, 1), 3),
        ((2, 8, 0, 0), 4),
    ),
    "WriteTxnMarkers": (((0, 11, 0, 0), 0), ((2, 8, 0, 0), 1)),
}

_MAGIC_2 = (0, 11, 0, 0)
_TRUNCATES_ON_FETCH = (2, 7, 0, 1)
_ALTER_PARTITION = (2, 7, 0, 2)
_TOPIC_IDS = (2, 8, 0, 0)
_FEATURES = (2, 7, 0, 0)
_FEATURE_2 = (3, 3, 0, 0)
_BLOCKS_BY_CONTROLLER = (3, 0, 0, 0)
_STORES_MAGIC_2 = (3, 0, 0, 0)
_BROKER_EPOCHS = (2, 2, 0, 0)
_STATIC_MEMBERS = (2, 3, 0, 0)
_NO_EXPIRY = (2, 1, 0, 1)
_EPOCHS = (0, 11, 0, 2)
_PREFIXED_ACLS = (2, 0, 0, 1)


class BadVersionText(ValueError):
    """The value of ``inter.broker.protocol.version`` is not a version that brokers with ZooKeeper
    support."""


class InterBroker(NamedTuple):
    """The value of ``inter.broker.protocol.version``, and the features that brokers of this version
    have."""

    release: tuple[int, int, int, int]
    """The major, minor and patch version, and the number after ``-IV``. The patch version is 0 in
    all releases since 1.0."""

    def version_of(self, api: str) -> int | None:
        """Returns the version in which brokers send a request to each other. Returns None if the
        configured inter.broker.protocol.version does not have the request."""
        found = None
        for since, version in _VERSIONS[api]:
            if self.release >= since:
                found = version
        return found

    @property
    def has_leader_epochs(self) -> bool:
        """True if followers truncate by leader epochs; False if they truncate to their high
        watermark (KIP-101)."""
        return self.release >= _EPOCHS

    @property
    def has_prefixed_acls(self) -> bool:
        """True if the configured inter.broker.protocol.version has prefixed ACLs (KIP-290)."""
        return self.release >= _PREFIXED_ACLS

    @property
    def truncates_on_fetch(self) -> bool:
        """True if Fetch responses report diverging epochs, which saves an OffsetForLeaderEpoch
        request (KIP-595)."""
        return self.release >= _TRUNCATES_ON_FETCH

    @property
    def has_alter_partition(self) -> bool:
        """True if leaders request ISR changes from the controller; False if they write the ISR to
        ZooKeeper (KIP-497)."""
        return self.release >= _ALTER_PARTITION

    @property
    def has_topic_ids(self) -> bool:
        """True if topics have ids (KIP-516)."""
        return self.release >= _TOPIC_IDS

    @property
    def has_features(self) -> bool:
        """True if registrations of brokers contain features (version 5 of the node, KIP-584)."""
        return self.release >= _FEATURES

    @property
    def feature_version(self) -> int:
        """The format version of the node ``/feature`` (KIP-584)."""
        return 2 if self.release >= _FEATURE_2 else 1

    @property
    def controller_gives_producer_ids(self) -> bool:
        """True if the controller allocates producer ids (AllocateProducerIds, KIP-730). If False,
        each broker reserves producer ids in ZooKeeper."""
        return self.release >= _BLOCKS_BY_CONTROLLER

    @property
    def has_magic_2(self) -> bool:
        """True if requests between brokers may contain batches of magic 2."""
        return self.release >= _MAGIC_2

    @property
    def stores_magic_2(self) -> bool:
        """True if records are stored with magic 2, regardless of message.format.version
        (KIP-724)."""
        return self.release >= _STORES_MAGIC_2

    @property
    def has_broker_epochs(self) -> bool:
        """True if requests have broker epochs, by which a restarted broker is recognized
        (KIP-380)."""
        return self.release >= _BROKER_EPOCHS

    @property
    def has_static_members(self) -> bool:
        """True if records of groups have group instance ids (KIP-345)."""
        return self.release >= _STATIC_MEMBERS

    @property
    def keeps_offsets_without_expiry(self) -> bool:
        """True if committed offsets without an expire timestamp do not expire while their group has
        members (KIP-211)."""
        return self.release >= _NO_EXPIRY


def parse(text: str) -> InterBroker:
    """Parses a value such as ``3.9``, ``3.9-IV0``, ``0.10.2`` or ``0.10.2.2``. Raises
    BadVersionText."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise BadVersionText(f"{text!r} is not a Kafka version such as 3.9 or 0.10.2")
    major, minor = int(found[1]), int(found[2])
    patch = int(found[3] or 0) if major == 0 else 0
    step = _LAST_STEP if found[4] is None else int(found[4])
    release = (major, minor, patch, step)
    if release < OLDEST or release[:3] > NEWEST[:3]:
        raise BadVersionText(
            f"{text!r} is not supported in a ZooKeeper cluster with Muster: use 0.10.2 to 3.9"
        )
    return InterBroker(release)
