"""The identity of the broker in a data directory: ``meta.properties``, with broker id and cluster
id. Muster writes the file in the format of a Kafka broker with ZooKeeper (version 0), and can also
read KRaft's format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from broker.topics.directory.missing import META_FILE, KnownMissing, check_identity
from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem, read_whole, write_whole
from protocol.properties import parse, render


class Identity(NamedTuple):
    """The broker id and cluster id, from the data directory and the configuration."""

    node_id: int | None
    """The broker id in the directory. If the directory has none, the configured broker id; None if
    that is not set either."""
    cluster_id: str | None
    properties: Mapping[str, str]
    """All properties in ``meta.properties``."""


def read_identity(
    fs: FileSystem, directory: str, broker_id: int | None, missing: KnownMissing
) -> Identity:
    """Reads the ids; ``broker_id`` is the broker id in the configuration. Raises BadDirectory."""
    path = os.path.join(directory, META_FILE)
    if fs.exists(path):
        there = parse(read_whole(fs, path).decode())
    else:
        there = check_identity(fs, directory, missing)
    written = there.get("node.id", there.get("broker.id"))
    if written is not None and not written.isdigit():
        raise BadDirectory(
            f"{path} has the broker id {written!r}, which is not a number: correct the file"
        )
    if written is not None and broker_id is not None and int(written) != broker_id:
        raise BadDirectory(
            f"{directory} belongs to broker {written}, but this is broker {broker_id}:"
            f" set broker.id={written}, or use another directory"
        )
    node_id = broker_id if written is None else int(written)
    return Identity(node_id, there.get("cluster.id") or None, there)


def keep_identity(
    fs: FileSystem, directory: str, identity: Identity, node_id: int, cluster_id: str
) -> None:
    """Writes ids that the directory does not contain yet. Raises OSError."""
    there = identity.properties
    has_id = "node.id" in there or "broker.id" in there
    if not has_id or "cluster.id" not in there:
        whole = {"version": "0", "broker.id": str(node_id), **there, "cluster.id": cluster_id}
        write_whole(fs, os.path.join(directory, META_FILE), render(whole).encode())
