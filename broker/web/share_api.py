"""`/api/share/GROUP`: the share partitions of a share group, the members that hold records, and the
deliveries of records that were delivered again or archived.

`/api/share/GROUP/partitions`: the share partitions of one topic that this broker knows. In a
cluster, the coordinator of the group may not know share partitions that other brokers lead.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
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
from broker.web.readers.redaction import Redaction
from broker.web.views.groups import member_rows
from broker.web.views.search_names import topics_named
from broker.web.views.share import (
    Wanted,
    known_partition_rows,
    share_head,
    share_partition_rows,
)
from broker.web.views.verdicts import findings_of
from coordinator.share.group_view import ShareGroupView
from security.acls.model import ResourceType

_PREFIX = b"/api/share/"


def routes(sources: Sources) -> list[Route]:
    return [Route("/api/share/{rest:whole}", ShareApi(sources).group)]


class ShareApi:
    """The handler for share groups. It reads the shards and the share partitions in the loop's
    thread."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    async def group(self, request: Request) -> Response:
        """Returns one share group with its members and share partitions."""
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        parts = path_parts(raw, _PREFIX)
        if not parts or not parts[0] or parts[1:] not in ([], ["partitions"]):
            return refused(404, f"unknown path {request.url.path}: use /api/share/GROUP")
        group_id = parts[0]
        reader = reader_of(request.scope)
        if not reader.sees_group(group_id):
            return forbidden(reader, ResourceType.GROUP, group_id)
        wanted = _wanted(request)
        if isinstance(wanted, str):
            return refused(400, wanted)
        if wanted.topic is not None and not reader.sees_topic(wanted.topic):
            return forbidden(reader, ResourceType.TOPIC, wanted.topic)
        if parts[1:]:
            return self._known(group_id, wanted)
        hosted = self.sources.groups.hosted_for(group_id)
        if (answer := unreadable(f"group {group_id}", hosted)) is not None:
            return answer
        group = None if hosted is None else hosted.core.view.groups.get(group_id)
        if hosted is None or group is None:
            return refused(404, f"group {group_id} does not exist; /api/groups lists all groups")
        if not isinstance(group, ShareGroupView):
            kind = f"is a {group.type} group, not a share group"
            return refused(404, f"group {group_id} {kind}")
        slices = self.sources.slicer.work("/api")
        judgement = await self.sources.verdicts.judged(hosted, group, slices)
        slices.end()
        shown = Redaction(reader, topics_named(hosted, group))
        head = share_head(self.sources, hosted, group) | findings_of(judgement)
        return listing(
            self.sources.slicer,
            shown.of(head),
            members=shown.rows(member_rows(self.sources, group)),
            partitions=shown.rows(share_partition_rows(self.sources, group, wanted)),
        )

    def _known(self, group_id: str, wanted: Wanted) -> Response:
        """Returns the share partitions of a group in the requested topic, as far as this broker
        knows them."""
        if wanted.topic is None:
            return refused(400, "topic: write the name of a topic, as in ?topic=orders")
        rows = known_partition_rows(self.sources, group_id, wanted.topic, wanted)
        return listing(self.sources.slicer, {"group": group_id}, partitions=rows)


def _wanted(request: Request) -> Wanted | str:
    """Returns the part of the share group that the query selects, or the text of an error."""
    topic = request.query_params.get("topic")
    numbers: dict[str, int | None] = {}
    for name, needs in (("partition", topic), ("offset", request.query_params.get("partition"))):
        text = request.query_params.get(name)
        numbers[name] = None if text is None else whole_number(text)
        if text is not None and (needs is None or numbers[name] is None):
            return f"{name}: write a number, as in ?topic=orders&partition=0&offset=42"
    return Wanted(topic, **numbers)
