"""Tests of the reader of length-prefixed frames: it accepts any division of the stream and refuses
a wrong length immediately."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.framing import BadFrame, Framer

BODIES = [b"x" * 8, b"y" * 9, bytes(range(200)), b"z" * 5000]


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def test_frames_are_read_from_a_stream_byte_by_byte() -> None:
    framer = Framer(5000)
    out: list[bytes] = []
    for fed, byte in enumerate(framed(*BODIES), 1):
        out += framer.feed(bytes([byte]))
        assert len(framer.partial) == fed - len(framed(*out))
    assert out == BODIES


def test_all_frames_of_one_chunk_are_read() -> None:
    framer = Framer(5000)
    assert framer.feed(framed(*BODIES)) == BODIES
    assert len(framer.partial) == 0
    assert framer.feed(b"") == []


@given(
    bodies=st.lists(st.binary(min_size=8, max_size=60), max_size=12),
    cuts=st.lists(st.integers(0, 800), max_size=12),
)
def test_frames_do_not_depend_on_how_the_stream_is_split(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = framed(*bodies)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    framer = Framer(60)
    out = []
    for start, end in itertools.pairwise(edges):
        out += framer.feed(stream[start:end])
        assert len(framer.partial) <= 64
    assert out == bodies
    assert len(framer.partial) == 0


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (-1, "frame of -1 bytes is shorter than a request header"),
        (-(2**31), "shorter than a request header"),
        (0, "frame of 0 bytes is shorter than a request header"),
        (7, "shorter than a request header"),
        (101, "frame of 101 bytes exceeds the limit of 100"),
        (2**31 - 1, "exceeds the limit"),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_wrong_frame_length_is_refused_before_the_frame_is_complete(
    length: int, reason: str, step: int
) -> None:
    framer = Framer(100)
    stream = struct.pack(">i", length)
    for start in range(0, 4 - step, step):
        assert framer.feed(stream[start : start + step]) == []
    with pytest.raises(BadFrame, match=reason):
        framer.feed(stream[-(-4 // step) * step - step :])


def test_frames_before_a_wrong_frame_length_are_read() -> None:
    framer = Framer(100)
    with pytest.raises(BadFrame) as caught:
        framer.feed(framed(b"a" * 8, b"b" * 8) + b"GET / HTTP/1.1\r\n")
    assert caught.value.frames == [b"a" * 8, b"b" * 8]
    framer = Framer(100)
    assert framer.feed(framed(b"a" * 8)[:6]) == []
    with pytest.raises(BadFrame) as caught:
        framer.feed(framed(b"a" * 8)[6:] + b"\x7f\xff\xff\xff")
    assert caught.value.frames == [b"a" * 8]


def test_frame_memory_grows_with_received_bytes_not_the_claimed_length() -> None:
    framer = Framer(2**31 - 1)
    tracemalloc.start()
    framer.feed(struct.pack(">i", 2**31 - 1))
    for _ in range(100):
        framer.feed(bytes(1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(framer.partial) == 100_004
    assert peak < 300_000


def test_response_frame_of_4_bytes_is_accepted() -> None:
    assert Framer(100, min_bytes=4).feed(framed(b"\0\0\0\1")) == [b"\0\0\0\1"]
