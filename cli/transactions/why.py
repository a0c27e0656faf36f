"""`muster transactions why`: shows the clients of transactions, the consumers that waited, and the
transactions' ends."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli import clock, output
from cli.errors import CommandError
from cli.http import Api, api_at
from cli.options import BOOTSTRAP, INT32, TIMEOUT_S, Bootstrap, Http, Json, Timeout, whole_number
from cli.times import instant, span
from verdicts.commands import command, word

Value = dict[str, Any]

_PLACE = re.compile(r"(.+)[:-](\d{1,10})", re.DOTALL)
_HELD_SHOWN = 5
_MARKS = {"kept": "  [kept]", "log": "  [log]"}
_LEGEND = {
    "  [kept]": "[kept]: recorded before the broker's last start",
    "  [log]": "[log]: read from __transaction_state, which does not record clients",
}


def why(
    what: Annotated[
        str,
        typer.Argument(metavar="ID|TOPIC:PARTITION", help="A transactional id, or a partition."),
    ],
    last: Annotated[
        int, whole_number("--last", least=1, most=INT32, help="Number of transactions to show.")
    ] = 5,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show each transaction's client, waiting consumers and end. Needs Muster's HTTP API."""
    api = api_at(bootstrap, "transactions why", http, timeout)
    found = _asked(api, what)
    if "stories" in found:
        found["stories"] = found["stories"][-last:]
        holding = [each for each in found["partition_list"] if each.get("holds")]
        held = [_held(api, each["topic"], each["partition"]) for each in holding[:_HELD_SHOWN]]
        found["held"] = [each["held"] for each in held if each["held"] is not None]
        more = len(holding) - len(held)
        lines = _of_id(found, more)
    else:
        lines = _of_place(found)
    if json:
        output.show_json(found)
        return
    for line in lines:
        output.say_folded(line)


def _asked(api: Api, what: str) -> Value:
    """Returns the API's response about a transactional id or a partition. ``what`` is first
    requested as a transactional id. If that fails, it is requested as a partition."""
    try:
        found: Value = api.get(f"/api/transactions/{quote(what, safe='')}")
        return found
    except CommandError as error:
        place = _PLACE.fullmatch(what)
        if place is None:
            raise _hinted(api, what, error) from None
        try:
            return _held(api, place[1], int(place[2]))
        except CommandError:
            if ":" in what:
                raise
        raise


def _hinted(api: Api, what: str, error: CommandError) -> CommandError:
    """Returns the error for an unknown transactional id. If ``what`` is a topic, the error advises
    to name a partition of this topic."""
    try:
        _held(api, what, 0)
    except CommandError:
        return error
    place = word(f"{what}:0")
    return CommandError(f"{what} is a topic: name a partition, such as {place}; {error}")


def _held(api: Api, topic: str, partition: int) -> Value:
    found: Value = api.get("/api/held", topic=topic, partition=partition)
    return found


def _of_id(found: Value, more: int) -> list[str]:
    head = f"{found['id']}  {found['state'] or 'does not exist'}"
    if found["state"] is not None and found["since_ms"] is not None:
        head += f"  open for {span(max(0, clock.now_ms() - found['since_ms']))}"
    lines = [head]
    lines += _held_lines(found["held"], more)
    if found["state"] == "Ongoing":
        lines.append("    to abort the transaction and fence its producer:")
        lines.append(f"    $ {command('transactions abort', found['id'])}")
    for each in found["stories"]:
        mark = _MARKS.get(each["source"], "")
        number = f"{instant(each['began_ms'])}  #{each['number']} "
        lines.append(f"{number}{each['sentence']}{mark}")
    if not found["stories"]:
        lines.append("no transactions recorded")
    for each in found["refused"]:
        who = f" by {each['client']}" if each["client"] else ""
        at = f" at {each['host']}" if each["host"] else ""
        lines.append(
            f"{output.counted(each['count'], 'request')} refused with {each['error']}, the last"
            f" at {instant(each['last_ms'])}{who}{at}: {each['why']}"
        )
    lines += [text for mark, text in _LEGEND.items() if any(line.endswith(mark) for line in lines)]
    return lines


def _held_lines(held: list[Value], more: int) -> list[str]:
    """Returns lines about the partitions whose last stable offset a transaction holds back. The
    first line describes one partition, if possible one with waiting consumers. The second line
    lists the other partitions."""
    if not held:
        return []
    blocker = next((each for each in held if each["waits"]), held[0])
    rest = [
        f"{each['topic']}-{each['partition']} at offset {each['start_offset']}"
        for each in held
        if each is not blocker
    ]
    if more > 0:
        rest.append(output.counted(more, "more partition"))
    if not rest:
        return [blocker["sentence"]]
    places = " and ".join(filter(None, [", ".join(rest[:-1]), rest[-1]]))
    return [
        blocker["sentence"],
        f"the transaction also blocks read_committed consumers of {places}",
    ]


def _of_place(found: Value) -> list[str]:
    lines = [found["sentence"]]
    held = found["held"]
    if held is None:
        return lines
    if held["id"] is not None:
        return [*lines, f"    $ {command('transactions why', held['id'])}"]
    if not held["hangs"]:
        return lines
    place = f"{found['topic']}:{found['partition']}"
    start = f"--start-offset {held['start_offset']}"
    return [*lines, f"    $ {command('transactions abort', [], f'--topic {word(place)}', start)}"]
