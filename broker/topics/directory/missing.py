"""Finds partitions and files that are missing although other files of the data directory list them.

Missing data is never treated as empty. The broker does not start, and reports the missing data, the
file that lists it, and what to do. In `log.recovery.missing` the operator lists data that is known
to be lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

import structlog

from broker.topics.checkpoints import FILES as CHECKPOINTS
from broker.topics.directory.consumer_paths import FILE as CONSUMERS_FILE
from broker.topics.directory.reserved_file import SPARE
from broker.topics.registry import BadDirectory, partition_name
from log.checkpoint import TopicPartition
from log.files.filesystem import FileSystem, read_whole

logger = structlog.get_logger(__name__)

TOPICS_FILE = "topics.json"
CONFIGS_FILE = "configs.json"
META_FILE = "meta.properties"
FOUND_BESIDE = (CONFIGS_FILE, CONSUMERS_FILE, TOPICS_FILE + SPARE)
"""Files that Muster writes only after ``topics.json``. If one of them exists but ``topics.json``
does not, then ``topics.json`` was lost."""
SECURED_FILES = ("acls.json", "quotas.json", "tokens.json", "users.json")
"""The files with security settings. Without such a file, the broker would allow operations that
were denied before."""
VOUCHED_FOR = (CONFIGS_FILE, CONSUMERS_FILE, *SECURED_FILES, *CHECKPOINTS)
"""The files whose names are added to ``topics.json`` after their creation. If such a file is listed
there but missing at a start, it was lost."""
SETTING = "log.recovery.missing"
_NAMED_MAX = 5
"""The maximum number of missing names in an error message."""
_GOING_SUFFIXES = ("-delete", "-stray", "-future")
"""The suffixes of directories that Kafka or Muster has renamed. The partitions of these directories
do not count as missing."""


class KnownMissing:
    """The names in `log.recovery.missing`: TOPIC-PARTITION, TOPIC-* or the name of a file in the
    data directory."""

    def __init__(self, words: str = "") -> None:
        self.names = {word.strip() for word in words.split(",") if word.strip()}

    def __contains__(self, name: str) -> bool:
        topic, _, _ = name.rpartition("-")
        return name in self.names or f"{topic}-*" in self.names


def check_partitions(
    directory: str,
    there: Iterable[str],
    named: Mapping[TopicPartition, str],
    partitions: Mapping[str, int],
    known: KnownMissing,
) -> None:
    """Raises BadDirectory if a partition has no directory, although a checkpoint contains the
    partition and its topic exists.

    ``there`` contains the names in ``directory``. ``named`` maps each partition in a checkpoint to
    the name of the checkpoint. ``partitions`` contains the partition counts of the existing topics.
    ``known`` contains partitions that may be missing.
    """
    names = set(there)
    _refuse(
        directory,
        {
            partition_name(*place): checkpoint
            for place, checkpoint in sorted(named.items())
            if place[1] < partitions.get(place[0], 0) and partition_name(*place) not in names
        },
        known,
    )


def check_adopted(
    directory: str,
    there: Iterable[str],
    named: Mapping[TopicPartition, str],
    found: Mapping[str, int],
    no_list: bool,
    known: KnownMissing,
) -> None:
    """Raises BadDirectory if a checkpoint lists a partition that is not on disk, and the topic is
    adopted: only its directories exist, because another broker wrote them.

    ``found`` has the number of partitions on disk for each adopted topic. If ``no_list`` is True,
    topics without a directory are checked too. `check_partitions` describes the other arguments. A
    partition is not missing if Kafka has renamed its directory, for example for deletion.
    """
    aside = {name.rpartition(".")[0] for name in there if name.endswith(_GOING_SUFFIXES)}
    missing = {}
    for (topic, partition), checkpoint in sorted(named.items()):
        if topic == "__cluster_metadata" or partition_name(topic[:190], partition) in aside:
            continue
        if partition >= found.get(topic, 0) and (no_list or topic in found):
            missing[partition_name(topic, partition)] = checkpoint
    _refuse(directory, missing, known)


def _refuse(directory: str, missing: Mapping[str, str], known: KnownMissing) -> None:
    """Raises BadDirectory if ``missing`` contains a name that is not in ``known``. ``missing`` maps
    missing partitions to the checkpoint that lists them."""
    names = [name for name in missing if name not in known]
    if names:
        why = f"{missing[names[0]]} lists {names[0]}"
        raise _missing_partitions(directory, names, why)


def check_numbers(directory: str, topic: str, found: Sequence[int], known: KnownMissing) -> None:
    """Raises BadDirectory if the partition numbers ``found`` of a topic have gaps."""
    names = [partition_name(topic, number) for number in range(max(found)) if number not in found]
    gaps = [name for name in names if name not in known]
    if gaps:
        highest = partition_name(topic, max(found))
        raise _missing_partitions(directory, gaps, f"{highest} exists")


def check_identity(fs: FileSystem, directory: str, known: KnownMissing) -> dict[str, str]:
    """Called if ``meta.properties`` does not exist. Returns the properties that are known from
    other files.

    If ``topics.json`` exists, ``meta.properties`` was lost, since it is created first. The function
    then raises BadDirectory. But if the setting `log.recovery.missing` lists ``meta.properties``,
    it returns the cluster id from ``topics.json``.
    """
    topics = os.path.join(directory, TOPICS_FILE)
    if not fs.exists(topics):
        return {}
    if META_FILE not in known:
        why = (
            f"is missing: {TOPICS_FILE} exists, and without {META_FILE} the cluster would get"
            " a new id"
        )
        raise _missing_file(os.path.join(directory, META_FILE), META_FILE, why)
    try:
        return {"cluster.id": str(json.loads(read_whole(fs, topics))["cluster_id"])}
    except (ValueError, KeyError, TypeError):
        return {}


def check_files(
    fs: FileSystem, directory: str, vouched_for: Iterable[str], known: KnownMissing
) -> None:
    """Raises BadDirectory if ``topics.json``, or a file that ``topics.json`` lists, is missing or
    empty."""
    topics = os.path.join(directory, TOPICS_FILE)
    if not fs.exists(topics) and TOPICS_FILE not in known:
        for name in FOUND_BESIDE:
            if fs.exists(os.path.join(directory, name)):
                why = (
                    f"is missing, but {name} exists: without {TOPICS_FILE}, topics would lose their"
                    " configs, and topics that are being deleted would reappear"
                )
                raise _missing_file(topics, TOPICS_FILE, why)
    for name in sorted(vouched_for):
        path = os.path.join(directory, name)
        if name in known:
            continue
        if not fs.exists(path):
            raise _missing_file(path, name, f"is missing: {TOPICS_FILE} lists {name}")
        if not fs.open(path).size():
            raise _missing_file(path, name, f"is empty: {TOPICS_FILE} lists {name}")


def _missing_partitions(directory: str, names: list[str], why: str) -> BadDirectory:
    """Returns the error for missing partitions. ``why`` states how it is known that the partitions
    existed."""
    named = ", ".join(names[:_NAMED_MAX])
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    are = "is" if len(names) == 1 else "are"
    return BadDirectory(
        f"{named}{more} {are} missing in {directory}: {why}. Restore the"
        f" {'directory' if len(names) == 1 else 'directories'} from a copy, or accept the"
        f" loss: start once with {SETTING}={','.join(names[:_NAMED_MAX])} (TOPIC-* means all"
        " partitions of a topic)"
    )


def _missing_file(path: str, name: str, why: str) -> BadDirectory:
    """Returns the error for a missing or empty file. ``why`` states how it is known that the file
    existed."""
    return BadDirectory(
        f"{path} {why}. Restore the file from a copy, or accept the loss: start once with"
        f" {SETTING}={name}"
    )
