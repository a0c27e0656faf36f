"""The compiled reader of record keys enters the same keys and offsets as the reader in Python."""

from __future__ import annotations

import random
import resource

import pytest

from log.cleaner import key_reader
from log.cleaner.key_reader import note_keys
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record, encode_section
from tests.log.test_key_reader import BASE, expected, random_records
from tests.protocol.codecs_both_ways import built

Result = tuple[dict[bytes, int], int] | str


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets Python read the sections, if compiled code would read them."""
    monkeypatch.setattr(key_reader, "_compiled_note_keys", None)


def in_c(section: bytes, count: int, base_offset: int = BASE) -> tuple[dict[bytes, int], int]:
    latest: dict[bytes, int] = {}
    return latest, built().note_keys(section, count, base_offset, latest)


def in_python(section: bytes, count: int) -> Result:
    latest: dict[bytes, int] = {}
    try:
        return latest, note_keys(section, count, BASE, latest)
    except CorruptRecords as error:
        return str(error)


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("seed", range(100))
def test_compiled_reader_enters_the_keys_of_random_records_like_python(seed: int) -> None:
    section, count = encode_section(random_records(random.Random(seed)), BASE, 5000)
    assert in_c(section, count) == in_python(section, count)


@pytest.mark.parametrize("keys", [1, 4096, 4097, 9000])
def test_last_offset_of_each_repeated_key_is_entered(keys: int) -> None:
    """With 4,096 keys the table of the compiled reader is full, and many keys find no slot."""
    chance = random.Random(keys)
    values = (None, b"", b"value")
    records = [
        Record(BASE + n, 5000, b"key-%d" % chance.randrange(keys), chance.choice(values))
        for n in range(30_000)
    ]
    section, count = encode_section(records, BASE, 5000)

    latest, key_bytes = in_c(section, count)

    assert latest == expected(records)
    assert key_bytes == sum(len(record.key or b"") for record in records)


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("seed", range(60))
def test_compiled_reader_leaves_damaged_records_to_python(seed: int) -> None:
    chance = random.Random(seed)
    section, count = encode_section(random_records(chance), BASE, 5000)
    for _ in range(40):
        damaged = bytearray(section)
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(len(damaged))
            damaged[at] = chance.choice([0, 1, 2, 0x7F, 0x80, damaged[at] ^ 1, damaged[at] ^ 0x80])
        cut = bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        claimed = count + chance.choice([0, 0, 0, -1, 1])
        latest, key_bytes = in_c(cut, claimed)
        if key_bytes is not None:
            assert (latest, key_bytes) == in_python(cut, claimed)


@pytest.mark.parametrize(
    "arguments",
    [(), (b"", 1, BASE), ("text", 1, BASE, {}), (b"", -1, BASE, {}), (b"", 1, -1, {}),
     (b"", 1 << 31, BASE, {}), (b"", 1, 1 << 63, {}), (b"", 1, BASE, []), (b"", 1, BASE, {})],
)  # fmt: skip
def test_compiled_reader_returns_none_for_arguments_that_it_does_not_support(
    arguments: tuple[object, ...],
) -> None:
    assert built().note_keys(*arguments) is None
    assert built().note_keys(b"", 0, BASE, {}) == 0


def test_compiled_reader_is_used_for_a_plain_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_reader, "_compiled_note_keys", built().note_keys)
    monkeypatch.setattr(key_reader, "read_bits", None)
    records = [Record(BASE + n, 5000, b"k" * 20_000, b"v") for n in range(3)]
    section, count = encode_section(records, BASE, 5000)
    latest: dict[bytes, int] = {}

    assert note_keys(section, count, BASE, latest) == 60_000
    assert latest == expected(records)


def test_compiled_reader_of_keys_leaks_no_memory() -> None:
    records = [Record(BASE + n, 5000, b"key-%d" % n, None) for n in range(100)]
    section, count = encode_section(records, BASE, 5000)

    def work(times: int) -> int:
        for n in range(times):
            assert in_c(section, count)[1] == 590
            assert built().note_keys(section, count + n % 2, BASE, {}) in (590, None)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before_kb = work(200)
    assert work(5000) - before_kb < 1000
