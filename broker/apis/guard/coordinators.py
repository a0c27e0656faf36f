"""FindCoordinator, and OffsetFetch with its groups, topics, and all topics of a group."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from broker.apis.guard.allowed_part import AllowedPart, Keeps
from broker.apis.guard.denials import deny
from broker.apis.guard.elements import with_elements
from broker.apis.guard.judging import (
    counted,
    may,
    own_denied_in_steps,
    permitted,
    right_of,
)
from broker.apis.guard.needs_met import error_of, with_needs
from broker.apis.guard.shown import own_shows
from broker.net.needs import Each, Need, Rights, group
from broker.net.request import Handler, Request, Steps
from protocol.errors import GROUP_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
"""Types of keys."""
_FIRST_WITH_MANY_KEYS = 4
_FIRST_WITH_SHARE = 6
_FIRST_WITH_GROUP_ERROR, _FIRST_WITH_MANY_GROUPS, _FIRST_WITH_IDS = 2, 8, 10

Topic = tuple[Any, Sequence[int]]
Denied = tuple[Set[str], Set[str]]
"""Groups, and topics."""


def find_coordinator(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """FindCoordinator: a right to each key, by its type."""
    of_group, of_transaction, among_brokers = rights.own
    own = {_GROUP: of_group, _TRANSACTION: of_transaction}
    many = {
        key_type: with_elements(
            Each(each.operation, each.kind, "coordinator_keys", "", "coordinators"),
            inner,
            authorizer,
        )
        for key_type, each in own.items()
    }
    one = {
        key_type: with_needs((Need(each.operation, each.kind, "key"),), inner, authorizer, "")
        for key_type, each in own.items()
    }

    def handle(services: Services, request: Request) -> Steps | None:
        version, key_type = request.api_version, request.value["key_type"]
        is_share = key_type == _SHARE and version >= _FIRST_WITH_SHARE
        if is_share and not may(authorizer, request, among_brokers):
            deny(request, error_of(among_brokers))
            return None
        guarded = (many if version >= _FIRST_WITH_MANY_KEYS else one).get(key_type, inner)
        return guarded(services, request)

    return handle


class _Rights:
    """What OffsetFetch asks for."""

    __slots__ = ("group", "group_right", "topic", "topic_right")

    def __init__(self, rights: Rights) -> None:
        self.group, self.topic = rights.own
        self.group_right = right_of(self.group.operation, self.group.kind)
        self.topic_right = right_of(self.topic.operation, self.topic.kind)


def offset_fetch(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """OffsetFetch: of all topics of a group those are left out that the peer may not describe."""
    own = _Rights(rights)
    old_topics = with_elements(Each(own.topic.operation, own.topic.kind), inner, authorizer)
    old = with_needs((group(own.group.operation),), old_topics, authorizer, "")

    def handle(services: Services, request: Request) -> Steps | None:
        if request.api_version == 0:
            return old(services, request)
        decoded = request.context
        if decoded is None:
            decode = request.route.served.decoders[request.api_version]
            decoded = request.context = decode(request.buffer, request.position)
        groups = decoded[0]
        if _is_known(authorizer, own, request, groups):
            return inner(services, request)
        return _in_steps(services, request, own, authorizer, inner)

    return handle


def _is_known(
    authorizer: Authorizer, own: _Rights, request: Request, groups: Sequence[Any]
) -> bool:
    """Whether one group, and the topics that are named of it, were allowed before."""
    if len(groups) != 1 or request.api_version >= _FIRST_WITH_IDS:
        return False
    connection = request.connection
    group_id, _, _, topics = groups[0]
    if topics is None or group_id not in permitted(authorizer, connection, own.group_right):
        return False
    known = permitted(authorizer, connection, own.topic_right)
    if len(topics) == 1:
        return topics[0][0] in known
    return known.issuperset([topic[0] for topic in topics])


def _in_steps(
    services: Services, request: Request, own: _Rights, authorizer: Authorizer, inner: Handler
) -> Steps:
    ids = yield from counted(each[0] for each in request.context[0])
    groups = yield from own_denied_in_steps(authorizer, request, own.group, ids)
    names = yield from _names(services, request, groups)
    topics = yield from own_denied_in_steps(authorizer, request, own.topic, names)
    yield from _go_on(services, request, own, authorizer, (groups, topics), inner)


def _name(services: Services, request: Request) -> Callable[[Any], str | None]:
    """What finds the name of a topic as the request has it; None where no topic has that id."""
    if request.api_version >= _FIRST_WITH_IDS:
        return services.registry.topic_name
    return str


def _names(
    services: Services, request: Request, denied_groups: Set[str]
) -> Generator[None, None, Mapping[str, int]]:
    name = _name(services, request)
    if not denied_groups:
        groups = request.context[0]
    else:
        groups = []
        for each in request.context[0]:
            if each[0] not in denied_groups:
                groups.append(each)
            yield None
    return (yield from counted(name(topic) for each in groups for topic, _ in each[3] or ()))


def _go_on(
    services: Services,
    request: Request,
    own: _Rights,
    authorizer: Authorizer,
    denied: Denied,
    inner: Handler,
) -> Steps:
    groups, require_stable = request.context
    denied_groups, denied_topics = denied
    if not denied_groups and not denied_topics and all(each[3] is not None for each in groups):
        yield from inner(services, request) or ()
        return
    if request.api_version < _FIRST_WITH_MANY_GROUPS and denied_groups:
        _deny_old(request, groups[0][3] or ())
        return
    name = _name(services, request)
    left = []
    for each in groups:
        yield None
        if each[0] in denied_groups:
            continue
        topics: list[Topic] | None = None
        if each[3] is not None:
            topics = []
            for topic in each[3]:
                if name(topic[0]) not in denied_topics:
                    topics.append(topic)
                yield None
        left.append((*each[:3], topics))
    shown = own_shows(authorizer, request, own.topic, "name")
    told = _Told(services, request, shown, denied)
    part = AllowedPart(services, request, context=(left, require_stable), finish=told.finish)
    if not left:
        part.respond({"groups": []}, GROUP_AUTHORIZATION_FAILED)
        return
    yield from inner(services, part) or ()


def _deny_old(request: Request, topics: Sequence[Topic]) -> None:
    """Of the one group of an older request."""
    code = GROUP_AUTHORIZATION_FAILED
    answer: dict[str, Any] = {"error_code": code, "topics": []}
    if request.api_version < _FIRST_WITH_GROUP_ERROR:
        answer["topics"] = [_entry("name", topic, code) for topic in topics]
    request.respond(answer, code)


def _entry(key: str, topic: Topic, error_code: int) -> dict[str, Any]:
    return {
        key: topic[0],
        "partitions": [
            {
                "partition_index": index,
                "committed_offset": -1,
                "committed_leader_epoch": -1,
                "metadata": "",
                "error_code": error_code,
            }
            for index in topic[1]
        ],
    }


class _Told:
    """What becomes of the handler's answer."""

    def __init__(self, services: Services, request: Request, shown: Keeps, denied: Denied) -> None:
        self._request = request
        self._groups = request.context[0]
        self._denied_groups, self._denied_topics = denied
        self._name = _name(services, request)
        self._key = "topic_id" if request.api_version >= _FIRST_WITH_IDS else "name"
        self._shown = shown

    def finish(self, answer: dict[str, Any]) -> Iterator[None]:
        """Puts in what was denied, and leaves out what is hidden; a yield after each topic."""
        if self._request.api_version < _FIRST_WITH_MANY_GROUPS:
            yield from self._one(self._groups[0], answer)
            return
        answered = iter(answer["groups"])
        groups = []
        for asked in self._groups:
            if asked[0] in self._denied_groups:
                groups.append(
                    {"group_id": asked[0], "topics": [], "error_code": GROUP_AUTHORIZATION_FAILED}
                )
                yield
            else:
                groups.append(next(answered))
                yield from self._one(asked, groups[-1])
        answer["groups"] = groups

    def _one(self, asked: Any, answer: dict[str, Any]) -> Iterator[None]:
        topics = asked[3]
        if answer.get("error_code", NONE) != NONE:
            return
        if topics is None:
            shown = []
            for topic in answer["topics"]:
                if self._shown({"name": self._name(topic[self._key])}):
                    shown.append(topic)
                yield
            answer["topics"] = shown
            return
        for topic in topics:
            if self._name(topic[0]) in self._denied_topics:
                answer["topics"].append(_entry(self._key, topic, TOPIC_AUTHORIZATION_FAILED))
            yield
