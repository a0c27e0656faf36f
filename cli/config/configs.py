"""`muster configs`: reads and changes the settings of topics and brokers of any Kafka cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli import clock, output
from cli.client.cluster import Cluster, Connection
from cli.client.config_changes import APPEND, DELETE, SET, SUBTRACT, Operation, alter, list_after
from cli.client.configs import (
    BROKER_RESOURCE,
    BROKER_SOURCE,
    EVERY_BROKER_SOURCE,
    TOPIC_RESOURCE,
    TOPIC_SOURCE,
    Resource,
    describe,
    own_settings,
)
from cli.errors import USAGE, CommandError
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    DryRunAtBroker,
    Json,
    Timeout,
    Wide,
    name_and_value,
    whole_number,
)

app = typer.Typer(help="Show and change settings of topics and brokers.", no_args_is_help=True)

SETTLED_WITHIN_S = 5.0
"""The maximum number of seconds that a broker needs to show a change that the controller made."""

_SOURCES = {
    TOPIC_SOURCE: "topic",
    BROKER_SOURCE: "broker, at run time",
    EVERY_BROKER_SOURCE: "every broker, at run time",
    4: "broker's properties",
    5: "default",
}
_TYPES = {
    1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list", 8: "class",
    9: "password",
}  # fmt: skip
_DEFAULT = "default"


Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="NAME", help="The settings of this topic.")
]
Broker = Annotated[
    int | None, whole_number("--broker", most=INT32, help="The settings of this broker.")
]
EveryBroker = Annotated[
    bool, typer.Option("--every-broker", help="The cluster-wide defaults of all brokers.")
]


def _resource(topic: str | None, broker: int | None, every_broker: bool) -> Resource:
    if (topic is not None) + (broker is not None) + every_broker != 1:
        raise CommandError("choose one of --topic NAME, --broker ID and --every-broker", USAGE)
    if topic is not None:
        return Resource(TOPIC_RESOURCE, topic)
    return Resource(BROKER_RESOURCE, "" if broker is None else str(broker))


def _connection(cluster: Cluster, resource: Resource) -> Connection:
    """Returns the connection for requests about ``resource``. Settings of one broker can be read
    and changed only at that broker."""
    if resource.kind == BROKER_RESOURCE and resource.name:
        return cluster.broker(int(resource.name))
    return cluster.any


def _source(entry: dict[str, Any]) -> str:
    source = entry["config_source"]
    if source in _SOURCES:
        return _SOURCES[source]
    return _DEFAULT if entry["is_default"] or source == 5 else "set"  # DescribeConfigs v0


def _row(entry: dict[str, Any]) -> output.Row:
    return {
        "setting": entry["name"],
        "value": "(hidden)" if entry["is_sensitive"] else entry["value"],
        "source": _source(entry),
        "changeable": not entry["read_only"],
        "type": _TYPES.get(entry["config_type"]),
        "synonyms": [
            {
                "setting": each["name"],
                "value": each["value"],
                "source": _SOURCES.get(each["source"], "set"),
            }
            for each in entry["synonyms"]
        ],
        "documentation": entry["documentation"],
    }


@app.command()
def get(
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="SETTING", help="A setting, such as retention.ms.")
    ] = None,
    topic: Topic = None,
    broker: Broker = None,
    every_broker: EveryBroker = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also show settings at their defaults.")
    ] = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the named settings, or all settings that differ from their defaults."""
    resource = _resource(topic, broker, every_broker)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    found = describe(_connection(cluster, resource), resource, settings or None)
    missing = [name for name in settings or () if name not in found]
    if missing and resource != (BROKER_RESOURCE, ""):
        raise CommandError(
            f"{resource} has no setting {', '.join(missing)};"
            " `muster configs get --all` lists all settings"
        )
    rows = [_row(entry) for entry in found.values()]
    if not settings and not everything:
        rows = [row for row in rows if row["source"] != _DEFAULT]
    if json:
        output.show_json(rows)
        return
    columns = ["setting", "value", "source", *(["changeable"] if broker is not None else [])]
    output.show_table(
        rows,
        columns,
        f"{resource}: all settings have their defaults; --all shows the defaults",
        wide=wide,
    )


def _pairs(option: str, pairs: list[str] | None, operation: int) -> list[Operation]:
    operations = []
    for pair in pairs or ():
        name, value = name_and_value(option, pair)
        operations.append(Operation(name, operation, value))
    return operations


@app.command("set")
def set_configs(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="SETTING=VALUE", help="A change, such as retention.ms=3600000."),
    ] = None,
    topic: Topic = None,
    broker: Broker = None,
    every_broker: EveryBroker = False,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="NAME", help="Reset to the default; repeatable."),
    ] = None,
    append: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Add to a list setting; repeatable."),
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Remove from a list setting; repeatable."),
    ] = None,
    dry_run: DryRunAtBroker = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Change settings of a topic or a running broker; show values before and after."""
    operations = [
        *_pairs("", settings, SET),
        *(Operation(name, DELETE, None) for name in delete or ()),
        *_pairs("--append ", append, APPEND),
        *_pairs("--subtract ", subtract, SUBTRACT),
    ]
    resource = _resource(topic, broker, every_broker)
    names = [operation.setting for operation in operations]
    if not names:
        raise CommandError("name settings to change, as NAME=VALUE or --delete NAME", USAGE)
    if len(set(names)) < len(names):
        raise CommandError(f"setting {max(names, key=names.count)} is named twice", USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    connection = _connection(cluster, resource)
    before = describe(connection, resource, None)
    alter(connection, resource, operations, before, dry_run)
    after = {} if dry_run else _settled(connection, resource, operations, before)
    rows = [
        {
            "setting": name,
            "before": _shown(before.get(name)),
            "after": _value_after(operation, before) if dry_run else _shown(after.get(name)),
        }
        for name, operation in zip(names, operations, strict=True)
    ]
    if json:
        output.show_json(rows)
        return
    title = f"Changed settings of {resource}"
    if dry_run:
        title = "Nothing is changed (--dry-run)"
    elif all(_is_same(before.get(name), after.get(name)) for name in names):
        title = f"Nothing to change: {resource} already has these settings"
    output.show_table(rows, ["setting", "before", "after"], "", title)


def _is_same(before: dict[str, Any] | None, after: dict[str, Any] | None) -> bool:
    """Returns True if value and source of a setting are unchanged. Returns False for a hidden
    value, which may have changed."""
    return before == after and not (before and before["is_sensitive"])


def _shown(entry: dict[str, Any] | None) -> str | None:
    if entry is None:
        return None
    return "(hidden)" if entry["is_sensitive"] else entry["value"]


def _value_after(operation: Operation, before: dict[str, dict[str, Any]]) -> str | None:
    """Returns the value of a setting after an operation. After DELETE, this is the value from the
    next source in Kafka's order, or "(default)"."""
    entry = before.get(operation.setting)
    if operation.operation == SET:
        return operation.value
    if operation.operation == DELETE:
        behind = _behind(entry)
        if behind is None:
            return "(default)"
        name, value = behind
        return value if name == operation.setting else f"{name}={value}"  # may be in other units
    return ",".join(list_after(operation, entry))


def _behind(entry: dict[str, Any] | None) -> tuple[str, str | None] | None:
    """Returns name and value of the synonym that would apply if the setting were deleted; None if
    unknown."""
    behind = [] if entry is None else entry["synonyms"][1:]
    return (behind[0]["name"], behind[0]["value"]) if behind else None


def _settled(
    connection: Connection,
    resource: Resource,
    operations: list[Operation],
    before: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Waits until the broker shows the change, for at most SETTLED_WITHIN_S seconds, and returns
    the settings. Kafka's brokers apply a change a little later than the controller."""

    def shows(operation: Operation, entry: dict[str, Any] | None) -> bool:
        if operation.operation == DELETE:
            if entry is None:
                return True
            if own_settings(resource, {operation.setting: entry}):
                return False
            # Kafka's broker shows the new source a moment before the new value.
            behind = _behind(before.get(operation.setting))
            if behind is None or behind[0] != operation.setting:
                return True
            return bool(entry["is_sensitive"]) or entry["value"] == behind[1]
        if entry is None:
            return False
        wanted = (_value_after(operation, before) or "").replace(" ", "")
        return bool(entry["is_sensitive"]) or entry["value"] == wanted

    deadline = clock.monotonic_s() + SETTLED_WITHIN_S
    while True:
        after = describe(connection, resource, None)
        settled = all(shows(operation, after.get(operation.setting)) for operation in operations)
        if settled or clock.monotonic_s() > deadline:
            return after
        clock.sleep(0.02)
