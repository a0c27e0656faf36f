"""`/api/transactions...`: transactions and their histories. `/api/held`: the partitions whose last
stable offset a transaction holds back."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.metrics.sources import Sources
from broker.web.answers import (
    forbidden,
    listing,
    path_parts,
    refused,
    unreadable,
    whole_number,
)
from broker.web.readers.reader import reader_of
from broker.web.readers.redaction import redacted
from broker.web.views.topics import not_here
from broker.web.views.transactions import (
    held_rows,
    listing_head,
    partition_rows,
    place_view,
    transaction_view,
    transactions,
)
from security.acls.model import ResourceType

_PREFIX = b"/api/transactions/"


def routes(sources: Sources) -> list[Route]:
    api = TransactionsApi(sources)
    return [
        Route("/api/transactions", api.transactions),
        Route("/api/transactions/{rest:whole}", api.transaction),
        Route("/api/held", api.held),
    ]


class TransactionsApi:
    """The handlers for transactions. Each handler reads the shards in the loop's thread."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    async def transactions(self, request: Request) -> Response:
        reader = reader_of(request.scope)
        head = listing_head(self.sources)
        rows = (
            row if reader.sees_transactional_id(row["id"]) else None
            for row in transactions(self.sources)
        )
        return listing(self.sources.slicer, head, transactions=rows)

    async def transaction(self, request: Request) -> Response:
        """Returns one transactional id, with its partitions and its recorded transactions."""
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        parts = path_parts(raw, _PREFIX)
        if len(parts) != 1 or not parts[0]:
            return refused(404, f"unknown path {request.url.path}: use /api/transactions/ID")
        [name] = parts
        reader = reader_of(request.scope)
        if not reader.sees_transactional_id(name):
            return forbidden(reader, ResourceType.TRANSACTIONAL_ID, name)
        hosted = self.sources.transactions.hosted_for(name)
        if (answer := unreadable(f"transaction {name}", hosted)) is not None:
            return answer
        known = None if hosted is None else hosted.core.view.get(name)
        view = transaction_view(self.sources, known, name)
        if view is None:
            return refused(
                404, f"transactional id {name} does not exist; /api/transactions lists all ids"
            )
        rows = (
            row if reader.sees_topic(row["topic"]) else None
            for row in partition_rows(self.sources, known)
        )
        return listing(self.sources.slicer, redacted(reader, view), partition_list=rows)

    async def held(self, request: Request) -> Response:
        """Returns the partitions whose last stable offset is held back by a transaction. If the
        query names a partition, returns only the transaction that holds back this partition, if
        any."""
        sources = self.sources
        topic, index = request.query_params.get("topic"), request.query_params.get("partition")
        reader = reader_of(request.scope)
        if topic is None:
            rows = (
                redacted(reader, row) if row and reader.sees_topic(row["topic"]) else None
                for row in held_rows(sources)
            )
            return listing(sources.slicer, {}, partitions=rows)
        if not reader.sees_topic(topic):
            return forbidden(reader, ResourceType.TOPIC, topic)
        entry = sources.logs.topics.get(topic)
        if entry is None:
            return refused(404, f"topic {topic} does not exist; /api/topics lists all topics")
        if index is None:
            return refused(
                400, "partition: write the number of a partition, as in ?topic=orders&partition=0"
            )
        number = whole_number(index)
        partition = None if number is None else entry.partition(number)
        if partition is None:
            return refused(404, not_here(sources, entry, index, number))
        slices = sources.slicer.work("/api")
        await slices.through(sources.lso_blockers.refresh())
        slices.end()
        return JSONResponse(redacted(reader, place_view(sources, topic, partition)))
