"""Tests that checksums equal those of an independent implementation, and that varints have exact
bytes and a bounded length."""

from __future__ import annotations

import subprocess
import sys

import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records import varint
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32, crc32c, fallback_crc32c

CHECK_INPUT = b"123456789"  # every CRC catalogue gives the checksum of these nine bytes


def test_crc32c_returns_the_check_value_of_the_crc_catalogue() -> None:
    assert crc32c(CHECK_INPUT) == 0xE3069283


def test_crc32_returns_the_check_value_of_the_crc_catalogue() -> None:
    assert crc32(CHECK_INPUT) == 0xCBF43926


@given(st.binary(max_size=300))
def test_crc32_and_crc32c_equal_the_checksums_of_crcmod(data: bytes) -> None:
    assert crc32c(data) == crcmod.predefined.mkPredefinedCrcFun("crc-32c")(data)
    assert crc32(data) == crcmod.predefined.mkPredefinedCrcFun("crc-32")(data)


def test_checksum_module_imports_only_the_c_extension_of_the_crc_package() -> None:
    program = (
        "import sys; from protocol.records.crc import crc32c; "
        "print(type(crc32c).__name__, {'crc32c', 'crcmod', 'email', 'zipfile'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "builtin_function_or_method set()\n"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_checksum_without_the_c_extension_accepts_any_buffer_type(kind: type) -> None:
    assert fallback_crc32c()(kind(CHECK_INPUT)) == 0xE3069283
    assert crc32c(kind(CHECK_INPUT)) == 0xE3069283


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_zigzag_varint_has_the_same_bytes_as_in_kafka(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint.encode_varint(value) == data
    assert varint.read_varint(data, 0) == (value, len(data))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varlong_is_read_from_any_position_in_a_buffer(value: int, before: bytes) -> None:
    encoded = varint.encode_varint(value)
    buffer = before + encoded + b"\xff"
    assert varint.read_varlong(buffer, len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize(
    "encoded", ["", "80", "ffffffff", "808080808000", "ffffffff1f"],
    ids=["nothing", "cut", "cut later", "six bytes", "33 bits"],
)  # fmt: skip
def test_malformed_varint_is_refused(encoded: str) -> None:
    with pytest.raises(CorruptRecords):
        varint.read_varint(bytes.fromhex(encoded), 0)


def test_varlong_above_64_bits_is_refused() -> None:
    with pytest.raises(CorruptRecords):
        varint.read_varlong(b"\xff" * 9 + b"\x02", 0)
    assert varint.read_varlong(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)
