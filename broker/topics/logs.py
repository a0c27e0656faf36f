"""The partitions of this broker: opens and closes their logs, applies settings, writes checkpoints.

Owns the checkpoints and the clean-shutdown marker of the data directory. Lookups run in the event
loop's thread. `open_all`, `make` and `close_all` may block; the caller chooses their thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from broker.config.config import Config, log_config, topic_settings
from broker.config.config_value import BadValue
from broker.topics.checkpoints import Checkpoints
from broker.topics.directory.missing import KnownMissing, check_partitions
from broker.topics.directory.partition_mark import check_mark, mark
from broker.topics.partition import Partition
from broker.topics.partition_services import PartitionServices
from broker.topics.produce_rules import produce_rules
from broker.topics.registry import BadDirectory, Topic, partition_name, partition_of
from broker.topics.topic_logs import TopicLogs
from log.checkpoint import clear_clean_shutdown, read_clean_shutdown, write_clean_shutdown
from log.config import LogConfig
from log.errors import CorruptLog, LogPoisoned
from log.files.filesystem import FileSystem
from log.partition_log import PartitionLog
from log.segment import LOG

logger = structlog.get_logger(__name__)

DELETED_SUFFIX = "-delete"
_CLOSING_THREADS = 8


class LeftBehind(OSError):
    """Raised if a new topic could not be created and its directories could not be removed."""


class LogManager:
    """All partitions in one data directory."""

    def __init__(
        self, fs: FileSystem, directory: str, config: Config, services: PartitionServices
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.config = config
        self.time = services.time
        self.topics: dict[str, TopicLogs] = {}
        self.services = services
        self.checkpoints = Checkpoints(fs, directory)
        self.was_clean = False

    # -- lookups

    def get(self, topic: str, index: int) -> Partition | None:
        entry = self.topics.get(topic)
        return None if entry is None else entry.partition(index)

    def settings(self, topic: str) -> dict[str, Any] | None:
        """Returns the effective settings of a topic; None if the topic does not exist."""
        entry = self.topics.get(topic)
        return None if entry is None else entry.settings

    def all(self) -> Iterator[Partition]:
        for entry in self.topics.values():
            yield from entry.partitions

    def serves(self, partition: Partition) -> bool:
        """Returns True if ``partition`` is the object that currently serves its log. Only this
        object may write to the log."""
        return self.get(partition.topic, partition.index) is partition

    # -- opening

    def open_all(self, topics: Iterable[Topic], *, in_cluster: bool = False) -> None:
        """Opens the logs of all partitions concurrently. In a cluster, opens only logs that are on
        disk. Raises CorruptLog and BadDirectory for damaged or missing logs, and OSError."""
        self.was_clean = read_clean_shutdown(self.fs, self.directory)
        entries = [self._entry(topic) for topic in topics]
        self.checkpoints.read()
        known = {entry.topic.name: entry.topic for entry in entries}
        if in_cluster:
            self._put_strays_aside(known)
        there = self.fs.list(self.directory)
        missing = self._check_places(known, there, in_cluster=in_cluster)
        places = [(entry, n) for entry in entries for n in range(entry.topic.partitions)]
        if in_cluster:
            here = set(there)
            places = [
                (entry, n) for entry, n in places if partition_name(entry.topic.name, n) in here
            ]
        truncated = _names(self.config["log.recovery.truncate"])

        def open_one(place: tuple[TopicLogs, int]) -> Partition:
            entry, partition = place
            key = (entry.topic.name, partition)
            name = partition_name(*key)
            check_mark(self.fs, self._path(name), entry.topic)
            try:
                log = PartitionLog.open(
                    self.fs,
                    self._path(name),
                    *key,
                    self.log_config(entry.settings),
                    expected=self.checkpoints.expected(key),
                    clean=self.was_clean,
                    truncate=name in truncated,
                    missing=name in missing,
                    chance=self.time.chance.randrange,
                )
            except CorruptLog as damage:
                raise damage.with_advice(name) from None
            return self._partition(log)

        threads = self.config["num.recovery.threads.per.data.dir"]
        if threads == 1 or len(places) == 1:
            opened = [open_one(place) for place in places]
        else:
            opened = self.time.threads(threads, "recovery").map(open_one, places)
        by_topic: dict[str, list[Partition]] = {}
        for partition in opened:
            by_topic.setdefault(partition.topic, []).append(partition)
            _log_recovery(partition)
        for entry in entries:
            entry.add(by_topic.get(entry.topic.name, ()))
        self.topics = {entry.topic.name: entry for entry in entries}
        clear_clean_shutdown(self.fs, self.directory)
        self._log_overrides(truncated, missing)
        self._finish_deletions(opened)
        self._begin_checkpoints(truncated, missing)

    def _put_strays_aside(self, topics: Mapping[str, Topic]) -> None:
        # Imported here: a standalone broker does not need it.
        from broker.topics.directory.strays import put_strays_aside

        if put_strays_aside(self.fs, self.directory, topics, self.checkpoints.forget_partitions):
            self.checkpoints.read()

    def _check_places(
        self, topics: Mapping[str, Topic], there: Sequence[str], *, in_cluster: bool
    ) -> KnownMissing:
        """Raises BadDirectory for a missing partition, unless `log.recovery.missing` names it.
        Returns the value of this setting. ``there`` contains all names in the data directory."""
        named = self.checkpoints.named()
        self.checkpoints.outdated = {name for name, _ in named} - topics.keys()
        if in_cluster:
            from broker.topics.directory.strays import put_away_among

            there = [
                *there,
                *put_away_among(self.fs, self.directory, there, topics, DELETED_SUFFIX),
            ]
        counts = {name: topic.partitions for name, topic in topics.items()}
        missing = KnownMissing(self.config["log.recovery.missing"])
        check_partitions(self.directory, there, named, counts, missing)
        return missing

    def _begin_checkpoints(self, truncated: set[str], missing: KnownMissing) -> None:
        """Writes the checkpoints at the start. If the write fails, logs the error. But if a setting
        has allowed the start although data is missing, raises the OSError, because the old
        checkpoints still list the missing data."""
        try:
            self.write_checkpoints()
        except OSError as error:
            if truncated or missing.names:
                raise
            logger.warning("checkpoints can't be written", error=str(error))

    def _log_overrides(self, truncated: set[str], missing: KnownMissing) -> None:
        known = {partition.name for partition in self.all()}
        if truncated:
            logger.warning(
                "damaged logs truncated",
                advice="remove log.recovery.truncate from the configuration",
                partitions=sorted(truncated & known),
                unknown=sorted(truncated - known),
            )
        if missing.names:
            logger.warning(
                "started without missing files",
                advice="remove log.recovery.missing from the configuration",
                names=sorted(missing.names),
            )

    def _partition(self, log: PartitionLog) -> Partition:
        services = self.services
        writes = services.owned_writes.get(log.topic, services.writes)
        if services.in_cluster:  # imported here: a standalone broker does not need it
            from broker.topics.replicas.replica import Replica
            from broker.topics.replicas.replica_services import ReplicaServices

            assert isinstance(services, ReplicaServices)
            known = self.checkpoints.expected((log.topic, log.partition))
            return Replica(
                log, services, writes, self.serves, known.high_watermark, self.checkpoints.lower
            )
        return Partition(log, services, writes, self.serves)

    def _finish_deletions(self, partitions: Iterable[Partition]) -> None:
        """Removes the segments that the previous process marked as deleted."""
        for partition in partitions:
            log = partition.log
            log.segments.purge(now_ms=0)
            if log.segments.undeleted is not None:
                logger.error(
                    "files of deleted segments can't be removed, retrying",
                    partition=partition.name,
                    error=str(log.segments.undeleted),
                )

    def make(self, topic: Topic, indexes: Iterable[int] | None = None) -> TopicLogs:
        """Creates directories and logs, by default for all partitions of a topic. The logs are
        invisible until `show` is called. Raises OSError after it has removed all new directories,
        or LeftBehind if it could not remove some of them."""
        entry = self._entry(topic)
        made: list[str] = []
        try:
            wanted = range(topic.partitions) if indexes is None else indexes
            entry.add([self._make(entry, index, made) for index in wanted])
            self.fs.fsync_directory(self.directory)
            self.checkpoints.add(entry.partitions)
        except OSError as error:
            self.checkpoints.take_back(topic.name)
            self._unmake(made, error)
            raise
        return entry

    def _make(self, entry: TopicLogs, partition: int, made: list[str]) -> Partition:
        """Creates the log of a partition. First adds the directory to ``made``. Rejects a directory
        that already contains a log, and does not change it."""
        topic = entry.topic
        directory = self._path(partition_name(topic.name, partition))
        if self.fs.exists(directory):
            if any(name.endswith(LOG) for name in self.fs.list(directory)):
                raise FileExistsError(
                    errno.EEXIST,
                    f"{directory} has the log of an unknown topic: move the directory away",
                    directory,
                )
        else:
            made.append(directory)
        self.fs.make_directory(directory)
        mark(self.fs, directory, topic.topic_id)
        config = self.log_config(entry.settings)
        log = PartitionLog.open(
            self.fs, directory, topic.name, partition, config, chance=self.time.chance.randrange
        )
        return self._partition(log)

    def _unmake(self, made: Iterable[str], error: OSError) -> None:
        """Removes the directories of a failed `make`. Raises LeftBehind if this fails."""
        try:
            for directory in made:
                if self.fs.exists(directory):
                    self.fs.remove_directory(directory)
        except OSError as stays:
            raise LeftBehind(error.errno, error.strerror, error.filename) from stays

    def show(self, entry: TopicLogs) -> None:
        """Makes the topic ``entry``, which `make` returned, visible with its new partitions. The
        existing partitions of the topic remain."""
        old = self.topics.get(entry.topic.name)
        if old is not None:
            entry.add(old.partitions)
            entry.bytes_in, entry.bytes_out = old.bytes_in, old.bytes_out
        self.topics[entry.topic.name] = entry
        self.checkpoints.shown(entry.topic.name)
        self.configure(entry.topic)  # a default may have changed since `make`

    def configure(self, topic: Topic) -> None:
        """Applies a topic's current settings to its logs, and to the rules for produced records."""
        entry, fresh = self.topics[topic.name], self._entry(topic)
        entry.topic, entry.settings, entry.rules = topic, fresh.settings, fresh.rules
        config = self.log_config(entry.settings)
        for partition in entry.partitions:
            partition.log.config = config

    def log_config(self, settings: Mapping[str, Any]) -> LogConfig:
        """Returns the part of a topic's settings that affects its logs."""
        return log_config(settings, self.config)

    def _entry(self, topic: Topic) -> TopicLogs:
        try:
            settings = topic_settings(self.config, topic.configs)
        except BadValue as error:
            raise BadDirectory(
                f"the configs of topic {topic.name} contradict the broker's settings: {error}"
            ) from None
        return TopicLogs(topic, settings, produce_rules(settings))

    # -- closing and deleting

    def close_all(self) -> None:
        """Flushes and closes all logs. Then writes the checkpoints and the clean-shutdown marker.

        Several logs are closed concurrently, since a disk handles many fsyncs at once. If any log
        has failed, the marker is not written, so that the next start recovers all logs.
        """
        clean = all(self.time.threads(_CLOSING_THREADS, "closing").map(_close, self.all()))
        try:
            self.write_checkpoints()
            if clean:
                write_clean_shutdown(self.fs, self.directory)
        except OSError as error:
            logger.error(
                "checkpoints can't be written, the next start checks the logs",
                error=str(error),
            )

    def write_checkpoints(self) -> None:
        """Writes recovery points, high watermarks and log start offsets. Thread-safe."""
        self.checkpoints.write(self._all_now)

    def write_high_watermarks(self) -> None:
        """Writes only the high watermarks. Thread-safe."""
        self.checkpoints.write_high_watermarks(self._all_now)

    def _all_now(self) -> list[Partition]:
        return [each for entry in list(self.topics.values()) for each in entry.partitions]

    def retire(self, topic: Topic, partitions: Iterable[Partition], tag: str) -> list[str]:
        """Closes a deleted topic's partitions and renames their directories. Returns the new paths.

        ``tag`` is 32 hexadecimal digits. As in Kafka, the new names are ``topic-N.<tag>-delete``.
        After an OSError the method may be called again with the same tag.
        """
        for partition in partitions:
            partition.close(clean=False)
        for directory in self.fs.list(self.directory):
            place = partition_of(directory)
            if place is not None and place[0] == topic.name:
                name = f"{partition_name(topic.name[:190], place[1])}.{tag}{DELETED_SUFFIX}"
                self.fs.rename(self._path(directory), self._path(name))
        self.fs.fsync_directory(self.directory)
        with suppress(OSError):  # a full disk; matters only once the topic is recreated
            self.checkpoints.forget(topic.name)
        return [path for path in self.leftovers() if path.endswith(f".{tag}{DELETED_SUFFIX}")]

    def leftovers(self) -> list[str]:
        return [
            self._path(name)
            for name in self.fs.list(self.directory)
            if name.endswith(DELETED_SUFFIX) and "." in name
        ]

    def remove(self, directories: Iterable[str]) -> None:
        for directory in directories:
            self.fs.remove_directory(directory)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


def _names(words: str) -> set[str]:
    return {word.strip() for word in words.split(",") if word.strip()}


def _close(partition: Partition) -> bool:
    """Closes one partition; returns True if all its records are on disk."""
    in_order = not partition.log.failed_for_good
    try:
        partition.close(clean=in_order)
    except (OSError, LogPoisoned) as error:
        logger.error(
            "log can't be closed cleanly, the next start recovers the log",
            partition=partition.name,
            error=str(error),
        )
        return False
    return in_order


def _log_recovery(partition: Partition) -> None:
    for cut in partition.log.recovery.cuts:
        logger.warning(
            "invalid records at the end of the log truncated",
            file=cut.file,
            position=cut.position,
            bytes=cut.bytes_cut,
            reason=cut.reason,
            kept_as=cut.kept_as,
        )
    for sentence in partition.log.recovery.rebuilt:
        logger.info("index rebuilt", partition=partition.name, why=sentence)
