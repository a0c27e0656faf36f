"""The live channel "broker" of `/api/live`: its head and its rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

from broker.metrics.sources import Sources
from broker.web.live.events import Row, Source
from broker.web.views.groups import View
from broker.web.views.security import denial_view, session_views, sessions
from broker.web.views.topics import api_rows, broker_view
from verdicts.spelling import plain_host

CLIENTS_SHOWN = 100
CONNECTIONS_READ = 2_000
"""The maximum number of connections that one update reads to list the sessions of clients."""
DENIALS_SHOWN = 20


class TheBroker(Source):
    """The live data about the broker, with the tables ``api``, ``client`` (connected clients) and
    ``denial`` (the last denials)."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._numbers = count()
        self._denials: dict[tuple[str, ...], int] = {}
        """For each denial at the last update: a number, which is the row key of the denial. Row
        keys are sent to every reader, so they can't contain names that a reader may not see."""

    def head(self) -> View:
        return broker_view(self.sources)

    def rows(self) -> Iterator[Row | None]:
        """Yields a row for each API with requests, each connected client and each denial."""
        for row in api_rows(self.sources):
            yield Row("api", row["api"], (row["requests"],), partial(dict, row))
        yield None
        shown = sorted(sessions(self.sources, CONNECTIONS_READ).items())[:CLIENTS_SHOWN]
        for (client, address), counts in shown:
            host = plain_host(address)
            made = {"client": client, "host": host, "sessions": session_views(counts)}
            yield Row("client", f"{host} {client}", tuple(counts.items()), partial(dict, made))
        before, self._denials = self._denials, {}
        for denial in self.sources.audit.denials()[:DENIALS_SHOWN]:
            who = (denial.principal, denial.host, denial.client_id)
            what = (denial.api, denial.operation.name, denial.kind.name, denial.name)
            known = before.get((*who, *what))
            number = self._denials[*who, *what] = next(self._numbers) if known is None else known
            token = (denial.count, denial.rule)
            yield Row("denial", str(number), token, partial(denial_view, denial))
