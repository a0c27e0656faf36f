"""Produce and Fetch: the rights of each topic, on the path of every record.

A topic that was allowed is known by what the request calls it, its name or its id, so that a
request which names no other is handled after one look into a set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.fetch.handler import Fetching
from broker.apis.fetch.handler import handler_of as fetch_handler
from broker.apis.fetch.reading import Done as Read
from broker.apis.fetch.reading import Reader
from broker.apis.fetch.response import Fetched, refused
from broker.apis.fetch.sessions import TopicKey, Wanted
from broker.apis.guard.judging import BY_KEY, JUDGED_AT_ONCE, keep, may, permitted
from broker.apis.produce.handler import Make, Prepared
from broker.apis.produce.handler import handler_of as produce_handler
from broker.apis.produce.producing import Place, Producing
from broker.apis.produce.response import Done, Refused
from broker.apis.produce.transaction import has_transactional
from broker.net.needs import Own, Rights
from broker.net.request import Handler, Request, Steps
from protocol.errors import TOPIC_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from protocol.generated.produce import Request as Decoded

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer


def produce(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:  # noqa: ARG001
    """Produce."""
    write, write_id = rights.own
    may_write = BY_KEY | write.operation

    def make(services: Services, request: Request, decoded: Decoded) -> Producing:
        known = permitted(authorizer, request.connection, may_write)
        if not known.issuperset([topic[0] for topic in decoded[3]]):
            judged = _Judged(authorizer, services, request, write)
            return _Producing(authorizer, write_id, services, request, decoded, judged)
        try:
            producing = Producing(services, request, decoded)
        except Refused:
            _check_id(authorizer, request, write_id, decoded[0])
            raise
        if producing.transaction is not None:
            _check_id(authorizer, request, write_id, decoded[0])
        return producing

    def judge_many(services: Services, request: Request, decoded: Decoded) -> Prepared:
        if len(decoded[3]) <= JUDGED_AT_ONCE:
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

    return produce_handler(make, judge_many)


def fetch(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:  # noqa: ARG001
    """Fetch; of a session every topic is judged at each request."""
    read, among_brokers = rights.own
    may_read = BY_KEY | read.operation

    def make(services: Services, request: Request) -> Any:
        fetching = Fetching(services, request)
        if fetching.reader.replica_id >= 0:
            if not may(authorizer, request, among_brokers):
                _deny_replica(fetching)
            return fetching
        known = permitted(authorizer, request.connection, may_read)
        topics = [wanted.topic for wanted in fetching.wanted]
        if known.issuperset(topics):
            return fetching
        keys = Counter(topics)
        judged = _Judged(authorizer, services, request, read)
        if len(keys) > JUDGED_AT_ONCE:
            return _JudgedLater(request, fetching, judged, keys)
        for key, count in keys.items():
            judged.allows(key, count)
        _leave_out(fetching, judged.denied)
        return fetching

    return fetch_handler(make)


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
        self.known = permitted(authorizer, request.connection, BY_KEY | right.operation)
        self.denied: set[TopicKey] = set()

    def allows(self, key: TopicKey, count: int = 1) -> bool:
        """Whether the peer may; an id that no topic has is left to the handler."""
        if key in self.known:
            return True
        if key in self.denied:
            return False
        name = self._registry.topic_name(key) if isinstance(key, bytes) else key
        if name is None:
            return True
        request, right = self._request, self._right
        if self._authorizer.allows(
            request.connection,
            right.operation,
            right.kind,
            name,
            api=request.served.api.name,
            count=count,
        ):
            keep(self.known, key)
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


class _JudgedLater:
    """A Fetch of many topics, which are judged with pauses before it begins."""

    def __init__(
        self, request: Request, fetching: Fetching, judged: _Judged, keys: Mapping[TopicKey, int]
    ) -> None:
        self._request = request
        self._fetching = fetching
        self._judged = judged
        self._keys = keys

    def begin(self) -> None:
        """See `Fetching`."""
        self._request.work_off(self._steps())

    def _steps(self) -> Steps:
        for key, count in self._keys.items():
            self._judged.allows(key, count)
            yield None
        _leave_out(self._fetching, self._judged.denied)
        self._fetching.begin()


def _leave_out(fetching: Fetching, denied: Set[TopicKey]) -> None:
    """Has these topics answered with the denial."""
    if denied:
        fetching.reader = _AllowedReader(fetching.reader, frozenset(denied))


def _deny_replica(fetching: Fetching) -> None:
    """All partitions of who says that it is a broker and is none."""
    if fetching.session is not None:
        fetching.wanted = list(fetching.session.partitions.values())
    _leave_out(fetching, {wanted.topic for wanted in fetching.wanted})
    fetching.reader.replica = None


class _AllowedReader(Reader):
    """A reader that does not read what is denied."""

    def __init__(self, reader: Reader, denied: frozenset[TopicKey]) -> None:
        self.__dict__.update(reader.__dict__)
        self._denied = denied

    def partition(self, wanted: Wanted, room: int, first: bool, done: Read | None) -> Fetched:
        """See `Reader`."""
        if wanted.topic in self._denied:
            return refused(wanted.partition, TOPIC_AUTHORIZATION_FAILED)
        return super().partition(wanted, room, first, done)
