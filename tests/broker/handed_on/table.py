"""The table of misuse cases. It combines each kind of state that the broker stores for later
requests with each misuse."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from tests.broker.handed_on.scene import Scene


class Kind(StrEnum):
    """The kinds of state that the broker stores for later requests."""

    FETCH_SESSION = "fetch session"
    SASL_CONVERSATION = "SASL conversation"
    DELEGATION_TOKEN = "delegation token"
    PRODUCER_ID = "producer id"
    TRANSACTION = "transaction"
    MEMBER_ID = "member id"
    LIVE_STREAM = "live HTTP stream"


class Misuse(StrEnum):
    """The ways in which a request can misuse a state that another request has created."""

    BY_ANOTHER = "made by one principal, used by another"
    IN_ANOTHER_ROLE = "made in one role, used in another"
    AFTER_REVOCATION = "made before a right was revoked, used afterwards"


class Case(NamedTuple):
    """A test case: an attempt to misuse one kind of stored state in one way. ``run`` fails if the
    attempt succeeds."""

    kind: Kind
    misuse: Misuse
    run: Callable[[Scene], None]

    @property
    def name(self) -> str:
        """The name of the function ``run``. It is part of the test id."""
        return self.run.__name__


CASES: list[Case] = []


def case(
    kind: Kind, misuse: Misuse
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Returns a decorator that adds the decorated function to the test cases in CASES."""

    def put(run: Callable[[Scene], None]) -> Callable[[Scene], None]:
        CASES.append(Case(kind, misuse, run))
        return run

    return put
