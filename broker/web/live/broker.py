"""The head and rows of `/api/live` for the broker itself, with the rows' tokens."""

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
"""Of so many connections it is shown whose they are, at each look."""
DENIALS_SHOWN = 20


class TheBroker(Source):
    """The broker: tables ``api``, ``client`` of those connected, and ``denial`` of the last."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._numbers = count()
        self._denials: dict[tuple[str, ...], int] = {}
        """The numbers of those that were shown at the last look: a row's key names nothing that
        whoever sees the row may not."""

    def head(self) -> View:
        """All but the requests by API."""
        return broker_view(self.sources)

    def rows(self) -> Iterator[Row | None]:
        """One an API that was asked for."""
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
