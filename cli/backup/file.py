"""The file of a backup: topics, settings and committed offsets as one JSON value.
docs/operate/backup.md describes its fields, with an example. The list of groups has the format of
`muster offsets export`, so that `muster offsets import` can read a backup too. The file does not
contain records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cli.errors import USAGE, CommandError
from cli.offsets import files as offset_files
from cli.patterns import chosen, nearest
from cli.times import instant

VERSION = 1


@dataclass(frozen=True)
class SavedTopic:
    """A topic without its records; ``configs`` contains the settings of the topic itself."""

    topic: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


@dataclass(frozen=True)
class Backup:
    """The content of a backup file."""

    taken_ms: int
    cluster: str | None
    topics: list[SavedTopic] = field(default_factory=list)
    brokers: dict[int | None, dict[str, str]] = field(default_factory=dict)
    """Dynamic broker settings by broker id. The key None has the cluster-wide defaults."""
    groups: offset_files.Groups = field(default_factory=dict)


def of_groups(backup: Backup, wanted: Sequence[str]) -> Backup:
    """Returns the backup with only the groups ``wanted``. Raises CommandError if the backup lacks
    one of them."""
    names, missing = chosen(wanted, backup.groups)
    if missing:
        like = nearest(missing, backup.groups)
        meant = "" if like is None else f"; did you mean {like}?"
        raise CommandError(f"the backup has no group {missing[0]}{meant}")
    return replace(backup, groups={name: backup.groups[name] for name in names})


def to_text(backup: Backup) -> str:
    value: dict[str, Any] = {
        "version": VERSION,
        "taken": instant(backup.taken_ms),
        "taken_ms": backup.taken_ms,
        "cluster": backup.cluster,
        "topics": [vars(topic) for topic in backup.topics],
        "brokers": [
            {"broker": broker, "configs": configs} for broker, configs in backup.brokers.items()
        ],
        "groups": offset_files.listed(backup.groups),
    }
    value["sha256"] = _checksum(value)
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def from_text(text: str, name: str, *, edited: bool = False) -> Backup:
    """Returns the backup in the text of a file. ``name`` is the file's name in errors.

    Raises CommandError with the problem. Rejects a file that was changed after the backup, unless
    ``edited`` is True.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandError(
            f"{name} is truncated or not JSON ({error}); use another backup", USAGE
        ) from None
    if not isinstance(value, dict) or "sha256" not in value or "topics" not in value:
        raise CommandError(
            f"{name} is not a backup of `muster backup create`; `muster offsets import` reads files"
            " that hold only offsets",
            USAGE,
        )
    if value.get("version") != VERSION:
        raise CommandError(
            f"{name} is a backup of version {value.get('version')}; this muster reads only version"
            f" {VERSION}",
            USAGE,
        )
    claimed = value.pop("sha256")
    if claimed != _checksum(value) and not edited:
        raise CommandError(
            f"{name} was changed or damaged after the backup: its sha256 does not match;"
            " --edited accepts the file",
            USAGE,
        )
    try:
        topics = [SavedTopic(**_checked_topic(entry)) for entry in value["topics"]]
        brokers = {entry["broker"]: _texts(entry["configs"]) for entry in value["brokers"]}
        taken_ms, cluster = int(value["taken_ms"]), value["cluster"]
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"{name} is not a valid backup: {error}", USAGE) from None
    groups = offset_files.from_value(value, name)
    return Backup(taken_ms, cluster, topics, brokers, groups)


def _checksum(value: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the value as compact JSON with sorted names, so that the layout of the
    file does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _checked_topic(entry: Any) -> dict[str, Any]:
    topic, partitions = entry["topic"], entry["partitions"]
    replication_factor = entry["replication_factor"]
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"invalid topic name {topic!r}")
    for number in (partitions, replication_factor):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 1 << 31:
            raise ValueError(f"topic {topic}: invalid number of partitions or replicas {number!r}")
    return {
        "topic": topic,
        "partitions": partitions,
        "replication_factor": min(replication_factor, (1 << 15) - 1),
        "configs": _texts(entry["configs"]),
    }


def _texts(configs: Any) -> dict[str, str]:
    if not isinstance(configs, dict) or not all(isinstance(v, str) for v in configs.values()):
        raise ValueError("the values of settings must be strings")
    return configs
