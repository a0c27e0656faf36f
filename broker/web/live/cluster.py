"""The live data about a cluster: leaders, out-of-sync replicas, and the operations for which the
controller waits, each with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from broker.topics.cluster_view import PartitionView
from broker.web.live.events import Row, Source
from broker.web.views.cluster import (
    WAITS_MAX,
    cluster_view,
    doing_view,
    partition_view,
    waits_rows,
)
from journal.happened import Kind, of_partition

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker
    from broker.metrics.sources import Sources

View = dict[str, Any]

PARTITIONS_MAX = 5000
"""The maximum number of partitions that are shown. Partitions with problems are always shown."""


class TheCluster(Source):
    """The live data about the cluster, with the tables ``broker``, ``partition``, ``wait`` and
    ``entry``."""

    def __init__(self, sources: Sources, member: ClusterBroker) -> None:
        self.sources = sources
        self.member = member

    def head(self) -> View:
        """Returns the data about the cluster that is not in one of the tables. Omits values that
        change only because time passes."""
        view = cluster_view(self.sources, self.member)
        for each in ("now_ms", "brokers", "journal"):
            del view[each]
        del view["zookeeper"]["journal"]
        topics = self.member.cache.topics.values()
        view["partitions"] = sum(len(each.partitions) for each in topics)
        view["doing"] = doing_view(self.member)
        return view

    def rows(self) -> Iterator[Row | None]:
        """Yields a row for each broker, each partition, each wait of the controller, and each of
        the last journal entries."""
        view = cluster_view(self.sources, self.member)
        for each in view["brokers"]:
            yield Row("broker", str(each["broker"]), None, partial(dict, each))
        yield from self._partitions()
        waits = (each for each in waits_rows(self.member) if each is not None)
        for each in islice(waits, WAITS_MAX):
            key = f"{each['what']} {each['topic']}-{each['partition']}"
            yield Row("wait", key, None, partial(dict, each))
        for kind, entries in (("c", view["journal"]), ("z", view["zookeeper"]["journal"])):
            for number, entry in enumerate(entries):
                key = f"{kind} {entry['at_ms']} {number}"
                yield Row("entry", key, None, partial(dict, entry))

    def _partitions(self) -> Iterator[Row | None]:
        shown = 0
        for topic, known in list(self.member.cache.topics.items()):
            for index in sorted(known.partitions):
                found = self.member.cache.partition(topic, index)
                if found is None:
                    continue
                whole = found.leader >= 0 and len(found.isr) == len(found.replicas)
                shown += 1
                if whole and shown > PARTITIONS_MAX:
                    yield None
                    continue
                moved = self.member.keeper.journal.last(of_partition(topic, index), Kind.LEADER)
                token = (found, moved) if whole else None
                yield Row(
                    "partition", f"{topic}-{index}", token, partial(self._row, topic, index, found)
                )

    def _row(self, topic: str, index: int, shown: PartitionView) -> View:
        row = partition_view(self.sources, self.member, topic, index, shown)
        for out in row["out"]:
            del out["fetched_ms"], out["caught_up_ms"]
        return row
