"""The verb of the tape: what was asked, and what was answered."""

from __future__ import annotations

from broker.tested.arguments import COUNT, TEXT, Argument
from broker.tested.tested_broker import TestedBroker
from broker.tested.verbs.faults import API_KIND, which
from broker.tested.verbs.verb import Answer, Verb

AT_ONCE = 50
"""Entries that are decoded before others get their turn."""


async def look(tested: TestedBroker, since: int, client_id: str | None, api: str | None) -> Answer:
    """Requests with their answers, in the order in which they came."""
    tape = tested.tape
    found = tape.entries(since=since, client_id=client_id, api=which({"api": api}).api)
    following = tape.next_seq
    rows = []
    for number, entry in enumerate(found, 1):
        rows.append(entry.row())
        if number % AT_ONCE == 0:
            await tested.system.sleep(0)
    return {"requests": rows, "next": following, "dropped": tape.dropped}


VERBS = (
    Verb(
        "GET",
        "/requests",
        "every request and its answer, decoded, in order; `next` is where to go on",
        look,
        (
            Argument("since", COUNT, "from this number on", default=0),
            Argument("client_id", TEXT, "only those of this client"),
            Argument("api", API_KIND, "only those of this API"),
        ),
    ),
)
