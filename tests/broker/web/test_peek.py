"""One record of a topic over HTTP: the response is decoded and truncated, or the request is refused
with a reason."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.web import peek as peek_module
from broker.web.peek import bytes_view, record_view
from protocol.records import message_set
from protocol.records.batch import ABORT, COMMIT, encode_batch
from protocol.records.find import Found
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record
from tests.broker.openapi import fields
from tests.broker.seen import Seen, seeing

NOON = 1_700_000_000_000
LARGE = 20_000_000


def append(seen: Seen, batches: bytes, partition: int = 0) -> None:
    seen.broker.logs.topics["orders"].partitions[partition].append(batches, NOON)


async def peek(seen: Seen, offset: Any, place: str = "orders/0") -> dict[str, Any]:
    answer = await seen.get(f"/api/topics/{place}/record?offset={offset}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    view: dict[str, Any] = answer.json()
    return view


async def refusal(seen: Seen, query: str) -> tuple[int, str]:
    answer = await seen.get(f"/api/topics/{query}")
    assert set(answer.json()) == {"error"}
    return answer.status_code, answer.json()["error"]


def plant(directory: Path, data: bytes) -> None:
    """Writes a log of orders-0 with the batches ``data``, while the broker is stopped."""
    (file,) = (directory / "orders-0").glob("*.log")
    file.write_bytes(data)
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")


async def test_record_over_http_has_text_json_and_hex(tmp_path: Path) -> None:
    value = b'{"id": 7, "name": "\xc3\x84"}'
    headers = [("trace", b"\x00\xff"), ("none", None)]
    async with seeing(tmp_path) as seen:
        append(seen, encode_batch([Record(0, NOON, b"k-1", value, headers)]))
        view = await peek(seen, 0)
    assert view == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": NOON,
        "key": {"size": 3, "truncated": False, "text": "k-1", "json": None, "hex": b"k-1".hex()},
        "value": {
            "size": len(value),
            "truncated": False,
            "text": value.decode(),
            "json": {"id": 7, "name": "Ä"},
            "hex": value.hex(),
        },
        "headers": [
            {
                "key": "trace",
                "value": {
                    "size": 2, "truncated": False, "text": None, "json": None, "hex": "00ff",
                },
            },
            {"key": "none", "value": None},
        ],
        "more_headers": 0,
        "bytes": 48,
        "transaction": None,
    }  # fmt: skip
    assert (set(view), set(view["value"])) == (fields("Record"), fields("Bytes"))
    assert set(view["headers"][0]) == fields("RecordHeader")


@pytest.mark.parametrize("codec", range(5))
async def test_http_api_decodes_a_tombstone_and_a_record_of_each_compression_codec(
    tmp_path: Path, codec: int
) -> None:
    records = [Record(i, NOON + i, b"k%d" % i, b"v%d" % i) for i in range(20)]
    records.append(Record(20, NOON, b"gone", None))
    async with seeing(tmp_path) as seen:
        append(seen, encode_batch(records, compression=codec))
        for offset in (0, 13, 19):
            view = await peek(seen, offset)
            assert (view["offset"], view["timestamp_ms"]) == (offset, NOON + offset)
            assert (view["key"]["text"], view["value"]["text"]) == (f"k{offset}", f"v{offset}")
        assert (await peek(seen, 20))["value"] is None


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (1, 3)])
async def test_records_of_message_formats_0_and_1_are_decoded(
    tmp_path: Path, magic: int, codec: int
) -> None:
    records = [Record(i, NOON + i, b"k", b"v%d" % i) for i in range(6)]
    async with seeing(tmp_path):
        pass
    plant(tmp_path, message_set.encode(records, magic, codec))
    async with seeing(tmp_path) as seen:
        for offset in range(6):
            view = await peek(seen, offset)
            assert (view["offset"], view["value"]["text"]) == (offset, f"v{offset}")
            assert view["timestamp_ms"] == (NOON + offset if magic else None)
            assert (view["headers"], view["transaction"]) == ([], None)


async def test_http_returns_the_next_record_when_the_offset_has_a_marker_or_no_record(
    tmp_path: Path,
) -> None:
    def marker(kind: int, at: int, producer_id: int) -> bytes:
        return encode_end_transaction(
            kind,
            base_offset=at,
            timestamp=NOON,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
        )

    def sent(at: int, producer_id: int) -> bytes:
        return encode_batch(
            [Record(at, NOON, None, b"v%d" % at)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    async with seeing(tmp_path):
        pass
    plant(
        tmp_path,
        encode_batch([Record(2, NOON, b"k", b"v2"), Record(5, NOON, b"k", b"v5")], base_offset=0)
        + encode_batch([], base_offset=6, last_offset=9)
        + sent(10, 7) + sent(11, 8) + marker(ABORT, 12, 8) + marker(COMMIT, 13, 7)
        + sent(14, 9) + marker(COMMIT, 15, 7),
    )  # fmt: skip
    async with seeing(tmp_path) as seen:
        found = {offset: await peek(seen, offset) for offset in (0, 3, 6, 10, 11, 12, 14)}
        status, sentence = await refusal(seen, "orders/0/record?offset=15")
    assert {offset: view["offset"] for offset, view in found.items()} == {
        0: 2, 3: 5, 6: 10, 10: 10, 11: 11, 12: 14, 14: 14,
    }  # fmt: skip
    became = {view["offset"]: view["transaction"] for view in found.values()}
    assert became == {2: None, 5: None, 10: "committed", 11: "aborted", 14: "open"}
    assert (status, sentence) == (
        404,
        "orders-0 has no records from offset 15 to its end, only transaction markers and batches"
        " that the cleaner emptied",
    )


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("orders/0/record?offset=3", 416, "offset 3 of orders-0 was deleted: the log starts at 4"),
        (
            "orders/0/record?offset=6",
            416,
            "offset 6 of orders-0 does not exist yet: the log ends at 6",
        ),
        (f"orders/0/record?offset={2**63}", 416, f"offset {2**63} of orders-0 does"),
        (f"orders/0/record?offset={'9' * 40}", 400, "offset: write a number from 0"),
        (f"orders/0/record?offset={'9' * 5000}", 400, "offset: write a number from 0"),
        ("orders/0/record?offset=-1", 400, "offset: write a number from 0"),
        ("orders/0/record?offset=", 400, "offset: write a number from 0"),
        ("orders/0/record?offset=%D9%A3", 400, "offset: write a number from 0"),
        ("orders/0/record", 400, "offset: write a number from 0"),
        ("orders/3/record?offset=0", 404, "orders does not have partition 3, only 0 to 2"),
        ("orders/-1/record?offset=0", 404, "orders does not have partition -1, only 0 to 2"),
        ("orders/x/record?offset=0", 404, "orders does not have partition x, only 0 to 2"),
        ("nosuch/0/record?offset=0", 404, "topic nosuch does not exist"),
        ("__consumer_offsets/0/record?offset=0", 403, "topic __consumer_offsets is internal"),
        ("__transaction_state/0/record?offset=0", 403, "topic __transaction_state is internal"),
        ("%5F_consumer_offsets/0/record?offset=0", 403, "topic __consumer_offsets is internal"),
        ("orders/0/records?offset=5", 404, "unknown path /api/topics/orders/0/records: use"),
        ("orders/0", 404, "unknown path /api/topics/orders/0: use"),
        ("orders%2F0%2Frecord?offset=5", 404, "topic orders/0/record does not exist"),
    ],
)
async def test_http_request_for_a_missing_record_is_refused_with_the_reason(
    tmp_path: Path, query: str, status: int, sentence: str
) -> None:
    async with seeing(tmp_path) as seen:
        append(seen, encode_batch([Record(i, NOON, None, b"v") for i in range(6)]))
        seen.broker.logs.topics["orders"].partitions[0].log.delete_records(4)
        got = await refusal(seen, query)
    assert (got[0], got[1][: len(sentence)]) == (status, sentence)


async def test_topic_name_in_the_path_is_percent_decoded(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        append(seen, encode_batch([Record(0, NOON, None, b"v")]))
        assert (await peek(seen, 0, "%6frders/0"))["topic"] == "orders"


async def test_cross_site_http_request_for_a_record_is_refused(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        append(seen, encode_batch([Record(0, NOON, None, b"v")]))
        path = "/api/topics/orders/0/record?offset=0"
        for headers in ({"sec-fetch-site": "cross-site"}, {"host": "evil.example"}):
            answer = await seen.get(path, headers=headers)
            assert answer.status_code in (403, 421)
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("codec", [0, 1])
async def test_damaged_batch_is_reported_and_other_batches_are_readable(
    tmp_path: Path, codec: int
) -> None:
    async with seeing(tmp_path) as seen:
        for offset in range(3):
            record = Record(offset, NOON, None, b"value %d" % offset)
            append(seen, encode_batch([record], compression=codec))
        (file,) = (tmp_path / "orders-0").glob("*.log")
        data = bytearray(file.read_bytes())
        data[len(data) // 2 + 20] ^= 0x10
        with file.open("r+b") as opened:
            opened.write(data)
        for offset in (0, 2):
            assert (await peek(seen, offset))["value"]["text"] == f"value {offset}"
        status, sentence = await refusal(seen, "orders/0/record?offset=1")
    assert status == 422
    assert sentence.startswith("the batch at offset 1 of orders-0 is damaged: ")
    assert "CRC" in sentence


@pytest.mark.parametrize("codec", [0, 1, 4])
async def test_large_record_is_truncated_to_4_kib_in_a_thread(
    tmp_path: Path, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the broker read 20 MB of gzip data on two cores, a timer in its event loop was at most 6
    ms late."""
    value = os.urandom(LARGE // 2) + bytes(LARGE // 2)
    record = Record(0, NOON, b"k" * 5000, value, [("h" * 5000, b"x" * 5000)] * 100)
    threads = set()
    for work in ("_read", "_look"):
        monkeypatch.setattr(peek_module, work, seen_in(threads, getattr(peek_module, work)))
    async with seeing(tmp_path, {"message.max.bytes": 2 * LARGE}) as seen:
        append(seen, encode_batch([record], compression=codec))
        view = await peek(seen, 0)
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert view["value"]["size"] == LARGE
    assert view["value"]["truncated"]
    assert view["value"]["hex"] == value[:4096].hex()
    assert view["key"]["text"] == "k" * 4096
    assert (len(view["headers"]), view["more_headers"]) == (32, 68)
    assert len(view["headers"][0]["key"]) == len(view["headers"][0]["value"]["text"]) == 4096


def seen_in(threads: set[int], work: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return work(*arguments)

    return noted


# ------------------------------------------------------------------------------- forms of bytes


def shown(data: bytes | None) -> dict[str, Any] | None:
    view = bytes_view(data)
    json.dumps(view, allow_nan=False).encode()
    return view


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\tb\r\n", "a\tb\r\n"),
        ("Ä€😀".encode(), "Ä€😀"),
        (b"\xff", None),
        (b"\xc3", None),
        (b"a\x00b", None),
        (b"\x00\x00\x00\x01", None),
        (b"\xed\xa0\x80", None),
    ],
)
def test_record_value_has_text_only_when_printable_utf_8(data: bytes, text: str | None) -> None:
    view = shown(data)
    assert view is not None
    assert (view["text"], view["hex"]) == (text, data.hex())


def test_truncated_record_text_ends_at_a_whole_character() -> None:
    view = shown(b"a" + "€".encode() * 2000)
    assert view is not None
    assert view["text"] == "a" + "€" * 1365
    assert (view["truncated"], view["size"], len(view["hex"])) == (True, 6001, 8192)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, -2.5, true, null]", [1, -2.5, True, None]),
        ('"x"', "x"),
        ("9007199254740991", 2**53 - 1),
        ("9007199254740992", None),
        ("1.1", 1.1),
        ("0.1000000000000000055511151231257827", None),
        ("1e999", None),
        ("NaN", None),
        ("[Infinity]", None),
        ('{"a": 1, "a": 2}', None),
        ("[" * 4000, None),
        ("[" * 2000 + "]" * 2000, None),
        ("9" * 4000, None),
        ("not", None),
    ],
)
def test_json_of_a_record_value_is_parsed_strictly(text: str, value: Any) -> None:
    view = shown(text.encode())
    assert view is not None
    assert view["text"] == text
    assert view["json"] == value


def test_header_name_that_is_not_utf_8_has_replacement_characters() -> None:
    name = memoryview(b"\xff\xfe")
    view = record_view(Found(0, -1, None, None, [(name, None)], 1, 9))
    assert view["headers"] == [{"key": "\ufffd\ufffd", "value": None}]
    json.dumps(view, ensure_ascii=False).encode()
