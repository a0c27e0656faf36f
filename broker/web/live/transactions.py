"""Makes the heads and rows of `/api/live` for transactions. Each row has a token, and is created
again only when this token has changed. Rows contain points in time instead of durations, because
durations would change all the time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from broker.cores.hosted_shard import Phase
from broker.loop.slices import Slices
from broker.metrics.scan import is_led
from broker.metrics.sources import Sources
from broker.topics.partition import Partition
from broker.web.live.events import Row, Source
from broker.web.views.groups import View
from broker.web.views.transactions import (
    STEP,
    held_view,
    listing_head,
    partition_rows,
    readable,
    refused_view,
    stories,
    transaction_row,
)
from transactions.transaction import Transaction

HELD_MS = 1_000
"""The minimum number of ms for which a transaction must hold back a partition's last stable offset
before the partition is shown. Most transactions end earlier."""


class Transactions(Source):
    """The live data about all transactions. The table ``transaction`` has a row for each
    transactional id. The table ``held`` has a row for each partition whose last stable offset is
    held back."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    async def prepare(self, slices: Slices) -> None:
        """Finds the transactional ids that belong to the producer ids of open transactions."""
        await slices.through(self.sources.lso_blockers.refresh())

    def head(self) -> View:
        """Returns a head that states whether transactional ids may be missing from the list."""
        return listing_head(self.sources)

    def rows(self) -> Iterator[Row | None]:
        for hosted in readable(self.sources):
            for known in list(hosted.core.view.transactions.values()):
                token = (known.value, known.client)
                yield Row(
                    "transaction", known.transactional_id, token, partial(transaction_row, known)
                )
        for name, entry in list(self.sources.logs.topics.items()):
            for start in range(0, len(entry.partitions), STEP):
                yield None
                for partition in entry.partitions[start : start + STEP]:
                    row = self._held(name, partition)
                    if row is not None:
                        yield row

    def _held(self, topic: str, partition: Partition) -> Row | None:
        blocker = self.sources.lso_blockers.of(partition) if is_led(partition) else None
        if blocker is None or self.sources.time.now().wall_ms - blocker.since_ms < HELD_MS:
            return None

        def make() -> View:
            return without_spans(held_view(self.sources, topic, partition, blocker))

        return Row("held", f"{topic}-{partition.index}", None, make)


class OneTransaction(Source):
    """The live data about one transactional id, with the tables ``partition``, ``story`` (recorded
    transactions) and ``refused`` (errors of rejected requests)."""

    def __init__(self, sources: Sources, transactional_id: str) -> None:
        self.sources = sources
        self.transactional_id = transactional_id

    def _known(self) -> Transaction | None:
        hosted = self.sources.transactions.hosted_for(self.transactional_id)
        return None if hosted is None else hosted.core.view.get(self.transactional_id)

    def head(self) -> View:
        """Returns the summary of the transactional id. ``exists`` is False if the id is unknown."""
        known = self._known()
        hosted = self.sources.transactions.hosted_for(self.transactional_id)
        journal = self.sources.transaction_journal.get(self.transactional_id)
        head: View = {
            "id": self.transactional_id,
            "state": None,
            "exists": known is not None or journal is not None,
            "loading": hosted is not None and hosted.phase is Phase.LOADING,
        }
        return head if known is None else {**head, **transaction_row(known)}

    def rows(self) -> Iterator[Row | None]:
        """Yields a row for each partition of the open transaction, each recorded transaction and
        each error of rejected requests."""
        known = self._known()
        for row in partition_rows(self.sources, known):
            place = f"{row['topic']}-{row['partition']}"
            yield Row("partition", place, None, partial(dict, row))
        now_ms = self.sources.time.now().wall_ms
        for story in stories(self.sources, self.transactional_id, known, now_ms):
            is_over = story["outcome"] not in ("open", "committing", "aborting")
            row = story if is_over else without_spans(story)
            yield Row("story", str(row["number"]), None, partial(dict, row))
        journal = self.sources.transaction_journal.get(self.transactional_id)
        for refused in () if journal is None else journal.refused:
            token = (refused.count, refused.last_ms)
            yield Row("refused", str(refused.error_code), token, partial(refused_view, refused))


def without_spans(row: View) -> View:
    """Removes the fields that change only because time passes."""
    row.pop("sentence", None)
    for each in row["waits"]:
        if not each["over"]:
            each.pop("waited_ms")
    return row
