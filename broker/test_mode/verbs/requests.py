"""The verb that returns the recorded requests and responses."""

from __future__ import annotations

from broker.test_mode.arguments import COUNT, TEXT, Argument
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs.faults import API_KIND, which
from broker.test_mode.verbs.verb import Answer, Verb

AT_ONCE = 50
"""The number of entries that are decoded in a row before other work may run."""


async def look(tested: TestedBroker, since: int, client_id: str | None, api: str | None) -> Answer:
    recorder = tested.recorder
    found = recorder.entries(since=since, client_id=client_id, api=which({"api": api}).api)
    following = recorder.next_seq
    rows = []
    for number, entry in enumerate(found, 1):
        rows.append(entry.row())
        if number % AT_ONCE == 0:
            await tested.system.sleep(0)
    return {"requests": rows, "next": following, "dropped": recorder.dropped}


VERBS = (
    Verb(
        "GET",
        "/requests",
        "returns decoded requests and responses in order; pass `next` as `since` to continue",
        look,
        (
            Argument("since", COUNT, "the number of the first request to return", default=0),
            Argument("client_id", TEXT, "only requests with this client id"),
            Argument("api", API_KIND, "only requests of this API"),
        ),
    ),
)
