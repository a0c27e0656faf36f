"""`/api/...`: groups, topics and the broker as JSON. docs/use/http-api.md describes the fields. All
requests only read data. A broker returns only the groups that it coordinates. Long responses are
created in slices, so that a list of all groups does not delay other requests. A group id is one
percent-encoded segment of the path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.lag import readable
from broker.metrics.sources import Sources
from broker.web.answers import (
    for_cluster,
    forbidden,
    listing,
    path_parts,
    refused,
    unreadable,
)
from broker.web.peek import Peek
from broker.web.readers.reader import reader_of
from broker.web.readers.redaction import Redaction, redacted
from broker.web.views.groups import (
    group_summary,
    journal_head,
    member_rows,
    offset_rows,
    rebalance_rows,
    summary,
)
from broker.web.views.search_names import topics_named
from broker.web.views.security import denial_rows
from broker.web.views.topics import (
    api_rows,
    broker_view,
    client_rows,
    partition_rows,
    readers,
    setting_rows,
    topic_summary,
    topic_view,
    unsupported_rows,
    which_broker,
)
from broker.web.views.verdicts import findings_of
from security.acls.model import Operation, ResourceType
from verdicts.judge import Judgement

DAY_MS = 86_400_000
_PREFIX = b"/api/groups/"
_TOPICS = b"/api/topics/"

Parts = tuple[dict[str, Any], dict[str, Iterator[dict[str, Any]]]]
"""The parts of a response: its fields, and its lists of rows. The rows are created while the
response is sent."""


class WholePath(PathConvertor):
    """A path converter that matches the remaining path, including line ends, which a group id may
    contain."""

    regex = "(?s:.*)"


register_url_convertor("whole", WholePath())


def routes(sources: Sources) -> list[Route]:
    api = GroupsApi(sources)
    return [
        Route("/api/groups", api.groups),
        Route("/api/groups/{rest:whole}", api.group),
        Route("/api/offsets/expiring", api.expiring),
        Route("/api/topics", api.topics),
        Route("/api/topics/{rest:whole}", api.topic),
        Route("/api/broker", api.of_broker),
        Route("/api/clients", api.clients),
        Route("/api/denials", api.denials),
    ]


class GroupsApi:
    """The handlers for groups, topics and the broker. Each handler reads the shards in the loop's
    thread."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._peek = Peek(sources)

    async def groups(self, request: Request) -> Response:
        reader = reader_of(request.scope)

        def rows() -> Iterator[dict[str, Any] | None]:
            for hosted in readable(self.sources.groups):
                for group in list(hosted.core.view.groups.values()):
                    if not reader.sees_group(group.group_id):
                        yield None
                        continue
                    row = summary(self.sources, hosted, group)
                    yield redacted(reader, row, topics_named(hosted, group))

        runtime = self.sources.groups
        head = {"loading": runtime.life.loading, "unreadable": runtime.life.unreadable()}
        return listing(self.sources.slicer, head, groups=rows())

    async def group(self, request: Request) -> Response:
        """Returns one group, or its journal."""
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        parts = path_parts(raw, _PREFIX)
        is_journal = len(parts) == 2 and parts[1] == "journal"
        if not (parts[0] and (len(parts) == 1 or is_journal)):
            return refused(
                404,
                f"unknown path {request.url.path}: use /api/groups/GROUP or"
                " /api/groups/GROUP/journal",
            )
        group_id = parts[0]
        reader = reader_of(request.scope)
        if not reader.sees_group(group_id):
            return forbidden(reader, ResourceType.GROUP, group_id)
        hosted = self.sources.groups.hosted_for(group_id)
        if (answer := unreadable(f"group {group_id}", hosted)) is not None:
            return answer
        if is_journal:
            try:
                last = int(request.query_params.get("last", "64"))
            except ValueError:
                return refused(400, "last: write a number of rebalances, as in ?last=10")
            found = await self._journal(hosted, group_id, max(last, 0))
        else:
            found = await self._group(hosted, group_id)
        if found is None:
            return refused(404, f"group {group_id} does not exist; /api/groups lists all groups")
        head, lists = found
        group = None if hosted is None else hosted.core.view.groups.get(group_id)
        named = () if hosted is None or group is None else topics_named(hosted, group)
        shown = Redaction(reader, named)
        shown_lists = {name: shown.rows(rows) for name, rows in lists.items()}
        return listing(self.sources.slicer, shown.of(head), **shown_lists)

    async def _group(self, hosted: HostedGroups | None, group_id: str) -> Parts | None:
        judgement = await self._judged(hosted, group_id)
        group = None if hosted is None else hosted.core.view.groups.get(group_id)
        if hosted is None or group is None or judgement is None:
            return None
        return group_summary(self.sources, hosted, group, judgement), {
            "members": member_rows(self.sources, group),
            "offsets": offset_rows(self.sources, hosted, group_id, judgement),
        }

    async def _journal(self, hosted: HostedGroups | None, group_id: str, last: int) -> Parts | None:
        """Returns a group's journal with its last ``last`` rebalances; None if neither the journal
        nor the group exists."""
        judgement = await self._judged(hosted, group_id)
        head = journal_head(self.sources, hosted, group_id)
        if head is None:
            return None
        if judgement is None:
            judgement = self.sources.verdicts.judged_without_group(group_id)
        rebalances = rebalance_rows(self.sources, hosted, group_id, last)
        return head | findings_of(judgement), {"rebalances": rebalances}

    async def _judged(self, hosted: HostedGroups | None, group_id: str) -> Judgement | None:
        group = None if hosted is None else hosted.core.view.groups.get(group_id)
        if hosted is None or group is None:
            return None
        slices = self.sources.slicer.work("/api")
        judgement = await self.sources.verdicts.judged(hosted, group, slices)
        slices.end()
        return judgement

    async def expiring(self, request: Request) -> Response:
        """Returns the committed offsets that retention will soon remove, with the reason."""
        try:
            within_ms = int(request.query_params.get("within_ms", DAY_MS))
        except ValueError:
            return refused(400, "within_ms: write milliseconds, as in ?within_ms=3600000")
        only = request.query_params.get("group")
        reader = reader_of(request.scope)
        now = self.sources.time.now()
        until_ms = now.wall_ms + within_ms

        def rows() -> Iterator[dict[str, Any] | None]:
            for hosted in readable(self.sources.groups):
                for group_id in list(hosted.core.view.groups) if only is None else [only]:
                    yield None
                    if not reader.sees_group(group_id):
                        continue
                    for each in list(hosted.core.view.expiring(group_id, until_ms)):
                        if not reader.sees_topic(each.topic):
                            continue
                        kept = hosted.core.view.offsets.get(group_id, each.topic, each.partition)
                        yield {
                            "group": group_id,
                            "topic": each.topic,
                            "partition": each.partition,
                            "offset": None if kept is None else kept.offset,
                            "committed_ms": None if kept is None else kept.commit_timestamp_ms,
                            "expires_ms": each.expires_ms,
                            "expires_in_ms": max(0, each.expires_ms - now.wall_ms),
                            "why": each.why,
                        }

        settings = self.sources.groups.settings.core
        head = {
            "within_ms": within_ms,
            "retention_ms": settings.offsets_retention_ms,
            "check_interval_ms": settings.offsets_retention_check_interval_ms,
        }
        return listing(self.sources.slicer, head, offsets=rows())

    async def topics(self, request: Request) -> Response:
        reader = reader_of(request.scope)
        entries = list(self.sources.logs.topics.values())
        rows = (
            topic_summary(entry) if reader.sees_topic(entry.topic.name) else None
            for entry in entries
        )
        return listing(self.sources.slicer, {}, topics=rows)

    async def topic(self, request: Request) -> Response:
        """Returns one topic with its partitions and groups, or one record of the topic."""
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        name, *rest = path_parts(raw, _TOPICS)
        reader = reader_of(request.scope)
        if not reader.sees_topic(name):
            return forbidden(reader, ResourceType.TOPIC, name)
        if len(rest) == 2 and rest[1] == "record":
            if not reader.may(Operation.READ, ResourceType.TOPIC, name):
                return forbidden(reader, ResourceType.TOPIC, name, Operation.READ)
            return await self._peek.answer(name, rest[0], request.query_params.get("offset"))
        if rest:
            paths = "/api/topics/TOPIC or /api/topics/TOPIC/PARTITION/record?offset=N"
            return refused(404, f"unknown path {request.url.path}: use {paths}")
        view = topic_view(self.sources, name)
        if view is None:
            return refused(404, f"topic {name} does not exist; /api/topics lists all topics")
        rows = (
            row if row is None or reader.sees_group(row["group"]) else None
            for row in readers(self.sources, name)
        )
        partitions = partition_rows(self.sources, name)
        may = reader.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)
        settings = setting_rows(self.sources, name) if may else iter(())
        lists = {"partition_list": partitions, "groups": rows, "settings": settings}
        return listing(self.sources.slicer, view, **lists)

    async def of_broker(self, request: Request) -> Response:
        """Returns the state of the broker. Returns only its id and state if the reader lacks
        DESCRIBE on the cluster."""
        sources = self.sources
        if not reader_of(request.scope).sees_cluster:
            return JSONResponse(which_broker(sources))
        beside = {"apis": list(api_rows(sources)), "unsupported": list(unsupported_rows(sources))}
        return JSONResponse({**broker_view(sources), **beside})

    async def clients(self, request: Request) -> Response:
        if (answer := for_cluster(request)) is not None:
            return answer
        return listing(self.sources.slicer, {}, clients=iter(client_rows(self.sources)))

    async def denials(self, request: Request) -> Response:
        if (answer := for_cluster(request)) is not None:
            return answer
        reader = reader_of(request.scope)
        rows = (redacted(reader, row) for row in denial_rows(self.sources))
        return listing(self.sources.slicer, {}, denials=rows)
