"""What a request needs as a whole: the group of a heartbeat, a transactional id, the cluster.

The requests of groups come most often, and each begins with its group's id. Whether that id was
allowed is looked up by its bytes, before anything is decoded.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from broker.apis.guard.denials import deny
from broker.apis.guard.judging import may, permitted, right_of
from broker.net.needs import DENIED, AnyOf, Need, Own
from broker.net.request import Handler, Request, Steps
from protocol.errors import ProtocolError
from protocol.messages.txn_offset_commit import API as TXN_OFFSET_COMMIT
from protocol.wire import read_compact_string, read_string
from security.acls.model import ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

_DECODED = {(TXN_OFFSET_COMMIT.key, "transactional_id"): 0, (TXN_OFFSET_COMMIT.key, "group_id"): 1}
"""Where the generated decoder of an API has a field; the reference codec is slow."""


_BYTES = 1 << 16
"""In the key of what is known by its bytes, not by its name."""
_TWO_BYTES = 128
"""From here on a size has more bytes than one."""


def error_of(need: Need | AnyOf | Own) -> int:
    """What a denial is answered with."""
    return DENIED[(need.needs[-1] if isinstance(need, AnyOf) else need).kind]


def with_needs(
    needs: tuple[Need | AnyOf, ...], inner: Handler, authorizer: Authorizer, first_field: str
) -> Handler:
    """The handler, for whoever may do all of ``needs``; ``first_field`` is the request's first."""
    if len(needs) == 1 and isinstance(needs[0], Need) and needs[0].field == first_field:
        return _with_first_field(needs[0], inner, authorizer)

    def handle(services: Services, request: Request) -> Steps | None:
        for need in needs:
            name = ""
            if isinstance(need, Need) and need.kind is not ResourceType.CLUSTER:
                name = _field(request, need.field)
            if not may(authorizer, request, need, name):
                deny(request, error_of(need))
                return None
        return inner(services, request)

    return handle


def _field(request: Request, field: str) -> str:
    index = _DECODED.get((request.served.api.key, field))
    if index is None:
        return request.value[field] or ""
    if request.context is None:
        decode = request.served.decoders[request.api_version]
        request.context = decode(request.buffer, request.position)
    name: str = request.context[index]
    return name


def _with_first_field(need: Need, inner: Handler, authorizer: Authorizer) -> Handler:
    """For requests that begin with the name of what they need: no more of them is looked at."""
    of = _BYTES | right_of(need.operation, need.kind)
    index = authorizer.index

    def judged(services: Services, request: Request) -> Steps | None:
        name = _first_string(request)
        if name is None:
            request.check()  # raises
            return None
        if not may(authorizer, request, need, name):
            deny(request, error_of(need))
            return None
        if name:
            permitted(authorizer, request.connection, of).keep(name.encode())
        return inner(services, request)

    def handle(services: Services, request: Request) -> Steps | None:
        buffer, at = request.buffer, request.position
        raw = b""
        try:
            if not request.route.flexible:
                raw = buffer[at + 2 : at + 2 + (buffer[at] << 8 | buffer[at + 1])]
            elif (size := buffer[at]) < _TWO_BYTES:
                raw = buffer[at + 1 : at + size]
        except IndexError:
            return judged(services, request)
        connection = request.connection
        known = connection.permitted
        if (
            known is not None
            and known.epoch == index.epoch
            and known.principal is connection.principal
            and raw in known.names.get(of, ())
            and raw
        ):
            return inner(services, request)
        return judged(services, request)

    return handle


def _first_string(request: Request) -> str | None:
    """The string with which a request begins; None where that is not whole."""
    read = read_compact_string if request.route.flexible else read_string
    try:
        return read(request.buffer, request.position)[0]
    except (ProtocolError, IndexError, UnicodeDecodeError, struct.error):
        return None
