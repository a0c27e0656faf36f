"""The audit log: denials with the deciding ACL, and changes to ACLs, users, tokens and quotas.

The logger ``audit`` logs the first occurrence of a denial immediately. Repetitions, and denials
beyond `LINES_MAX` lines a minute, are counted and logged once a minute. ``/api/denials`` shows the
last denials. The lines contain no secrets, only names, addresses and ACLs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from broker.loop.internal_errors import InternalErrors
from broker.net.peer import display_client_id
from broker.time import Time
from protocol.slotted import slotted
from security.acls.model import AclEntry, Operation, PatternType, ResourceType, spelled

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from security.acls.acl_decision import Rule

LOG_EVERY_S = 60
LINES_MAX = 100
"""The maximum number of denials that are logged immediately in one minute. The same limit applies
to the denials that are logged when the minute ends."""
DENIALS_MAX = 1000
"""The maximum number of distinct denials in memory. The denial whose last occurrence is oldest is
dropped first."""
NAMED_MAX = 20
"""The maximum number of names in the log line about one request that changes many users, tokens or
quotas."""
NAME_SHOWN = 256
"""The maximum number of characters of a resource's name in a log line; a group id may have 32,767
characters."""

logger = structlog.get_logger(__name__)
_AUDIT = {"logger": "audit"}
"""The field that every audit line has, so that log shippers can select audit lines."""


@slotted
class Denial:
    """The denial of an operation of one client on one resource, with the number of its
    occurrences."""

    principal: str
    host: str
    client_id: str
    api: str
    operation: Operation
    kind: ResourceType
    name: str
    """The first `NAME_SHOWN` characters of the resource's name. It is "" if the request needs the
    operation on any one resource of the type, and the operation is allowed on none."""
    rule: str
    """The ACL that denied the operation, or a text that says that no ACL matches."""
    count: int
    """The number of denials. Each mention of the resource in a request counts."""
    first_ms: int
    last_ms: int
    """The time of the last occurrence, in Unix milliseconds."""
    unlogged: int
    """The number of occurrences since the last log line about this denial."""


_Key = tuple[str, str, str, str, Operation, ResourceType, str]


class Audit:
    """The audit log of one broker; only the event loop's thread may use this class."""

    def __init__(self, time: Time, errors: InternalErrors | None = None) -> None:
        self._time = time
        self._errors = errors or InternalErrors()
        self.counts = Counter[tuple[str, Operation, ResourceType]]()
        """The number of denials by API, operation and resource type."""
        self._denials: dict[_Key, Denial] = {}
        """The denials in memory, by client, operation and resource. The denial with the latest
        occurrence is last."""
        self._lines = 0
        """The number of denials that were logged immediately in the current minute."""
        self._forgotten = 0
        """The number of denied operations that were dropped from memory before they were logged."""
        self._timer: asyncio.TimerHandle | None = None

    def denied(
        self,
        connection: Connection,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        api: str,
        count: int,
        rule: AclEntry | Rule,
    ) -> None:
        with self._errors.reporting("a denial"):
            self.counts[api, operation, kind] += count
            principal, host = str(connection.principal), connection.client_host.removeprefix("/")
            client_id = display_client_id(connection.client_id)
            shown = name[:NAME_SHOWN]
            key = (principal, host, client_id, api, operation, kind, shown)
            denial = self._denials.pop(key, None)
            now_ms = self._time.now().wall_ms
            is_new = denial is None
            if denial is None:
                denial = Denial(
                    principal,
                    host,
                    client_id,
                    api,
                    operation,
                    kind,
                    shown,
                    "",
                    0,
                    now_ms,
                    now_ms,
                    0,
                )
            self._denials[key] = denial
            from security.acls.text import sentence  # only a broker with an authorizer needs it

            denial.rule = sentence(rule)
            denial.count += count
            denial.unlogged += count
            denial.last_ms = now_ms
            if len(self._denials) > DENIALS_MAX:
                self._forgotten += self._denials.pop(next(iter(self._denials))).unlogged
            if is_new and self._lines < LINES_MAX:
                self._lines += 1
                _log_denial(denial)
            if self._timer is None:
                self._timer = self._time.real.call_later(LOG_EVERY_S, self.log_denials)

    def changed(self, connection: Connection, what: str, **about: object) -> None:
        """Logs a change to ACLs, users, tokens or quotas; ``about`` contains no secret."""
        with self._errors.reporting(what):
            logger.info(
                what,
                by=str(connection.principal),
                host=connection.client_host.removeprefix("/"),
                client_id=display_client_id(connection.client_id),
                **about,
                **_AUDIT,
            )

    def changed_all(self, connection: Connection, what: str, names: Sequence[str]) -> None:
        """Logs the changes that one request made, as one line with the first `NAMED_MAX` names."""
        if names:
            self.changed(connection, what, count=len(names), first="; ".join(names[:NAMED_MAX]))

    def log_denials(self) -> None:
        """Logs the denials that are not logged yet. Runs again after a minute if the last minute
        had denials."""
        had_lines, self._lines, self._timer = self._lines, 0, None
        unlogged = [denial for denial in self._denials.values() if denial.unlogged]
        for denial in unlogged[-LINES_MAX:]:
            _log_denial(denial)
        left_out = sum(denial.unlogged for denial in unlogged[:-LINES_MAX]) + self._forgotten
        for denial in unlogged[:-LINES_MAX]:
            denial.unlogged = 0
        if left_out:
            self._forgotten = 0
            logger.info("denials omitted from the log", count=left_out, **_AUDIT)
        if unlogged or had_lines:
            self._timer = self._time.real.call_later(LOG_EVERY_S, self.log_denials)

    def stop(self) -> None:
        """Logs the remaining denials at shutdown."""
        self.log_denials()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def denials(self) -> list[Denial]:
        """Returns the denials in memory, the latest first."""
        return list(reversed(self._denials.values()))


def _log_denial(denial: Denial) -> None:
    count, denial.unlogged = denial.unlogged, 0
    logger.info(
        "denied",
        principal=denial.principal,
        operation=spelled(denial.operation),
        resource=resource_text(denial.kind, denial.name),
        host=denial.host,
        request=denial.api,
        client_id=denial.client_id,
        rule=denial.rule,
        count=count,
        **_AUDIT,
    )


def resource_text(kind: ResourceType, name: str) -> str:
    """Returns a resource as in Kafka's audit lines: ``Topic:LITERAL:t``; without a name, only the
    type: ``Topic``."""
    return f"{spelled(kind)}:{PatternType.LITERAL.name}:{name}" if name else spelled(kind)
