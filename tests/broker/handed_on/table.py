"""The table of cases: every kind of state that a request leaves, with every misuse of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from tests.broker.handed_on.scene import Scene


class Kind(StrEnum):
    """The state that a request leaves."""

    FETCH_SESSION = "fetch session"
    SASL_CONVERSATION = "SASL conversation"
    DELEGATION_TOKEN = "delegation token"
    PRODUCER_ID = "producer id"
    TRANSACTION = "transaction"
    MEMBER_ID = "member id"
    LIVE_STREAM = "live HTTP stream"


class Misuse(StrEnum):
    """The way in which the state is misused."""

    BY_ANOTHER = "made by one principal, used by another"
    IN_ANOTHER_ROLE = "made in one role, used in another"
    AFTER_REVOCATION = "made before a right was revoked, used afterwards"


class Case(NamedTuple):
    """The case of one cell; ``run`` fails when the misuse succeeds."""

    kind: Kind
    misuse: Misuse
    run: Callable[[Scene], None]

    @property
    def name(self) -> str:
        """The name in the test's id."""
        return self.run.__name__


CASES: list[Case] = []


def case(
    kind: Kind, misuse: Misuse
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Adds a function to the table."""

    def put(run: Callable[[Scene], None]) -> Callable[[Scene], None]:
        CASES.append(Case(kind, misuse, run))
        return run

    return put
