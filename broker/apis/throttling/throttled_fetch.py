"""Applies quotas to a Fetch response: a response that exceeds a quota is replaced by an empty
response.

The records of a replaced response do not count against the quota. The client fetches the same
records after the throttle time, and its session is unchanged, as if the response had no records.
Brokers have no quota: the handler exempts a request after it has authorized the sender as a broker
(`Request.exempt`).

A single batch can be so large that no response with it is ever within the quota. Such a response is
sent in full once the client is within its quota, and the client is throttled afterwards. In Kafka
the client would wait forever.

Source: Kafka 3.9 ``KafkaApis.handleFetchRequest``, ``FetchSession.getThrottledResponse``; KIP-219.
"""

from __future__ import annotations

import struct

from broker.apis.fetch.sessions import FetchSessions
from broker.apis.throttling.measures import Measures
from broker.apis.throttling.throttle_field import head_of, header_bytes, size_of
from broker.net.request import Body, Request
from broker.quotas.client_quotas import Kind, Share
from protocol.messages.fetch import API

_ERROR_AND_SESSION = struct.Struct(">hi")
_SESSION = struct.Struct(">ii")
_FIRST_WITH_SESSIONS = 7
_FIRST_WITHOUT_REPLICA = 15
_NO_SESSION = 0


def bounded(
    request: Request,
    measures: Measures,
    share: Share | None,
    frame: Body,
    waits: list[tuple[int, Kind]],
) -> Body:
    """Counts a response against the quota, appends its throttle time to ``waits``, and returns the
    response to send."""
    version, now_ms = request.api_version, measures.now_ms()
    size = 4 + size_of(frame) - header_bytes(API.key, version)  # as Kafka counts it
    if share is not None:
        was_within = size > share.at_once and share.is_within(now_ms)
        waits.append((share.use(size, now_ms), Kind.FETCH))
        if was_within:
            return frame
    if max(waits)[0] <= 0:
        return frame
    if share is not None:
        share.take_back(size, now_ms)
    return _emptied(request, frame, measures.fetch_sessions)


def _fields_at(request: Request) -> int:
    """Returns the position in the request of the fields max_wait_ms, min_bytes and max_bytes, which
    follow each other."""
    return request.position + (4 if request.api_version < _FIRST_WITHOUT_REPLICA else 0)


def _emptied(request: Request, frame: Body, sessions: FetchSessions) -> Body:
    """Returns an empty response in place of ``frame``. If ``frame`` has a top-level error, returns
    ``frame`` itself."""
    version = request.api_version
    if version < _FIRST_WITH_SESSIONS:
        return request.frame({"responses": []})
    place = header_bytes(API.key, version) + 4  # after the throttle time
    error_code, session_id = _ERROR_AND_SESSION.unpack_from(head_of(frame), place)
    if error_code:
        return frame
    # After the three numbers and the isolation level.
    _, epoch = _SESSION.unpack_from(request.buffer, _fields_at(request) + 13)
    session = sessions.get(session_id)
    if session is not None and epoch <= 0:
        sessions.close(session_id, session.owner)  # this request has opened the session
        session_id = _NO_SESSION
    elif session is not None:
        session.response_was_dropped()
    return request.frame({"session_id": session_id, "responses": []})
