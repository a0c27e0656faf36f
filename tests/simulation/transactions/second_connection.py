"""The second connection of a producer, which repeats commits around the end of the transaction.

A client repeats a commit when it retries, or when the commit is in flight while the transaction
times out. The broker may add such a commit to the transaction for which the client sent it, or
reject the commit. The broker must never add the commit to the next transaction.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import NAMES as ERROR_NAMES
from protocol.errors import NONE, UNKNOWN_SERVER_ERROR
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.transactions.producer import TransactionalProducer
    from tests.simulation.whole.living import LivingWorld

_US = MS // 1000
_QUICK_NS = (0, 2 * _US, 10 * _US, 50 * _US)
"""Possible pauses in ns before a client repeats a request that should arrive at about the same time
as an EndTxn. They are short, because the broker handles an EndTxn within microseconds."""
_SLOW_NS = (1 * MS, 20 * MS, 300 * MS)
"""Possible pauses in ns between two repetitions of a request, while the transaction of this request
exceeds its timeout of several seconds."""


class SecondConnection(Client):
    """The second connection of a transactional producer."""

    def __init__(
        self, world: LivingWorld, name: str, host: str, chance: Random, of: TransactionalProducer
    ) -> None:
        super().__init__(world, name, host, chance)
        self._of = of
        self._request: WireRequest | None = None
        self._left = 0
        self._pauses_ns = _QUICK_NS

    @property
    def is_busy(self) -> bool:
        """Returns True if a commit on this connection may still arrive at the broker."""
        return bool(self._left or self.sent)

    def repeat(self, request: WireRequest, times: int, *, quickly: bool) -> None:
        """Sends ``request`` a total of ``times`` times, with short pauses if ``quickly`` is set."""
        self._pauses_ns = _QUICK_NS if quickly else _SLOW_NS
        self._request, self._left = request, times
        if not self.sent:
            self.think_after(self.chance.choice(self._pauses_ns))

    def dies(self) -> None:
        """Closes the connection, because the process of the producer has crashed."""
        if self.is_busy:
            self.drop_connection()
            self.think_after(1 * S)

    def act(self) -> None:
        if not self._left or self.calm:
            self._left = 0
            self.think_after(5 * S)
            return
        assert self._request is not None
        at_once = min(self._left, self.chance.choice((1, 1, 3)))
        self._left -= at_once
        for _ in range(at_once):
            self.world.happened["commit beside the end"] += 1
            self.send(self._request)

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.take(sent, sent.answer_in(frame))

    def take(self, sent: Sent, answer: dict[str, Any]) -> int:
        code = _error_of(answer["topics"])
        self.world.happened[f"commit beside the end {ERROR_NAMES[code]}"] += 1
        assert code != UNKNOWN_SERVER_ERROR, f"{self.name}: {sent.request} is answered -1"
        if not self.sent:
            self.think_after(self.chance.choice(self._pauses_ns))
        return code

    def lost(self) -> None:
        self._left = 0
        self._of.lost()


def _error_of(topics: list[dict[str, Any]]) -> int:
    codes = [part["error_code"] for each in topics for part in each["partitions"]]
    return next((code for code in codes if code != NONE), NONE)
