"""Produce and Fetch: the rights of each topic, on the path of every record.

A topic that was allowed is known by what the request calls it, its name or its id, so that a
request which names no other is handled after one look into a set.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.fetch.handler import Fetching
from broker.apis.fetch.handler import handler_of as fetch_handler
from broker.apis.fetch.sessions import TopicKey
from broker.apis.guard.judging import BY_KEY, counted, may, permitted
from broker.apis.produce.handler import Make, Prepared
from broker.apis.produce.handler import handler_of as produce_handler
from broker.apis.produce.producing import Place, Producing
from broker.apis.produce.response import Done, Refused
from broker.apis.produce.transaction import has_transactional
from broker.net.needs import Own, Rights
from broker.net.request import Handler, Request, Steps
from protocol.errors import TOPIC_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from protocol.generated.produce import Request as Decoded
from security.acls.model import CLUSTER_NAME

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer


def produce(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:  # noqa: ARG001
    """Produce."""
    write, write_id = rights.own
    may_write = BY_KEY | write.operation

    def make(services: Services, request: Request, decoded: Decoded) -> Producing:
        try:
            producing = Producing(services, request, decoded)
        except Refused:
            _check_id(authorizer, request, write_id, decoded[0])
            raise
        if producing.transaction is not None:
            _check_id(authorizer, request, write_id, decoded[0])
        return producing

    def judge(services: Services, request: Request, decoded: Decoded) -> Prepared:
        known = permitted(authorizer, request.connection, may_write)
        if known.issuperset([topic[0] for topic in decoded[3]]):
            return None
        return judged_first(services, request, decoded)

    def judged_first(
        services: Services, request: Request, decoded: Decoded
    ) -> Generator[None, None, Make]:
        transactional_id, _, _, topics = decoded
        judged = _Judged(authorizer, services, request, write)
        if has_transactional(topics):
            _check_id(authorizer, request, write_id, transactional_id)
        for key, partitions in topics:
            judged.allows(key, len(partitions))
            yield None
        return partial(_Producing, authorizer, write_id, judged=judged)

    return produce_handler(make, judge)


def fetch(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:  # noqa: ARG001
    """Fetch; of a session every topic is judged at each request."""
    read, among_brokers = rights.own
    return fetch_handler(_FetchRights(authorizer, read, among_brokers))


class _FetchRights:
    """See `FetchRights`."""

    def __init__(self, authorizer: Authorizer, read: Own, among_brokers: Own) -> None:
        self._authorizer = authorizer
        self._read = read
        self._among_brokers = among_brokers
        self._may_read = BY_KEY | read.operation

    def may_follow(self, request: Request, *, is_logged: bool = True) -> bool:
        """See `FetchRights`."""
        right = self._among_brokers
        api = request.served.api.name
        return self._authorizer.allows(
            request.connection, right.operation, right.kind, CLUSTER_NAME,
            api=api, is_logged=is_logged,
        )  # fmt: skip

    def judge(self, fetch: Fetching) -> Steps | None:
        """See `FetchRights`."""
        topics = [wanted.topic for wanted in fetch.wanted]
        if fetch.reader.replica_id >= 0:
            # Asked for again: it may have been taken away while the request waited.
            if not self.may_follow(fetch.request, is_logged=False):
                fetch.deny(frozenset(topics))
            return None
        known = permitted(self._authorizer, fetch.request.connection, self._may_read)
        if known.issuperset(topics):
            return None
        return self._judge_each(fetch, topics)

    def _judge_each(self, fetch: Fetching, topics: Iterable[TopicKey]) -> Steps:
        judged = _Judged(self._authorizer, fetch.services, fetch.request, self._read)
        counting: Generator[None, None, dict[TopicKey, int]] = counted(topics)
        times = yield from counting
        for topic, count in times.items():
            judged.allows(topic, count)
            yield None
        fetch.deny(judged.denied)


class _Judged:
    """The topics of one request."""

    def __init__(
        self,
        authorizer: Authorizer,
        services: Services,
        request: Request,
        right: Own,
    ) -> None:
        self._authorizer = authorizer
        self._registry = services.registry
        self._request = request
        self._right = right
        self.denied: set[TopicKey] = set()

    def allows(self, key: TopicKey, count: int = 1) -> bool:
        """Whether the peer may; an id that no topic has is left to the handler."""
        request, right = self._request, self._right
        # Looked up anew: entries may have changed since the request came.
        known = permitted(self._authorizer, request.connection, BY_KEY | right.operation)
        if key in known:
            return True
        if key in self.denied:
            return False
        name = self._registry.topic_name(key) if isinstance(key, bytes) else key
        if name is None:
            return True
        if self._authorizer.allows(
            request.connection,
            right.operation,
            right.kind,
            name,
            api=request.served.api.name,
            count=count,
        ):
            known.keep(key)
            return True
        self.denied.add(key)
        return False


class _Producing(Producing):
    """The work of a Produce, which refuses topics that the peer may not write."""

    def __init__(
        self,
        authorizer: Authorizer,
        write_id: Own,
        services: Services,
        request: Request,
        decoded: Decoded,
        judged: _Judged,
    ) -> None:
        transactional_id, acks, timeout_ms, topics = decoded
        self._judged = judged
        refused: list[tuple[Any, list[Done]]] = []
        if has_transactional(topics):
            _check_id(authorizer, request, write_id, transactional_id)
            allowed = []  # what is denied is not added to the transaction either
            for topic in topics:
                if self._judged.allows(topic[0], len(topic[1])):
                    allowed.append(topic)
                else:
                    refused.append((topic[0], [_refusal(index) for index, _ in topic[1]]))
            topics = allowed
        super().__init__(services, request, (transactional_id, acks, timeout_ms, topics))
        self.responses += refused

    def _each(
        self, topics: list[tuple[Any, list[tuple[int, bytes | None]]]]
    ) -> Iterator[Place | None]:
        for topic in topics:
            key, partitions = topic
            if self._judged.allows(key, len(partitions)):
                yield from super()._each([topic])
                continue
            done: list[Done] = []
            self.responses.append((key, done))
            for index, _ in partitions:
                yield Place(done, None, index, None)

    def _partition(self, place: Place, entry: Any, budget: Any) -> bool:
        if place.entry is None and self.responses[-1][0] in self._judged.denied:
            place.done.append(_refusal(place.partition))
            return True
        return super()._partition(place, entry, budget)


def _check_id(
    authorizer: Authorizer, request: Request, write_id: Own, transactional_id: str | None
) -> None:
    """Raises Refused where a transactional batch comes without a right to its transaction."""
    if transactional_id is None or not may(authorizer, request, write_id, transactional_id):
        raise Refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _refusal(partition: int) -> Done:
    return Refused(TOPIC_AUTHORIZATION_FAILED).done(partition)
