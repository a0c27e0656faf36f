"""Tests of the compiled codecs: they return the same results as the Python codecs, call the Python
codecs for unusual data, and leak no memory."""

from __future__ import annotations

import importlib
import random
import re
import resource
import subprocess
import sys
import tracemalloc
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.offset_records import plain_offsets
from offsets.runs import OffsetRun
from protocol import compiled, generated
from protocol.errors import ProtocolError
from protocol.generated import heartbeat, offset_commit
from tests.brokers import CHECKOUT
from tests.offsets.strategies import int32, int64, names
from tests.protocol.claims import array_paths, claimed
from tests.protocol.codecs_both_ways import alone, built, in_python
from tests.protocol.message_values import mutations, struct_value
from tools import make_fast

COMPILED = [importlib.import_module(f"protocol.generated.{name}") for name in compiled.COMPILED]
CASES = [(module, version) for module in COMPILED for version in module.API.versions]
GROUP = "checkout"
TOPIC = "orders"


def name_case(case: object) -> str:
    return case.API.name if isinstance(case, ModuleType) else f"v{case}"


def decode(module: ModuleType, version: int, data: bytes) -> tuple[Any, Any]:
    """Decodes a request with the Python codec and with the compiled codec. A result is None if the
    codec refuses the data."""
    decoder = alone("decode", module, version)
    assert decoder is not None
    try:
        python = in_python(module.DECODE_REQUEST[version])(data, 0)
    except ProtocolError:
        python = None
    return python, decoder(data, 0)


@pytest.mark.parametrize(("module", "version"), CASES, ids=name_case)
def test_compiled_decoder_returns_the_result_of_the_python_decoder_or_none(
    module: ModuleType, version: int
) -> None:
    chance = random.Random(version)
    usual = 0
    for _ in range(20):
        value = struct_value(module.API.request, version, chance)
        data = module.API.encode_request(version, value)
        python, alone_ = decode(module, version, data)
        assert alone_ in (python, None)
        usual += alone_ is not None
        for wrong in mutations(data, chance, 20):
            python, alone_ = decode(module, version, wrong)
            assert alone_ is None or repr(alone_) == repr(python)
    # Random requests of flexible versions nearly always have tagged fields.
    assert usual == 20 or module.API.is_flexible(version)


@pytest.mark.campaign
@pytest.mark.parametrize(("module", "version"), CASES, ids=name_case)
@given(data=st.binary(max_size=300))
def test_compiled_decoder_survives_random_bytes(
    module: ModuleType, version: int, data: bytes
) -> None:
    python, alone_ = decode(module, version, data)
    assert alone_ is None or repr(alone_) == repr(python)


@pytest.mark.parametrize(("module", "version"), CASES, ids=name_case)
def test_compiled_decoder_allocates_no_memory_for_a_wrong_element_count(
    module: ModuleType, version: int
) -> None:
    codec = module.API.message(version, is_request=True)
    decoder = alone("decode", module, version)
    assert decoder is not None
    for path in array_paths(tuple(module.API.request), version):
        flexible = module.API.is_flexible(version)
        data = claimed(codec, module.API.request, version, path, flexible)
        tracemalloc.start()
        assert decoder(data, 0) is None, path
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4096, path


def test_compiled_codec_passes_unusual_arguments_to_the_python_codec() -> None:
    calls: list[tuple[Any, ...]] = []

    def python(*arguments: Any) -> str:
        calls.append(arguments)
        return "by Python"

    decoder = built().codec("decode heartbeat 0", python)
    encoder = built().codec("encode heartbeat 0", python)
    unusual = [(b"", 0), (b"\0\1g", 9), (b"\0\1g", -1), (bytearray(9), 0), (b"x",), ()]
    for arguments in unusual:
        assert decoder(*arguments) == "by Python"
    assert encoder(1, 0, "no number") == encoder(1) == encoder(2**40, 0, 0) == "by Python"
    assert calls == [*unusual, (1, 0, "no number"), (1,), (2**40, 0, 0)]


def test_exception_of_the_python_codec_is_raised_by_the_compiled_codec() -> None:
    def python(*_: Any) -> None:
        raise ProtocolError("as Python says")

    with pytest.raises(ProtocolError, match="as Python says"):
        built().codec("decode heartbeat 0", python)(b"", 0)


def test_lookup_of_an_unknown_compiled_codec_returns_none() -> None:
    assert built().codec("decode no_api 0", None) is None
    with pytest.raises(TypeError, match="codec"):
        built().codec("decode heartbeat 0")


counts = st.sampled_from([1, 2, 63, 64, 65, 130])


@given(names, names, counts, int64, st.data())
def test_compiled_encoder_of_offset_records_equals_the_python_encoder(
    group_id: str, topic: str, count: int, timestamp_ms: int, data: st.DataObject
) -> None:
    first_delta = data.draw(st.sampled_from([0, 1, 62, 64, 8190, 8192, 2**20, 2**28]))
    value = data.draw(int32)
    partitions = tuple(range(count)) if value % 2 else [value] * count
    offsets = [data.draw(int64)] * count
    epochs = tuple(value if i % 3 else -1 for i in range(count))
    run = OffsetRun(group_id, topic, partitions, offsets, epochs, None, timestamp_ms)
    records = built().offset_records(
        group_id, topic, partitions, offsets, epochs, timestamp_ms, first_delta
    )
    assert records == plain_offsets(run, first_delta)


@pytest.mark.parametrize(
    "wrong",
    [
        {0: None}, {0: "x" * 40_000}, {0: "\ud800"}, {2: [2**31]}, {2: ["0"]}, {2: None},
        {2: [1, 2]}, {3: [2**63]}, {4: [-(2**31) - 1]}, {5: None}, {6: -1}, {6: 2**31 - 1},
    ],
)  # fmt: skip
def test_compiled_encoder_of_offset_records_returns_none_for_unusual_values(
    wrong: dict[int, Any],
) -> None:
    arguments = [GROUP, TOPIC, [1], [2], [3], 4, 5]
    assert built().offset_records(*arguments) is not None
    for index, value in wrong.items():
        arguments[index] = value
    assert built().offset_records(*arguments) is None


def test_one_million_calls_of_compiled_codecs_leak_no_memory() -> None:
    commit = {
        "group_id": GROUP,
        "topics": [
            {
                "name": TOPIC,
                "partitions": [
                    {"partition_index": i, "committed_offset": 10**12, "committed_metadata": "note"}
                    for i in range(3)
                ],
            }
        ],
    }
    good = offset_commit.API.encode_request(8, commit)
    decoder, encoder = (alone(kind, offset_commit, 8) for kind in ("decode", "encode"))
    beat = alone("decode", heartbeat, 0)
    assert decoder is not None and encoder is not None and beat is not None  # noqa: PT018
    records = built().offset_records
    topics = [(TOPIC, (0, 1, 2), 25)]
    wrong_topics = [(TOPIC, (0, 1, 2), (1, "2", 3))]
    columns = [2**40] * 3
    at_the_last_byte = good[:-1] + b"\1"
    bad_text = good.replace(b"note", b"n\xffte")

    def some(count: int) -> None:
        for _ in range(count // 10):
            decoder(good, 0)
            decoder(at_the_last_byte, 0)
            decoder(good[:-5], 0)
            decoder(bad_text, 0)
            encoder(1, 0, topics)
            encoder(1, 0, wrong_topics)
            records(GROUP, TOPIC, [1, 2, 3], columns, [-1] * 3, 2**50, 0)
            records(GROUP, TOPIC, [1, 2, None], columns, [-1] * 3, 2**50, 0)
            beat(b"\0\1g\0\0\0\1\0\1m", 0)
            beat(b"\0\1g\0\0\0\1\0\2m", 0)

    some(20_000)
    singletons = [None, -1, 0, TOPIC, topics, columns]
    before = [sys.getrefcount(each) for each in singletons]
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(1_000_000)
    after = [sys.getrefcount(each) for each in singletons]
    # One lost reference in each call would be a change by a hundred thousand.
    assert all(abs(a - b) < 1000 for a, b in zip(after, before, strict=True))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 4096


def test_package_and_compiled_module_contain_the_digest_of_the_current_c_sources() -> None:
    assert make_fast.digest() == generated.C_SOURCES == built().SOURCES


@pytest.mark.parametrize(
    ("digest", "switch", "words"),
    [
        ("None", "python", r"python \(MUSTER_CODECS=python\)"),
        ("SOURCES", "python", r"python \(MUSTER_CODECS=python\)"),
        ("SOURCES", "", "compiled"),
        ("'0'", "", r"python \(the compiled codecs are outdated: run make fast\)"),
        ("None", "", "python"),
    ],
)
def test_variable_muster_codecs_and_source_digest_decide_whether_compiled_codecs_are_used(
    digest: str, switch: str, words: str
) -> None:
    program = f"""
import sys, types
from protocol.generated import C_SOURCES as SOURCES
fake = types.ModuleType("protocol._compiled")
fake.SOURCES = {digest}
fake.codec = lambda name, python: None
sys.modules["protocol._compiled"] = fake if fake.SOURCES else None
from protocol import compiled
print(compiled.IN_USE, compiled.MODULE is not None)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT, env={"MUSTER_CODECS": switch}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.fullmatch(rf"{words} {words == 'compiled'}\n", done.stdout)


def test_compiled_module_replaces_only_the_codecs_that_it_contains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = {0: lambda *_: "zero", 99: lambda *_: "no such version"}
    monkeypatch.setattr(compiled, "MODULE", None)
    assert compiled.codecs("decode", "heartbeat", python) is python
    monkeypatch.setattr(compiled, "MODULE", built())
    both = compiled.codecs("decode", "heartbeat", python)
    assert in_python(both[0]) is python[0]
    assert both[0] is not python[0]
    assert both[99] is python[99]
