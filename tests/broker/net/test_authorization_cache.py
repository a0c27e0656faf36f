"""The cache of authorized resource names: its limit over all connections, and the eviction of old
names."""

from __future__ import annotations

from broker.net.authorization_cache import (
    NAME_KEPT_MAX,
    AuthorizationCache,
    AuthorizationCacheMemory,
    Names,
)
from security.principal import user

BYTES_MAX = 100_000
NAME_BYTES = 245


def filled(memory: AuthorizationCacheMemory, count: int, stem: str) -> Names:
    """Returns the cache of a new connection, which contains ``count`` authorized names."""
    names = Names(memory)
    for number in range(count):
        names.keep(f"{stem}-{number}".ljust(NAME_BYTES, "x"))
    return names


def test_total_memory_of_authorization_caches_is_bounded() -> None:
    memory = AuthorizationCacheMemory(BYTES_MAX)
    connections = [filled(memory, 50, str(number)) for number in range(40)]
    kept = sum(len(name) for names in connections for name in names)
    assert memory.kept_bytes <= BYTES_MAX
    assert BYTES_MAX / 3 < kept <= BYTES_MAX
    assert [bool(names) for names in connections] == [False] * 35 + [True] * 5


def test_memory_of_one_authorization_cache_is_bounded() -> None:
    memory = AuthorizationCacheMemory(BYTES_MAX)
    names = filled(memory, 10_000, "one")
    assert 0 < sum(map(len, names)) <= BYTES_MAX
    assert memory.kept_bytes <= BYTES_MAX


def test_authorization_cache_counts_a_repeated_name_once_and_omits_long_names() -> None:
    memory = AuthorizationCacheMemory(BYTES_MAX)
    names = Names(memory)
    for _ in range(3):
        names.keep("orders")
        names.keep("x" * (NAME_KEPT_MAX + 1))
    before = memory.kept_bytes
    names.keep("orders")
    assert (set(names), memory.kept_bytes) == ({"orders"}, before)


def test_close_of_a_connection_empties_its_authorization_cache() -> None:
    memory = AuthorizationCacheMemory(BYTES_MAX)
    gone = AuthorizationCache(0, user("alice"))
    gone.names = {1: filled(memory, 10, "a"), 2: filled(memory, 10, "b")}
    others = filled(memory, 10, "c")
    gone.forget()
    gone.forget()
    assert not gone.names[1]
    assert memory.kept_bytes == others.kept_bytes
    assert len(others) == 10
