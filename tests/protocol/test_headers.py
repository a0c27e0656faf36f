"""Tests that request and response headers are encoded and decoded in every version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import api_keys
from protocol.errors import ProtocolError
from protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)
from tests.protocol.message_values import ALL, BY_NAME


@pytest.mark.parametrize(
    ("frame", "header"),
    [
        (b"\0\x0c\0\0\0\0\0\7\0\2meBODY", RequestHeader(12, 0, 7, "me", 12)),
        (b"\0\x0c\0\0\0\0\0\7\xff\xffBODY", RequestHeader(12, 0, 7, None, 10)),
        (b"\0\x0c\0\0\xff\xff\xff\xff\0\0BODY", RequestHeader(12, 0, -1, "", 10)),
        (b"\0\x0c\0\4\0\0\0\7\0\2me\0BODY", RequestHeader(12, 4, 7, "me", 13)),
        (b"\0\x0c\0\4\0\0\0\7\0\2me\1\5\3abcBODY", RequestHeader(12, 4, 7, "me", 18)),
        (b"\0\7\0\0\0\0\0\7BODY", RequestHeader(7, 0, 7, None, 8)),
        (
            b"\0\x0c\0\4\0\0\0\7\0\2me\x64" + b"".join(bytes([n, 0]) for n in range(100)) + b"BODY",
            RequestHeader(12, 4, 7, "me", 213),
        ),
        (b"\0\7\0\1\0\0\0\7\0\2meBODY", RequestHeader(7, 1, 7, "me", 12)),
        # The decoder reads newer versions as the newest known one, and unknown API keys as header
        # version 1.
        (b"\0\x12\0\x63\0\0\0\7\0\2me\0BODY", RequestHeader(18, 99, 7, "me", 13)),
        (b"\x03\xe7\0\0\0\0\0\7\0\2meBODY", RequestHeader(999, 0, 7, "me", 12)),
    ],
)
def test_request_header_is_read_and_written(frame: bytes, header: RequestHeader) -> None:
    assert decode_request_header(frame) == header
    assert frame[header.position :] == b"BODY"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "ends within its header"),
        (b"\0\x0c\0\0\0\0\0", "ends within its header"),
        (b"\0\x0c\0\0\0\0\0\7\0", "ends within its header"),
        (b"\0\x0c\0\0\0\0\0\7\0\3me", "a string has a length of 3 bytes, but 2 are left"),
        (b"\0\x0c\0\0\0\0\0\7\xff\xfe", "string of -2 bytes"),
        (b"\0\x0c\0\0\0\0\0\7\0\1\xff", "not UTF-8"),
        (b"\0\x0c\0\4\0\0\0\7\0\2me", "ends within its header"),
        (b"\0\x0c\0\4\0\0\0\7\0\2me\1\5\4abc", "tag 5 has 4 bytes"),
        (b"\0\x0c\0\4\0\0\0\7\0\2me\2\5\0\5\0", "tag 5 follows tag 5: tags must ascend"),
        (
            b"\0\x0c\0\4\0\0\0\7\0\2me\x63\5\0",
            "99 tagged fields are stated, but only 2 bytes are left",
        ),
        (
            b"\0\x0c\0\4\0\0\0\7\0\2me\x65" + b"".join(bytes([n, 0]) for n in range(101)),
            "101 tagged fields exceed the limit of 100",
        ),
    ],
)
def test_malformed_header_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_request_header(frame)


@given(
    message=st.sampled_from(ALL),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=20).filter(lambda text: text.isprintable()),
)
def test_encoded_header_is_decoded_to_the_same_fields(
    message: tuple[str, int, bool], correlation_id: int, client_id: str | None
) -> None:
    name, version, _ = message
    key = BY_NAME[name].key
    frame = encode_request_header(key, version, correlation_id, client_id)
    said = None if (key, version) == (api_keys.CONTROLLED_SHUTDOWN, 0) else client_id
    assert decode_request_header(frame + b"BODY") == (
        key, version, correlation_id, said, len(frame)
    )  # fmt: skip
    answer = response_header(key, version, correlation_id)
    assert decode_response_header(key, version, answer + b"BODY") == (correlation_id, len(answer))


@given(st.binary(max_size=40))
def test_random_bytes_are_decoded_as_a_header_or_raise_protocol_error(junk: bytes) -> None:
    try:
        header = decode_request_header(junk)
    except ProtocolError:
        return
    assert 8 <= header.position <= len(junk)


def test_header_of_an_api_versions_response_has_no_tagged_fields() -> None:
    assert response_header(api_keys.API_VERSIONS, 4, 7) == b"\0\0\0\7"
    assert response_header(api_keys.HEARTBEAT, 4, 7) == b"\0\0\0\7\0"
    assert response_header(api_keys.HEARTBEAT, 3, 7) == b"\0\0\0\7"
