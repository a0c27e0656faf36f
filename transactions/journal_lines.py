"""The lines in which entries of the journal are written down: docs/transactions-journal.md."""

from __future__ import annotations

from typing import Any

from journal.lines import Fields, NotALine, fields_of, listed_of, number_of, text_of
from journal.lines import line_of as checked_line
from transactions.calls import Client
from transactions.events import Cause
from transactions.journal_entries import Entry, Gone, Outcome, Reader, Refusals, Story, Wait

NAME = "muster_transactions_journal"
"""What the first line of a file has the version under."""
VERSION = 1

_STORY = (
    "number", "producer_id", "producer_epoch", "began_ms", "touched", "prepared_ms", "ended_ms",
    "more_waits",
)  # fmt: skip
"""The numbers of a `Story`."""
_REFUSALS = ("error_code", "count", "last_ms", "producer_id", "producer_epoch")
"""Those of `Refusals`."""


def line_of(transactional_id: str, entry: Entry) -> bytes:
    """An entry as a line."""
    return checked_line({"id": transactional_id, **_written(entry)})


def entry_of(line: bytes) -> tuple[str, Entry]:
    """What a line, without its line feed, says. Raises NotALine."""
    fields = fields_of(line)
    try:
        return text_of(fields["id"]), _read(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotALine(f"it is no entry: {error!r}") from None


def name_of(line: bytes) -> tuple[str, bool]:
    """Whose a line is, and whether it says that the id is gone. Raises NotALine."""
    fields = fields_of(line)
    return str(fields.get("id")), fields.get("kind") == "gone"


def _written(entry: Entry) -> Fields:
    if isinstance(entry, Gone):
        return {"kind": "gone", "at_ms": entry.at_ms}
    if isinstance(entry, Refusals):
        own = {name: getattr(entry, name) for name in _REFUSALS}
        return {"kind": "refused", **own, "client": entry.client, "detail": entry.detail}
    return {
        "kind": "transaction",
        **{name: getattr(entry, name) for name in _STORY},
        "client": entry.client,
        "partitions": entry.partitions,
        "groups": entry.groups,
        "outcome": entry.outcome.value,
        "cause": None if entry.cause is None else entry.cause.value,
        "detail": entry.detail,
        "ended_by": entry.ended_by,
        **({"past": entry.past} if entry.past else {}),
        "waits": [[*each.reader, each.seen_ms, each.over] for each in entry.waits.values()],
    }


def _read(fields: Fields) -> Entry:
    kind = fields["kind"]
    if kind == "gone":
        return Gone(number_of(fields["at_ms"]))
    if kind == "refused":
        numbers: Fields = {name: number_of(fields[name]) for name in _REFUSALS}
        refused = Refusals(**numbers)
        refused.client, refused.detail = _client(fields["client"]), text_of(fields["detail"])
        refused.saved_count = refused.count
        return refused
    if kind != "transaction":
        raise NotALine(f"its kind is {kind}")
    cause = fields["cause"]
    numbers = {name: number_of(fields[name]) for name in _STORY}
    return Story(
        **numbers,
        client=_client(fields["client"]),
        partitions=[(text_of(t), number_of(each)) for t, each in listed_of(fields["partitions"])],
        groups=[text_of(each) for each in listed_of(fields["groups"])],
        outcome=Outcome(fields["outcome"]),
        cause=None if cause is None else Cause(cause),
        detail=text_of(fields["detail"]),
        ended_by=_client(fields["ended_by"]),
        past=text_of(fields.get("past", "")),
        waits={each.reader[:3]: each for each in map(_wait, listed_of(fields["waits"]))},
    )


def _wait(row: list[Any]) -> Wait:
    group_id, topic, partition, client_id, host, since_ms, seen_ms, over = row
    who = (
        text_of(group_id),
        text_of(topic),
        number_of(partition),
        text_of(client_id),
        text_of(host),
    )
    return Wait(Reader(*who, number_of(since_ms)), number_of(seen_ms), bool(over))


def _client(pair: list[Any]) -> Client:
    client_id, host = listed_of(pair)
    return Client(text_of(client_id), text_of(host))
