"""The registry of a standalone broker: files in its data directory (`docs/formats/registry.md`).

``meta.properties`` (broker id and cluster id) has Kafka's format. ``topics.json`` and
``configs.json`` have Muster's own format. Each file is replaced as a whole, so that a crash leaves
the old or the new file. Muster's files can be replaced even on a full disk
(`broker/topics/directory/reserved_file.py`).

A topic is stored before its directories are created, and marked as deleted before its directories
are removed. Therefore a crash neither restores a deleted topic nor leaves a new topic incomplete. A
change that could not be written is undone in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, TypeVar

import structlog

from broker.config.config_table import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from broker.config.protection import may_be_secret
from broker.topics.directory.adoption import Found
from broker.topics.directory.consumer_paths import FileConsumerPaths
from broker.topics.directory.identity import keep_identity, read_identity
from broker.topics.directory.missing import (
    CONFIGS_FILE,
    META_FILE,
    TOPICS_FILE,
    VOUCHED_FOR,
    KnownMissing,
    check_files,
)
from broker.topics.directory.reserved_file import ReservedFile
from broker.topics.registry import (
    NO_FEATURES,
    BadDirectory,
    DeletedTopic,
    Features,
    Topic,
    TopicLookups,
    uuid_bytes,
    uuid_text,
)
from log.files.filesystem import FileSystem
from protocol.slotted import slotted
from protocol.topic_names import check_topic_name

logger = structlog.get_logger(__name__)

Entry = TypeVar("Entry")

_VERSION = 1
_VERSION_WITH_NAMESAKES = 2
"""The format version of a topic list that contains a deleted topic and a new topic with the same
name. A Muster that knows only version 1 must reject such a list, since it would treat the new topic
as deleted."""
_VERSIONS_OF_FEATURES = {STREAMS_VERSION: 5, SHARE_VERSION: 4, GROUP_VERSION: 3}
"""The format version for each enabled feature. A Muster that does not know the version must not
start, since it would skip the records of the feature's groups."""
_KNOWN_VERSIONS = range(_VERSION, 6)


@slotted(frozen=True)
class _Image:
    """The contents of ``topics.json``. Immutable."""

    next_producer_id: int = 0
    stored: Mapping[str, Topic] = field(default_factory=dict)
    dying: Mapping[str, DeletedTopic] = field(default_factory=dict)
    """The topics whose deletion is incomplete, by name."""
    files: frozenset[str] = frozenset()
    """The files in `VOUCHED_FOR` that existed when this image was written."""
    features: Features = NO_FEATURES


class EmbeddedRegistry(TopicLookups):
    """Implements `StoredRegistry` in files. Raises BadDirectory.

    ``new_id`` returns a new topic id of 16 bytes. ``internal_configs`` contains the settings for
    adopted internal topics. ``missing`` is the value of log.recovery.missing.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        broker_id: int | None,
        default_broker_id: int,
        new_id: Callable[[], bytes],
        internal_configs: Mapping[str, Mapping[str, str]],
        missing: str = "",
    ) -> None:
        super().__init__()
        self._fs = fs
        self._directory = directory
        self._new_id = new_id
        self._internal_configs = internal_configs
        self._missing = KnownMissing(missing)
        identity = read_identity(fs, directory, broker_id, self._missing)
        self.node_id = default_broker_id if identity.node_id is None else identity.node_id
        self.cluster_id = identity.cluster_id or uuid_text(new_id())
        keep_identity(fs, directory, identity, self.node_id, self.cluster_id)
        self.consumer_paths = FileConsumerPaths(fs, directory)
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.adopted: list[str] = []
        """The topics that were missing in ``topics.json`` at this start of the broker, and were
        added because their directories exist."""
        self._image = _Image()
        self._topics_file = ReservedFile(fs, self._path(TOPICS_FILE))
        self._configs_file = ReservedFile(fs, self._path(CONFIGS_FILE))
        self._read(self._topics_file, self._take_topics, _KNOWN_VERSIONS)
        check_files(fs, directory, self._image.files, self._missing)
        self._read(self._configs_file, self._take_configs, (_VERSION,))
        self._adopt()
        self._keep_spares()

    # -- lookups

    @property
    def dying(self) -> Mapping[str, DeletedTopic]:
        return self._image.dying

    @property
    def features(self) -> Features:
        return self._image.features

    # -- changes

    def store(self, topic: Topic, offsets_below: Mapping[int, int] | None = None) -> None:
        image = self._image
        dying = dict(image.dying)
        if offsets_below is not None and topic.name in dying:
            dying[topic.name] = DeletedTopic(dying[topic.name].topic, offsets_below)
        self._write(replace(image, stored={**image.stored, topic.name: topic}, dying=dying))

    def take_back(self, name: str, before: Topic | None) -> None:
        stored = _without(self._image.stored, name)
        if before is not None:
            stored[name] = before
        self._image = replace(self._image, stored=stored)
        self._write(self._image)

    def show(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.partition_counts[topic.name] = topic.partitions
        self.on_changed(topic.name, topic)

    def hide(self, name: str) -> None:
        topic = self.topics.pop(name)
        del self._by_id[topic.topic_id]
        del self.partition_counts[name]
        self.on_changed(name, None)

    def mark_deleted(self, name: str) -> None:
        image = self._image
        self._write(
            replace(
                image,
                stored=_without(image.stored, name),
                dying={**image.dying, name: DeletedTopic(image.stored[name])},
            )
        )

    def forget(self, topic: Topic) -> None:
        dying = self._image.dying
        if topic.name in dying and dying[topic.name].topic.topic_id == topic.topic_id:
            self._write(replace(self._image, dying=_without(dying, topic.name)))

    def bound_offsets(self, name: str, offsets_below: Mapping[int, int]) -> None:
        dying = {**self._image.dying}
        dying[name] = DeletedTopic(dying[name].topic, offsets_below)
        self._write(replace(self._image, dying=dying))

    def reserve_producer_ids(self, count: int) -> range:
        first = self._image.next_producer_id
        self._write(replace(self._image, next_producer_id=first + count))
        return range(first, first + count)

    def store_broker_configs(self, broker: str, configs: Mapping[str, str]) -> None:
        changed = {**self.broker_configs, broker: dict(configs)}
        self._write_configs(changed, self.group_configs)
        self.broker_configs = changed

    def store_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        changed = _without(self.group_configs, group_id)
        if configs:
            changed[group_id] = dict(configs)
        self._write_configs(self.broker_configs, changed)
        self.group_configs = changed

    def _write_configs(
        self, of_brokers: Mapping[str, dict[str, str]], of_groups: Mapping[str, dict[str, str]]
    ) -> None:
        brokers = {name: texts for name, texts in sorted(of_brokers.items()) if texts}
        value = {"version": _VERSION, "brokers": brokers, "groups": dict(sorted(of_groups.items()))}
        text = json.dumps(value, indent=1) + "\n"
        has_secrets = any(may_be_secret(name) for texts in brokers.values() for name in texts)
        self._configs_file.replace(text.encode(), has_secrets=has_secrets)
        if CONFIGS_FILE not in self._image.files:
            with suppress(OSError):  # the next change, or the next start, tries again
                self._write(self._image)

    def raise_producer_ids(self, above: int) -> None:
        """Reserves all producer ids up to ``above``, the highest id in a log that another broker
        wrote and this broker took over."""
        if above >= self._image.next_producer_id:
            self._write(replace(self._image, next_producer_id=above + 1))

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Sets the feature levels ``levels`` and increments the features' epoch. If the write to
        disk fails, features of group types keep their old levels; all other features still get
        their new levels."""
        if levels == self.features.levels:
            return
        before = self.features
        image = replace(self._image, features=Features(before.epoch + 1, dict(levels)))
        try:
            self._write(image)
        except OSError as error:
            of_groups = levels.keys() & _VERSIONS_OF_FEATURES.keys()
            kept = {**levels, **{name: before.levels.get(name, 0) for name in of_groups}}
            self._image = replace(image, features=Features(before.epoch + 1, kept))
            logger.warning(f"feature levels can't be written to {TOPICS_FILE}", error=str(error))

    # -- files

    def _path(self, *names: str) -> str:
        return os.path.join(self._directory, *names)

    def note_files(self) -> None:
        """Writes into ``topics.json`` which files exist, so that later starts report missing files.
        A failed write does not prevent the start."""
        there = self._fs.exists(self._path(TOPICS_FILE))
        if not there or self._image.files != self._files_there():
            try:
                self._write(self._image)
            except OSError as error:
                logger.warning("topic list can't be written", error=str(error))

    def _files_there(self) -> frozenset[str]:
        """Returns the files that exist and are not empty. A full disk may leave an empty file."""
        paths = {name: self._path(name) for name in VOUCHED_FOR}
        return frozenset(
            name
            for name, path in paths.items()
            if self._fs.exists(path) and self._fs.open(path).size()
        )

    def _keep_spares(self) -> None:
        """Creates the spare files, to which changes of the registry are written while the disk is
        full. Logs a failure."""
        for file in (self._topics_file, self._configs_file):
            try:
                file.keep_spare()
            except OSError as error:
                logger.warning(
                    "can't reserve disk space for changes of topics and configs, retrying later",
                    file=file.path,
                    error=str(error),
                )

    def _read(
        self, file: ReservedFile, take: Callable[[Any], None], known: Collection[int]
    ) -> None:
        """Passes the contents of a file to ``take``, if the file exists. Raises BadDirectory if the
        file is invalid or its version is not in ``known``."""
        path, text = file.path, file.read()
        if text is None:
            return
        try:
            image = json.loads(text)
            if image["version"] not in known:
                raise BadDirectory(
                    f"{path} has version {image['version']}, but this Muster reads version"
                    f" {max(known)}: start the newer Muster that wrote it"
                )
            take(image)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadDirectory(
                f"{path} is damaged: {error!r}; restore the file from a copy"
            ) from None

    def _take_topics(self, image: Any) -> None:
        stored, dying = {}, {}
        for entry in image["topics"]:
            topic = _topic_of(entry)
            if entry.get("deleted"):
                bounds = entry.get("offsets_below")
                if bounds is not None:
                    bounds = {int(partition): int(bound) for partition, bound in bounds.items()}
                dying[topic.name] = DeletedTopic(topic, bounds)
            else:
                stored[topic.name] = topic
                self.show(topic)
        cluster_id = image.get("cluster_id", self.cluster_id)
        if cluster_id != self.cluster_id:
            raise BadDirectory(
                f"{self._path(TOPICS_FILE)} has cluster id {cluster_id}, but {META_FILE} in"
                f" the same directory has {self.cluster_id}: one file is from another cluster;"
                " restore the right file from a copy"
            )
        files = frozenset(map(str, image.get("files", ())))
        features = Features(**image.get("features", NO_FEATURES._asdict()))
        self._image = _Image(int(image["next_producer_id"]), stored, dying, files, features)

    def _take_configs(self, image: Any) -> None:
        self.broker_configs = {
            str(broker): {str(name): str(text) for name, text in texts.items()}
            for broker, texts in image["brokers"].items()
        }
        self.group_configs = {
            str(group_id): {str(name): str(text) for name, text in texts.items()}
            for group_id, texts in image.get("groups", {}).items()
        }

    def _write(self, image: _Image) -> None:
        """Writes ``image`` to disk, and then uses it in memory. After an OSError nothing has
        changed."""
        image = replace(image, files=self._files_there())
        entries = [
            *map(_entry_of, image.stored.values()),
            *map(_deleted_entry_of, image.dying.values()),
        ]
        value = {
            "version": _version_of(image),
            "cluster_id": self.cluster_id,
            "features": image.features._asdict(),
            "files": sorted(image.files),
            "next_producer_id": image.next_producer_id,
            "topics": sorted(entries, key=lambda entry: str(entry["name"])),
        }
        text = json.dumps(value, indent=1, ensure_ascii=True) + "\n"
        self._topics_file.replace(text.encode())
        self._image = image

    def _adopt(self) -> None:
        """Adds the topics that have directories but are not in ``topics.json``, because another
        broker created them."""
        known = {*self._image.stored, *self._image.dying}
        found = Found(self._fs, self._directory, self._new_id, self._internal_configs)
        topics = found.topics(known, self._missing)
        if topics:
            self._write(
                replace(
                    self._image,
                    stored={**self._image.stored, **{topic.name: topic for topic in topics}},
                )
            )
        for topic in topics:
            self.show(topic)
            self.adopted.append(topic.name)


def _version_of(image: _Image) -> int:
    """Returns the lowest format version whose readers understand the image."""
    for name, version in _VERSIONS_OF_FEATURES.items():
        if image.features.levels.get(name, 0):
            return version
    if any(each.offsets_below is not None for each in image.dying.values()):
        return _VERSION_WITH_NAMESAKES
    return _VERSION


def _without(topics: Mapping[str, Entry], name: str) -> dict[str, Entry]:
    return {other: topic for other, topic in topics.items() if other != name}


def _topic_of(entry: Mapping[str, Any]) -> Topic:
    configs = {str(name): str(value) for name, value in entry["configs"].items()}
    name = str(entry["name"])
    check_topic_name(name)
    return Topic(name, uuid_bytes(entry["topic_id"]), int(entry["partitions"]), configs)


def _deleted_entry_of(deleted: DeletedTopic) -> dict[str, Any]:
    entry = {**_entry_of(deleted.topic), "deleted": True}
    if deleted.offsets_below is not None:
        entry["offsets_below"] = {str(key): bound for key, bound in deleted.offsets_below.items()}
    return entry


def _entry_of(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partitions": topic.partitions,
        "configs": dict(topic.configs),
    }
