"""Appends the new records of a history to an archive: once, or repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import clock
from pipeline.errors import PipelineError, Unreachable
from pipeline.model.events import COMMIT, DAMAGED, EVENTS
from pipeline.sources.feed import Feed, Growth, News
from pipeline.sources.segment_files import OFFSETS_TOPIC, is_local, local_folder
from pipeline.storage.archive import Archive
from pipeline.storage.manifest import Manifest
from pipeline.storage.store import Store

EVERY_S: Final = 10.0
AWAY_MAX_S: Final = 60.0
"""The maximum wait in seconds between two attempts to reach the source while no broker answers."""

_Held = dict[tuple[str, int], dict[str, int]]
"""The last committed offset by group, for each (topic, partition)."""


@dataclass(frozen=True)
class Collected:
    """The numbers of rows that one read of the source added to the archive, and the problems that
    it found."""

    at_ms: int | None
    events: int
    stretches: int
    damaged: int
    lost: tuple[str, ...] = ()
    """Sentences about records that the source deleted before they were read."""
    forgotten: tuple[str, ...] = ()
    """Topics that were deleted and recreated under the same name."""
    set_aside: tuple[str, ...] = ()
    """One sentence for each damaged file of the archive, and for each file that is intact again."""


def archive_in(where: str, cluster_id: str | None) -> Archive:
    """Opens the archive in a folder, or creates it. Raises PipelineError if the folder can't be
    written or belongs to another cluster."""
    if not is_local(where):
        raise PipelineError(
            f"an archive must be in a folder on this machine, not in {where}: mount {where} as a"
            " folder, or write tables there from an archive on this machine"
        )
    folder = local_folder(where)
    archive = Archive.open(folder, cluster_id)
    try:
        store = Store(folder)
        store.check_cluster(archive.manifest.cluster_id)
        store.belong_to(archive.manifest.cluster_id)
    except BaseException:
        archive.close()
        raise
    return archive


def collect(news: News, archive: Archive, with_topics: bool = True) -> Collected:
    """Appends the new records of a source's history to an archive. Raises PipelineError if the
    archive belongs to another history."""
    known = archive.manifest
    _check(news, known, archive)
    lost = _lost(news, known.next_offsets)
    held: _Held = {}
    if not known.topics_asked:
        archive.whole(partial(_see_again, archive, held))
    events = archive.append(
        chain([_gone(lost)], _watched(news.events(known.next_offsets), held)),
        next_offsets={**news.starts, **news.ends},
        log_topic_id=news.log_id,
    )
    growth = Growth()
    if with_topics:
        committed = {key: set(by_group.values()) for key, by_group in held.items()}
        growth = news.growth(committed, known.topics)
    topics = archive.append(
        (),
        stretches=growth.stretches,
        topics=growth.topics,
        forgotten=growth.forgotten,
        read_until_ms=news.at_ms,
    )
    said = tuple(
        f"{OFFSETS_TOPIC}:{partition}: {_reason(first, behind)}"
        for partition, (first, behind) in lost.items()
    )
    set_aside, archive.said = tuple(archive.said), []
    return Collected(
        news.at_ms,
        events.events,
        topics.stretches,
        events.damaged,
        said,
        growth.forgotten,
        set_aside,
    )


def follow(
    feed: Feed,
    archive: Archive,
    on_look: Callable[[Collected], None],
    on_away: Callable[[str | None], None],
    every_s: float = EVERY_S,
    with_topics: bool = True,
    news: News | None = None,
    sleep: Callable[[float], None] = clock.sleep,
) -> None:
    """Appends the new records of the source to the archive every ``every_s`` seconds, without end.

    ``news`` is the result of an earlier read of the source, and replaces the first read. While no
    broker responds, the pause between attempts doubles up to AWAY_MAX_S. ``on_away`` is called with
    the reason when brokers stop responding, and with None when a broker responds again. Raises
    PipelineError if the source is another cluster than the archive's, or if the archive's offsets
    now belong to other records.
    """
    tries = 0
    while True:
        began_s = clock.monotonic_s()
        try:
            came = collect(news or feed.look(), archive, with_topics)
        except Unreachable as error:
            news = None
            if not tries:
                on_away(str(error))
            sleep(min(every_s * 2**tries, max(AWAY_MAX_S, every_s)))
            tries = min(tries + 1, 32)
            continue
        news = None
        if tries:
            tries = 0
            on_away(None)
        on_look(came)
        sleep(max(0.0, every_s - (clock.monotonic_s() - began_s)))


def _check(news: News, known: Manifest, archive: Archive) -> None:
    """Raises PipelineError if the source and the archive belong to different clusters. Also raises
    PipelineError if the offsets topic was recreated, so that the offsets in the archive now belong
    to other records."""
    where = archive.folder
    if None not in (news.cluster_id, known.cluster_id) and news.cluster_id != known.cluster_id:
        raise PipelineError(
            f"the source is now cluster {news.cluster_id}, but {where} is an archive of cluster"
            f" {known.cluster_id}: choose another --out"
        )
    if None not in (news.log_id, known.log_topic_id) and news.log_id != known.log_topic_id:
        raise PipelineError(
            f"{OFFSETS_TOPIC} was recreated since it was last read into {where}: its offsets now"
            " belong to other records; choose another --out"
        )
    for partition, end in sorted(news.ends.items()):
        read = known.next_offsets.get(partition, 0)
        if end < read:
            raise PipelineError(
                f"{OFFSETS_TOPIC}:{partition} ends at offset {end}, but {where} has read up to"
                f" offset {read}: the topic was recreated, or its log was truncated;"
                " choose another --out"
            )


def _lost(news: News, positions: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Returns the range of offsets that were deleted before they were read, by partition. A range
    is the first deleted offset and the offset after the last deleted one."""
    return {
        partition: (positions[partition], start)
        for partition, start in sorted(news.starts.items())
        if positions.get(partition, start) < start
    }


def _reason(first: int, behind: int) -> str:
    return f"offsets {first} to {behind - 1} were deleted before they were read"


def _gone(lost: Mapping[int, tuple[int, int]]) -> pa.RecordBatch:
    """Returns rows of EVENTS that record the deleted offsets."""
    rows = [
        {
            "log_partition": partition,
            "log_offset": first,
            "kind": DAMAGED,
            "damage": {"file": None, "position": None, "reason": _reason(first, behind)},
        }
        for partition, (first, behind) in lost.items()
    ]
    return pa.RecordBatch.from_pylist(rows, EVENTS)


def _see_again(archive: Archive, held: _Held) -> None:
    """Fills ``held`` with each group's last committed offsets, read from the archive. This is
    needed if an earlier run was killed."""
    columns = ["kind", "topic", "partition", "group_id", "committed_offset"]
    for file in archive.files("events"):
        with pq.ParquetFile(file) as opened:
            for _ in _watched(opened.iter_batches(columns=columns), held):
                pass


def _watched(batches: Iterable[pa.RecordBatch], held: _Held) -> Iterator[pa.RecordBatch]:
    """Yields the batches unchanged, and stores each group's last committed offsets in ``held``."""
    for batch in batches:
        commits = pa.Table.from_batches([batch]).filter(pc.equal(batch["kind"], COMMIT))
        last = commits.group_by(["topic", "partition", "group_id"], use_threads=False).aggregate(
            [("committed_offset", "last")]
        )
        for row in last.to_pylist():
            groups = held.setdefault((row["topic"], row["partition"]), {})
            groups[row["group_id"]] = row["committed_offset_last"]
        yield batch
