"""The audit log: denials with the ACL that decided, and changes to ACLs, users, tokens and quotas.

The first occurrence of a denial is a line of the logger ``audit``. Repetitions are counted and
logged once a minute with their count, and so are denials beyond `LINES_MAX` lines a minute.
``/api/denials`` shows the last denials. Lines contain names, addresses and ACLs, nothing else.
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

TOLD_EVERY_S = 60
LINES_MAX = 100
"""Lines that are logged at once in a minute, and as many again after it."""
DENIALS_MAX = 1000
"""Different denials that are kept; the one whose last occurrence is oldest is dropped first."""
NAMED_MAX = 20
"""How many of the names that one request changes its line contains."""
NAME_SHOWN = 256
"""Characters of a resource's name; a group may have 32,767."""

logger = structlog.get_logger(__name__)
_AUDIT = {"logger": "audit"}
"""The field of every line, by which a log shipper can route them."""


@slotted
class Denial:
    """A denial of one client, and its count."""

    principal: str
    host: str
    client_id: str
    api: str
    operation: Operation
    kind: ResourceType
    name: str
    """At most `NAME_SHOWN` characters of it; "" where it was about any resource of the type."""
    rule: str
    """The ACL that decided, or that none matches."""
    count: int
    """The number of uses of the resource by requests, since the denial is kept."""
    first_ms: int
    last_ms: int
    """Wall time of the last one, in Unix milliseconds."""
    untold: int
    """The occurrences that are not logged yet."""


_Key = tuple[str, str, str, str, Operation, ResourceType, str]


class Audit:
    """The audit log of one broker; use from the event loop's thread alone."""

    def __init__(self, time: Time, errors: InternalErrors | None = None) -> None:
        self._time = time
        self._errors = errors or InternalErrors()
        self.counts = Counter[tuple[str, Operation, ResourceType]]()
        """Denials by API, operation and type."""
        self._denials: dict[_Key, Denial] = {}
        """By client, operation and resource; the latest denial is at the end."""
        self._lines = 0
        """Lines that were logged at once in the current minute."""
        self._forgotten = 0
        """Denials that were dropped before a line logged them."""
        self._telling: asyncio.TimerHandle | None = None

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
        """Counts and logs a denial."""
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
            denial.untold += count
            denial.last_ms = now_ms
            if len(self._denials) > DENIALS_MAX:
                self._forgotten += self._denials.pop(next(iter(self._denials))).untold
            if is_new and self._lines < LINES_MAX:
                self._lines += 1
                _tell(denial)
            if self._telling is None:
                self._telling = self._time.real.call_later(TOLD_EVERY_S, self.tell)

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
        """Logs the changes of one request in one line, which has the first `NAMED_MAX` names."""
        if names:
            self.changed(connection, what, count=len(names), first="; ".join(names[:NAMED_MAX]))

    def tell(self) -> None:
        """Logs the denials that are not logged yet; again in a minute if there are more by then."""
        was_told, self._lines, self._telling = self._lines, 0, None
        untold = [denial for denial in self._denials.values() if denial.untold]
        for denial in untold[-LINES_MAX:]:
            _tell(denial)
        left_out = sum(denial.untold for denial in untold[:-LINES_MAX]) + self._forgotten
        for denial in untold[:-LINES_MAX]:
            denial.untold = 0
        if left_out:
            self._forgotten = 0
            logger.info("denials omitted from the log", count=left_out, **_AUDIT)
        if untold or was_told:
            self._telling = self._time.real.call_later(TOLD_EVERY_S, self.tell)

    def stop(self) -> None:
        """Logs the rest on shutdown; no denials follow."""
        self.tell()
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def denials(self) -> list[Denial]:
        """The kept denials, the latest first."""
        return list(reversed(self._denials.values()))


def _tell(denial: Denial) -> None:
    count, denial.untold = denial.untold, 0
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
    """A resource as in Kafka's audit lines: ``Topic:LITERAL:t``; ``Topic`` alone for any topic."""
    return f"{spelled(kind)}:{PatternType.LITERAL.name}:{name}" if name else spelled(kind)
