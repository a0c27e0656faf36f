"""Responses that several HTTP handlers use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from broker.cores.hosted_shard import HostedShard, Phase
from broker.loop.slices import Slicer
from broker.web.readers.reader import Reader, reader_of
from security.acls.model import CLUSTER_NAME, Operation, ResourceType

ALONE = "this broker is standalone: zookeeper.connect is not set"


def refused(status: int, sentence: str) -> Response:
    """Returns an error response with the status and the message ``sentence``."""
    return JSONResponse({"error": sentence}, status)


def unreadable(what: str, hosted: HostedShard[Any] | None) -> Response | None:
    """Returns an error response about ``what`` if the shard ``hosted`` can't be read at present;
    otherwise None."""
    if hosted is not None and hosted.phase is Phase.LOADING:
        return refused(503, f"{what}: the coordinator partition is loading; try again")
    if hosted is not None and hosted.log.unreadable is not None:
        return refused(503, f"{what}: the coordinator partition can't be read")
    return None


def forbidden(
    reader: Reader, kind: ResourceType, name: str, operation: Operation = Operation.DESCRIBE
) -> Response:
    """Returns the response for a reader who lacks the right. The response is the same whether the
    resource exists or not."""
    return refused(403, reader.denied(operation, kind, name))


def for_cluster(request: Request) -> Response | None:
    """Returns an error response if the reader does not have DESCRIBE on the cluster, else None."""
    reader = reader_of(request.scope)
    return None if reader.sees_cluster else forbidden(reader, ResourceType.CLUSTER, CLUSTER_NAME)


def path_parts(raw: bytes, prefix: bytes) -> list[str]:
    """Returns the decoded segments of a path after ``prefix``. A segment, such as a group id, may
    contain an encoded slash."""
    return [unquote(part) for part in raw.removeprefix(prefix).decode("latin-1").split("/")]


def whole_number(text: str) -> int | None:
    """Returns the number in ``text``; None unless it is a whole number of at least 0 with no more
    digits than an offset."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 32 else None


def listing(
    slicer: Slicer, head: dict[str, Any], **lists: Iterator[dict[str, Any] | None]
) -> Response:
    """Returns a JSON object with the fields in ``head`` and, for each keyword argument, a list of
    rows. The rows are created in slices while the response is sent. Rows that are None are omitted
    from the list."""

    async def body() -> AsyncIterator[str]:
        pieces = [json.dumps(head, ensure_ascii=False).removesuffix("}")]
        before_field = ", " if head else ""
        slices = slicer.work("/api")
        for name, rows in lists.items():
            pieces.append(f'{before_field}"{name}": [')
            before_field, before_row = ", ", ""
            for row in rows:
                if row is not None:
                    pieces.append(before_row + json.dumps(row, ensure_ascii=False))
                    before_row = ", "
                if slices.over:
                    yield "".join(pieces)
                    pieces = []
                    await slices.pause()
            pieces.append("]")
        slices.end()
        pieces.append("}")
        yield "".join(pieces)

    return StreamingResponse(body(), media_type="application/json")
