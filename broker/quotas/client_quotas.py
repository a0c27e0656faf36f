"""Client quotas: the quota of each client, its usage, and the throttle time (KIP-13, KIP-124,
KIP-599).

All clients and connections that a quota covers share it. For example, one bucket counts the usage
of all clients of a user. Usage without a quota is not counted. A broker without quotas never calls
this module: see `watch`.

Source: Kafka 3.9 ``ClientQuotaManager``, ``ClientRequestQuotaManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Final, TypeVar

from broker.config.config import Config
from broker.time import Time
from protocol.slotted import slotted
from security.quotas.entities import (
    ABSENT,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    quota_of,
    quota_of_address,
)
from security.quotas.sampled_rate import ClientRate
from security.quotas.token_bucket import TokenBucket

KEPT_MAX: Final = 10_000
"""The maximum number of token buckets, and of clients whose quotas are cached. A limit is
necessary, since clients choose their ids."""
NAME_KEPT_MAX: Final = 256
"""The maximum number of characters of a user name or client id in a key; a client id may have
32,767 characters."""
UNUSED_MS: Final = 3_600_000
"""The number of milliseconds without use after which a bucket is removed, as in Kafka."""
LOGGED_USERS_MAX: Final = 100
"""The maximum number of users that throttling metrics count by name; all other users are counted
together."""
OTHERS: Final = "(others)"
WAIT_MS_MAX: Final = (1 << 31) - 1
"""The largest throttle time in milliseconds that fits into a response (int32)."""

Values = Mapping[str, float]
"""The quotas of one entity by quota key, in bytes per second, percent, or mutations per second."""
Place = TypeVar("Place")
AnyBucket = TypeVar("AnyBucket", "Bucket", "MutationBucket")


class Kind(StrEnum):
    """The type of a quota; the enum values are the names in metrics."""

    PRODUCE = "produce"
    FETCH = "fetch"
    REQUEST = "request"
    MUTATION = "controller_mutation"
    CONNECTION = "connection"


KEYS: Final = {
    Kind.PRODUCE: PRODUCER_BYTE_RATE,
    Kind.FETCH: CONSUMER_BYTE_RATE,
    Kind.REQUEST: REQUEST_PERCENTAGE,
    Kind.MUTATION: CONTROLLER_MUTATION_RATE,
}


@slotted(eq=False)
class Bucket:
    """Counts the usage of all clients that share one quota."""

    rate: ClientRate
    used_ms: int


@slotted(eq=False)
class MutationBucket:
    """The token bucket that counts the topic changes of all clients that share one quota."""

    tokens: TokenBucket
    used_ms: int


class Share:
    """The quota that covers one client, with the bucket that counts the usage."""

    __slots__ = ("allowed", "bucket", "wait_ms_max", "windows_ms")

    def __init__(self, allowed: float, bucket: Bucket, windows_ms: int, wait_ms_max: int) -> None:
        self.allowed = allowed
        self.bucket = bucket
        self.windows_ms = windows_ms
        self.wait_ms_max = wait_ms_max

    @property
    def at_once(self) -> int:
        """The amount that a client may use at once after it was idle: the quota for the time of all
        quota windows except one."""
        return int(min(self.allowed * self.windows_ms / 1000, WAIT_MS_MAX))

    def is_within(self, now_ms: int) -> bool:
        """Returns True if the usage so far does not exceed the quota."""
        return self.bucket.rate.wait_ms(self.allowed, now_ms) == 0

    def use(self, amount: float, now_ms: int) -> int:
        """Records usage. Returns the throttle time in milliseconds."""
        bucket = self.bucket
        bucket.used_ms = now_ms
        bucket.rate.record(amount, now_ms)
        return min(bucket.rate.wait_ms(self.allowed, now_ms), self.wait_ms_max)

    def take_back(self, amount: float, now_ms: int) -> None:
        """Subtracts usage that was recorded in advance but did not happen, for example bytes that
        were then not sent."""
        self.bucket.rate.take_back(amount, now_ms)


class MutationShare:
    """The quota that limits the topic changes of one client, with the bucket that counts these
    changes."""

    __slots__ = ("allowed", "bucket")

    def __init__(self, allowed: float, bucket: MutationBucket) -> None:
        self.allowed = allowed
        self.bucket = bucket


@slotted(eq=False)
class Shares:
    """The quotas that limit a client id of a user, by type of quota. A field is None if no quota of
    its type exists."""

    produce: Share | None = None
    fetch: Share | None = None
    request: Share | None = None
    mutation: MutationShare | None = None

    def allowed(self, kind: Kind) -> float | None:
        """Returns the limit of the quota of type ``kind``, in the unit of that type; None without a
        quota."""
        share: Share | MutationShare | None = None
        if kind is Kind.PRODUCE:
            share = self.produce
        elif kind is Kind.FETCH:
            share = self.fetch
        elif kind is Kind.REQUEST:
            share = self.request
        elif kind is Kind.MUTATION:
            share = self.mutation
        return None if share is None else share.allowed


@slotted(eq=False)
class Throttled:
    """The number of throttled responses, and the sum of their throttle times in ms."""

    times: int = 0
    ms: int = 0

    def add(self, wait_ms: int) -> None:
        self.times += 1
        self.ms += wait_ms


class ClientQuotas:
    """The client quotas of one broker; only the event loop's thread may use this class."""

    def __init__(self, config: Config, time: Time) -> None:
        self.time = time
        self.values: dict[Entity, Values] = {}
        self.throttled = {kind: Throttled() for kind in Kind}
        self.throttled_users = {OTHERS: Throttled()}
        """The counters of throttled responses: one for each of up to `LOGGED_USERS_MAX` users, and
        one for all other users."""
        self._windows = config["quota.window.num"]
        self._window_ms = config["quota.window.size.seconds"] * 1000
        self._mutation_windows = config["controller.quota.window.num"]
        self._mutation_window_ms = config["controller.quota.window.size.seconds"] * 1000
        self._shares: dict[tuple[str, str], Shares] = {}
        self._buckets: dict[tuple[Kind, str, str], Bucket] = {}
        """The buckets. The key has the type of quota, and the user and client id of the quota's
        entity."""
        self._mutations: dict[tuple[str, str], MutationBucket] = {}
        self._watching: list[Callable[[], object]] = []

    def watch(self, changed: Callable[[], object]) -> None:
        """Calls ``changed`` immediately, and again after each change of quotas."""
        self._watching.append(changed)
        changed()

    @property
    def bound_clients(self) -> bool:
        """Returns True if any quota for users or clients is configured."""
        return any(entity.ip == ABSENT and values for entity, values in self.values.items())

    @property
    def bound_addresses(self) -> bool:
        """Returns True if any quota for addresses is configured."""
        return any(entity.ip != ABSENT and values for entity, values in self.values.items())

    # -- configuration

    def change(self, changed: Mapping[Entity, Values]) -> None:
        """Replaces the quotas of the entities in ``changed``. Empty values remove the quotas of an
        entity."""
        for entity, values in changed.items():
            if values:
                self.values[entity] = dict(values)
            else:
                self.values.pop(entity, None)
        self._shares.clear()
        for notify in self._watching:
            notify()

    # -- lookups

    def shares_of(self, user: str, client_id: str) -> Shares:
        place = user, client_id
        if len(client_id) > NAME_KEPT_MAX or len(user) > NAME_KEPT_MAX:
            place = _kept(user, client_id)
        shares = self._shares.get(place)
        if shares is None:
            if len(self._shares) >= KEPT_MAX:
                self._shares.clear()
            shares = self._shares[place] = self._found(user, client_id)
        return shares

    def share_of_address(self, address: str) -> Share | None:
        """Returns the quota of new connections from an address; None if the address has no
        quota."""
        allowed = quota_of_address(self.values, address)
        if allowed is None:
            return None
        now_ms = self.time.now().mono_ms
        self._make_room(now_ms)
        return self._share_in((Kind.CONNECTION, address, ""), allowed, now_ms)

    def count(self, kind: Kind, wait_ms: int, user: str | None = None) -> None:
        """Counts a throttled response; ``user`` is the principal of a client that has logged in."""
        self.throttled[kind].add(wait_ms)
        if user is None:
            return
        users = self.throttled_users
        if user not in users and len(users) > LOGGED_USERS_MAX:
            user = OTHERS
        users.setdefault(user, Throttled()).add(wait_ms)

    def _found(self, user: str, client_id: str) -> Shares:
        shares = Shares()
        now_ms = self.time.now().mono_ms
        self._make_room(now_ms)
        shares.produce = self._share(Kind.PRODUCE, user, client_id, now_ms)
        shares.fetch = self._share(Kind.FETCH, user, client_id, now_ms)
        shares.request = self._share(Kind.REQUEST, user, client_id, now_ms)
        found = quota_of(self.values, CONTROLLER_MUTATION_RATE, user, client_id)
        if found is not None:
            shared_by = _kept(*found.shared_by)
            bucket = self._mutations.get(shared_by)
            if bucket is None:
                tokens = TokenBucket(
                    self._mutation_windows, self._mutation_window_ms, found.value, now_ms
                )
                bucket = self._mutations[shared_by] = MutationBucket(tokens, now_ms)
            else:
                bucket.tokens.configure(found.value, now_ms)
            shares.mutation = MutationShare(found.value, bucket)
        return shares

    def _make_room(self, now_ms: int) -> None:
        """Removes unused buckets. If it has removed a bucket, it also drops all cached shares.

        A client with a cached share of the removed bucket would otherwise continue to use it, while
        new clients of the same quota get a new bucket. This method must be called before a lookup
        of a share, never between the lookup and the use of the share.
        """
        dropped = _drop_unused(self._buckets, now_ms)
        if _drop_unused(self._mutations, now_ms) or dropped:
            self._shares.clear()

    def _share(self, kind: Kind, user: str, client_id: str, now_ms: int) -> Share | None:
        found = quota_of(self.values, KEYS[kind], user, client_id)
        if found is None:
            return None
        return self._share_in((kind, *_kept(*found.shared_by)), found.value, now_ms)

    def _share_in(self, place: tuple[Kind, str, str], allowed: float, now_ms: int) -> Share:
        bucket = self._buckets.get(place)
        if bucket is None:
            bucket = Bucket(ClientRate(self._windows, self._window_ms), now_ms)
            self._buckets[place] = bucket
        is_bytes = place[0] in (Kind.PRODUCE, Kind.FETCH)
        wait_ms_max = WAIT_MS_MAX if is_bytes else self._window_ms
        windows_ms = (self._windows - 1) * self._window_ms
        return Share(allowed, bucket, windows_ms, wait_ms_max)


def _kept(user: str, client_id: str) -> tuple[str, str]:
    """Returns the user name and client id for a key. A long name is truncated and followed by its
    digest, so that keys are unique."""
    return _name_kept(user), _name_kept(client_id)


def _name_kept(name: str) -> str:
    if len(name) <= NAME_KEPT_MAX:
        return name
    return f"{name[:NAME_KEPT_MAX]} {sha256(name.encode()).hexdigest()}"


def _drop_unused(buckets: dict[Place, AnyBucket], now_ms: int) -> bool:
    """Removes buckets if there are `KEPT_MAX` or more: all buckets that were unused for
    `UNUSED_MS`, and at least the half that has been unused for the longest time. Returns True if
    buckets were removed."""
    if len(buckets) < KEPT_MAX:
        return False
    by_use: Iterable[Place] = sorted(buckets, key=lambda place: buckets[place].used_ms)
    at_least = KEPT_MAX // 2
    for number, place in enumerate(by_use):
        if number >= at_least and now_ms - buckets[place].used_ms < UNUSED_MS:
            break
        del buckets[place]
    return True
