"""Tests that the worked examples in docs/internals/protocol.md match the decoder and the
encoder."""

from __future__ import annotations

import re
from pathlib import Path

from protocol.framing import Framer
from protocol.generated import offset_fetch
from protocol.headers import decode_request_header, decode_response_header, encode_request_header
from protocol.messages import BY_NAME

PAGE = (Path(__file__).parent.parent.parent / "docs" / "internals" / "protocol.md").read_text()


def examples() -> list[bytes]:
    blocks = re.findall("```hex\n(.*?)```", PAGE, re.DOTALL)
    return [bytes.fromhex(re.sub("#.*", "", block)) for block in blocks]


def test_request_example_on_the_protocol_page_is_decoded_and_encoded() -> None:
    (frame,) = Framer(1000).feed(examples()[0])
    header = decode_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (9, 6, 7)
    assert header.client_id == "app"
    api = BY_NAME["OffsetFetch"]
    value = api.decode_request(6, frame, header.position)
    assert value["group_id"] == "orders"
    assert value["topics"] == [{"name": "paid", "partition_indexes": [0, 2]}]
    assert encode_request_header(9, 6, 7, "app") + api.encode_request(6, value) == frame
    assert offset_fetch.DECODE_REQUEST[6](frame, header.position) == (
        [("orders", None, -1, [("paid", (0, 2))])],
        False,
    )


def test_response_example_on_the_protocol_page_is_encoded_and_decoded() -> None:
    paid = ("paid", (0, 2), (41, -1), (3, -1), None, 0)
    frame = offset_fetch.ENCODE_RESPONSE[6](7, 0, [("orders", 0, [paid])])
    assert frame == examples()[1]
    correlation_id, position = decode_response_header(9, 6, frame[4:])
    assert correlation_id == 7
    (topic,) = BY_NAME["OffsetFetch"].decode_response(6, frame[4:], position)["topics"]
    assert [part["committed_offset"] for part in topic["partitions"]] == [41, -1]


def test_every_module_that_the_protocol_page_names_exists() -> None:
    protocol = Path(__file__).parent.parent.parent / "protocol"
    table = PAGE.split("## A table")[0]
    named = re.findall(r"`(\w+(?:\.py|/))`", table)
    assert len(named) > 10
    for name in named:
        if name != "protocol/":
            assert (protocol / name).exists(), name
