"""`/api/cluster...`: the cluster as this broker knows it, and the causes of changes. Each broker
reports what it knows: the controller knows why leaders changed, a leader knows why a replica is out
of sync. The size of each response is limited. A standalone broker returns 404."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.cluster.zookeeper.bad_nodes import bad_nodes
from broker.cluster.zookeeper.zookeeper import ZooKeeperError
from broker.metrics.sources import Sources
from broker.web.answers import ALONE, for_cluster, forbidden, path_parts, refused, whole_number
from broker.web.readers.reader import reader_of
from broker.web.readers.redaction import redacted
from broker.web.views.cluster import (
    WAITS_MAX,
    View,
    cluster_view,
    doing_view,
    entry_view,
    known_or_none,
    partition_view,
    troubled_rows,
    waits_rows,
)
from journal.happened import SESSION, of_broker, of_partition, of_topic
from security.acls.model import ResourceType

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker

_PREFIX = b"/api/cluster/"
STRAYS_MAX = 100
NOT_FOLLOWED_MAX = 100
PARTITIONS_MAX = 1000
"""The maximum number of partitions with problems that are listed. Further ones are only counted."""


def routes(sources: Sources) -> list[Route]:
    api = ClusterApi(sources)
    return [
        Route("/api/cluster", api.cluster),
        Route("/api/cluster/check", api.check),
        Route("/api/cluster/{rest:path}", api.one),
    ]


class ClusterApi:
    """The handlers for `/api/cluster...`. Each handler reads in the loop's thread, in slices."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._looking = Lock()
        """Held while a check reads ZooKeeper, so that only one check at a time does so."""

    async def cluster(self, request: Request) -> Response:
        """Returns the brokers, the controller with its pending and waiting work, and the problems
        of the cluster."""
        if (answer := for_cluster(request)) is not None:
            return answer
        member = self.sources.member
        if member is None:
            return _alone()
        view = cluster_view(self.sources, member)
        view["doing"] = doing_view(member)
        waits, more = await self._first(waits_rows(member), WAITS_MAX)
        view["waits"], view["more_waits"] = waits, more
        rows, more = await self._first(troubled_rows(self.sources, member), PARTITIONS_MAX)
        view["partitions"], view["more_partitions"] = rows, more
        return JSONResponse(redacted(reader_of(request.scope), view))

    async def _first(self, rows: Iterator[View | None], at_most: int) -> tuple[list[View], int]:
        """Returns the first ``at_most`` rows, and the number of further rows. An element None of
        ``rows`` is not a row."""
        found, more = list[View](), 0
        slices = self.sources.slicer.work("/api")
        for row in rows:
            if row is not None and len(found) < at_most:
                found.append(row)
            elif row is not None:
                more += 1
            if slices.over:
                await slices.pause()
        slices.end()
        return found, more

    async def check(self, request: Request) -> Response:
        """Returns the problems that only this broker can detect. With the query ``nodes=true``,
        also checks the nodes in ZooKeeper."""
        if (answer := for_cluster(request)) is not None:
            return answer
        member = self.sources.member
        if member is None:
            return _alone()
        view: View = {"broker": member.joined.node_id}
        if request.query_params.get("nodes") == "true":
            try:
                async with self._looking:
                    looked = await bad_nodes(member.joined.zookeeper)
            except (ZooKeeperError, OSError) as error:
                return refused(503, f"can't read ZooKeeper: {error}")
            bad = [{"path": path, "why": why} for path, why in looked.bad]
            view |= {"nodes": looked.nodes, "bad_nodes": bad, "more_bad_nodes": looked.more}
        strays = await member.strays()
        clients = member.configs.clients
        view |= {
            "not_followed": [each._asdict() for each in clients.not_followed(NOT_FOLLOWED_MAX)],
            "more_not_followed": max(0, clients.count_not_followed() - NOT_FOLLOWED_MAX),
            "strays": strays[:STRAYS_MAX],
            "more_strays": max(0, len(strays) - STRAYS_MAX),
            "epoch": known_or_none(member.broker_epoch()),
            "zookeeper": member.joined.zookeeper.connection.value,
            "now_ms": self.sources.time.now().wall_ms,
        }
        return JSONResponse(redacted(reader_of(request.scope), view))

    async def one(self, request: Request) -> Response:
        """Returns one partition or one broker, with its journal entries."""
        if (answer := for_cluster(request)) is not None:
            return answer
        member = self.sources.member
        if member is None:
            return _alone()
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        match path_parts(raw, _PREFIX):
            case ["partitions", topic, index]:
                reader = reader_of(request.scope)
                if not reader.sees_topic(topic):
                    return forbidden(reader, ResourceType.TOPIC, topic)
                return self._partition(member, topic, index)
            case ["brokers", broker]:
                return self._broker(member, broker)
        paths = "/api/cluster/partitions/TOPIC/PARTITION or /api/cluster/brokers/ID"
        return refused(404, f"unknown path {request.url.path}: use {paths}")

    def _partition(self, member: ClusterBroker, topic: str, text: str) -> Response:
        known = member.cache.topics.get(topic)
        if known is None:
            return refused(404, f"topic {topic} does not exist; /api/topics lists all topics")
        index = whole_number(text)
        shown = None if index is None else member.cache.partition(topic, index)
        if index is None or shown is None:
            last = max(known.partitions, default=-1)
            return refused(404, f"{topic} does not have partition {text[:32]}, only 0 to {last}")
        view = partition_view(self.sources, member, topic, index, shown)
        return JSONResponse(
            {
                **view,
                "broker": member.joined.node_id,
                "controller": known_or_none(member.cache.controller_id),
                "waits": [
                    each
                    for each in waits_rows(member, topic)
                    if each is not None and each["partition"] in (None, index)
                ],
                "journal": _story(member, of_partition(topic, index)),
                "topic_journal": _story(member, of_topic(topic)),
            }
        )

    def _broker(self, member: ClusterBroker, text: str) -> Response:
        broker = whole_number(text)
        if broker is None:
            return refused(400, f"{text[:32]} is not a broker id: write a number from 0")
        here = broker == member.joined.node_id
        return JSONResponse(
            {
                "broker": broker,
                "alive": member.cache.is_alive(broker),
                "told_by": member.joined.node_id,
                "journal": _story(member, of_broker(broker)),
                "session_journal": _story(member, SESSION) if here else [],
            }
        )


def _story(member: ClusterBroker, name: str) -> list[dict[str, Any]]:
    return [entry_view(each) for each in member.keeper.journal.of(name)]


def _alone() -> Response:
    return refused(404, ALONE)
