"""Tests that the elements of a request are counted and limited before the decoder creates
objects."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.elements import TooManyElements
from protocol.errors import ProtocolError
from protocol.messages import BY_NAME
from protocol.messages.describe_groups import API as DESCRIBE_GROUPS
from tests.protocol.message_values import ALL, fields_of, mutations, struct_value

requests = st.sampled_from([(name, version) for name, version, is_request in ALL if is_request])


def entries(value: Any) -> int:
    """Returns the total number of elements in all arrays of a decoded value."""
    if isinstance(value, dict):
        return sum(map(entries, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(entries, value))
    return 0


@given(request=requests, seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_element_count_covers_all_arrays_and_tagged_fields(
    request: tuple[str, int], seed: int
) -> None:
    name, version = request
    api = BY_NAME[name]
    value = struct_value(fields_of(api, True), version, random.Random(seed))
    data = b"header" + api.encode_request(version, value)
    there = entries(api.decode_request(version, data, 6))
    counted = api.count_elements(version, data, 6, 1 << 30)
    assert there <= counted
    if not api.is_flexible(version):
        assert there == counted
    assert api.count_elements(version, data, 6, counted) == counted
    if counted:
        with pytest.raises(TooManyElements, match=f"more than {counted - 1} elements"):
            api.count_elements(version, data, 6, counted - 1)


@given(request=requests, seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_function_count_elements_counts_each_decoded_element_of_a_mutated_request(
    request: tuple[str, int], seed: int
) -> None:
    name, version = request
    api = BY_NAME[name]
    chance = random.Random(seed)
    data = api.encode_request(version, struct_value(fields_of(api, True), version, chance))
    for wrong in mutations(data, chance, 20):
        try:
            value = api.decode_request(version, wrong)
        except ProtocolError:
            value = {}
        try:
            counted = api.count_elements(version, wrong, 0, 1 << 30)
        except ProtocolError:
            assert value == {}, "what can be decoded can be counted"
        else:
            assert entries(value) <= counted


def test_element_count_above_the_limit_allocates_no_memory() -> None:
    data = DESCRIBE_GROUPS.encode_request(
        6, {"groups": [""] * 500_000, "include_authorized_operations": False}
    )
    DESCRIBE_GROUPS.count_elements(6, data, 0, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(TooManyElements):
            DESCRIBE_GROUPS.count_elements(6, data, 0, 20_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()
