"""What the guard knows to be allowed on a connection, so that it asks the authorizer once.

Names are kept as requests have them: text, bytes or ids. So a request whose names are all known is
handled after one look into a set, and the authorizer, which knows denials too, is not asked.
"""

from __future__ import annotations

from typing import Any

from security.principal import Principal

NAME_KEPT_MAX = 256
"""The characters or bytes of a name that is kept with a connection: an id of a group may have
32,767, and is judged anew each time."""


class Permitted:
    """What a connection's principal was allowed, at one epoch of the authorizer."""

    __slots__ = ("epoch", "names", "principal")

    def __init__(self, epoch: int, principal: Principal) -> None:
        self.epoch = epoch
        self.principal = principal
        self.names: dict[int, set[Any]] = {}
        """By the right: a number for an operation on a type of resource."""
