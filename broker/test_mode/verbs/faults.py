"""The verbs that start, list and end faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from broker.apis.tables.standalone import SERVED
from broker.test_mode.arguments import NUMBER, POSITIVE, TEXT, Argument, one_of
from broker.test_mode.faults import ALL, Fault, NoSuchFault
from broker.test_mode.refusals import UnknownVerb, WrongArgument
from broker.test_mode.requests.rules import Delay, Fail, Filter, Rule, StopAnswering
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs.groups import begin_away, begin_loading
from broker.test_mode.verbs.verb import Answer, Verb
from protocol import errors

_BEGIN = "POST /test/faults"
API_KIND = one_of("API of this broker", (row.api.name for row in SERVED.values()))
_APIS = {row.api.name: row.api for row in SERVED.values()}
_CODES = {name: code for code, name in errors.NAMES.items() if code != errors.NONE}

Given = Mapping[str, Any]
_FILTERS = ("api", "group", "topic", "client_id")


def which(given: Given) -> Filter:
    """Returns a filter of requests from a verb's arguments api, group, topic and client_id."""
    api = given.get("api")
    return Filter(
        None if api is None else _APIS[api],
        given.get("group"),
        given.get("topic"),
        given.get("client_id"),
    )


def _fail(tested: TestedBroker, given: Given) -> Fault:  # noqa: ARG001
    return Fail(which(given), _CODES[given["error"]], given["times"])


def _delay(tested: TestedBroker, given: Given) -> Fault:
    # In the system's time, which clients measure, whatever the broker's clock does.
    return Delay(which(given), given["ms"], tested.system, given["times"])


def _stop_answering(tested: TestedBroker, given: Given) -> Fault:  # noqa: ARG001
    return StopAnswering(which(given), given["times"])


def _disk_full(tested: TestedBroker, given: Given) -> Fault:  # noqa: ARG001
    fault = tested.disk.faults.disk_full()
    fault.on_end(tested.disk_has_room)
    return fault


def _fail_fsync(tested: TestedBroker, given: Given) -> Fault:
    return tested.disk.faults.fail_fsync(given["times"])


async def _loading(tested: TestedBroker, given: Given) -> Fault:
    return await begin_loading(tested, given["group"], given["seconds"])


async def _moved(tested: TestedBroker, given: Given) -> Fault:
    return await begin_away(tested, given["group"])


_Make = Callable[[TestedBroker, Given], Fault | Awaitable[Fault]]
KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], _Make]] = {
    "fail": (("api", "error"), ("times", "group", "topic", "client_id"), _fail),
    "delay": (("ms",), ("times", *_FILTERS), _delay),
    "stop_answering": ((), ("times", *_FILTERS), _stop_answering),
    "disk_full": ((), (), _disk_full),
    "fail_fsync": ((), ("times",), _fail_fsync),
    "loading": (("group",), ("seconds",), _loading),
    "moved": (("group",), (), _moved),
}
"""The kinds of faults. Each has its required arguments, its optional arguments, and the function
that creates the fault."""


async def begin(tested: TestedBroker, kind: str, **given: Any) -> Answer:
    needed, taken, make = KINDS[kind]
    for name in needed:
        if given[name] is None:
            raise WrongArgument(f"{_BEGIN}: fault {kind} needs {name}")
    for name, value in given.items():
        if value is not None and name not in (*needed, *taken):
            takes = ", ".join((*needed, *taken)) or "none"
            raise WrongArgument(
                f"{_BEGIN}: fault {kind} does not accept {name}; its arguments: {takes}"
            )
    made = make(tested, given)
    fault = made if isinstance(made, Fault) else await made
    if not fault.fault_id:
        tested.faults.begin(fault)
    if isinstance(fault, Rule):
        tested.interposed.begin(fault)
    return {"id": fault.fault_id}


async def look(tested: TestedBroker) -> Answer:
    return {"faults": tested.faults.rows()}


async def end(tested: TestedBroker, fault_id: str) -> Answer:
    """Ends a fault and returns the number of its hits."""
    if fault_id == ALL:
        return {"hits": tested.faults.end_all()}
    try:
        return {"hits": tested.faults.end(fault_id)}
    except NoSuchFault as error:
        raise UnknownVerb(f"DELETE /test/faults/{fault_id}: {error}") from None


async def disconnect(tested: TestedBroker, client_id: str | None) -> Answer:
    return {"connections": tested.interposed.disconnect(client_id)}


VERBS = (
    Verb(
        "POST",
        "/faults",
        "begins a fault, which lasts until DELETE /test/faults/{id} ends it",
        begin,
        (
            Argument("kind", one_of("kind of fault", KINDS), ", ".join(KINDS), required=True),
            Argument("api", API_KIND, "only requests of this API, such as OffsetCommit"),
            Argument(
                "error", one_of("error of Kafka", _CODES), "the error, such as NOT_COORDINATOR"
            ),
            Argument("ms", NUMBER, "delay of a request in milliseconds of real time"),
            Argument(
                "times", POSITIVE, "the number of requests or fsyncs to affect; all by default"
            ),
            Argument("group", TEXT, "only requests that name this group"),
            Argument("topic", TEXT, "only requests that name this topic"),
            Argument("client_id", TEXT, "only requests with this client id"),
            Argument("seconds", NUMBER, "the duration in seconds of the broker's clock"),
        ),
    ),
    Verb("GET", "/faults", "returns the current faults, and how often each took effect", look),
    Verb(
        "DELETE",
        "/faults/{id}",
        "ends a fault, or all faults; delayed requests continue",
        end,
        (Argument("id", TEXT, f"the fault's id, or {ALL}", required=True, keyword="fault_id"),),
    ),
    Verb(
        "POST",
        "/disconnect",
        "closes the connections of one client, or of all clients",
        disconnect,
        (Argument("client_id", TEXT, "only connections with this client id"),),
    ),
)
