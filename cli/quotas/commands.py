"""`muster quotas`: lists, sets and removes quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.errors import USAGE, CommandError, check, refused
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide
from cli.plans import DryRun, Execute, Plan, show_json
from security.quotas.entities import (
    ABSENT,
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    OF_CLIENTS,
    USER,
    Entity,
    address_of,
    named_parts,
    parse_entity,
    wrong_quota,
)

app = typer.Typer(
    help="Show and change quotas of users, client ids and IP addresses.", no_args_is_help=True
)

DEFAULT = "(default)"
COLUMNS = ["user", "client_id", "ip", "quota", "value"]
_KEYS = (*OF_CLIENTS, CONNECTION_CREATION_RATE)
_EXACT, _DEFAULT, _ANY = 0, 1, 2

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user's name.")]
AnyUser = Annotated[
    bool, typer.Option("--user-default", help="The default for users without their own quotas.")
]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
AnyClient = Annotated[
    bool,
    typer.Option(
        "--client-id-default", help="The default for client ids without their own quotas."
    ),
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An IP address.")]
AnyIp = Annotated[
    bool,
    typer.Option("--ip-default", help="The default for IP addresses without their own quotas."),
]


@app.command("list")
def list_quotas(
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClient = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List all quotas, or the quotas of a user, client id or IP address."""
    named = _named(user, user_default, client_id, client_id_default, ip, ip_default)
    found = _found(Cluster(bootstrap, timeout_s=timeout), named)
    output.show([row for _, row in found], COLUMNS, "No quota matches", json, wide=wide)


@app.command("set")
def set_quotas(
    quotas: Annotated[
        list[str],
        typer.Argument(metavar="QUOTA=VALUE", help=f"A quota, such as {OF_CLIENTS[0]}=1048576."),
    ],
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClient = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Set quotas of a user, a client id, a user and client id, or an IP address."""
    named = _named(user, user_default, client_id, client_id_default, ip, ip_default)
    entity = _entity(named)
    if entity.ip:
        # Muster stores addresses only, so a quota set by host name would not be found by name.
        _check_address(entity.ip)
        entity = Entity(ip=address_of(entity.ip))
    wanted = dict(_parsed(entity, each) for each in quotas)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows = [_row(entity, key, value) for key, value in wanted.items()]
    there = [row for each, row in _found(cluster, named) if each == entity]
    is_same = all(row in there for row in rows)
    if not is_same:
        _alter(cluster, entity, wanted)
    output.show(rows, COLUMNS, "", json, "Nothing to change" if is_same else "Set")


@app.command("remove")
def remove_quotas(
    quotas: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUOTA", help="The quotas to remove; all by default."),
    ] = None,
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClient = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Remove quotas; show the quotas first. Throttled clients continue at full speed at once."""
    plan = Plan(dry_run, execute, json, done="removed").checked()
    named = _named(user, user_default, client_id, client_id_default, ip, ip_default)
    entity = _entity(named)
    for key in quotas or ():
        if (wrong := wrong_quota(entity, key, None)) is not None:
            raise CommandError(wrong, USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    there = [
        (each, row)
        for each, row in _found(cluster, named)
        # Every found entity has the named parts. An entity with more parts is another entity.
        if len(named_parts(each)) == len(named) and (not quotas or row["quota"] in quotas)
    ]
    rows = [row for _, row in there]
    if not rows:
        output.show(rows, COLUMNS, "No quota matches; nothing to remove", json)
        return
    if not plan.agreed(rows, COLUMNS, f"Remove {output.counted(len(rows), 'quota')}?"):
        return
    for each in dict.fromkeys(each for each, _ in there):
        _alter(cluster, each, {row["quota"]: None for of, row in there if of == each})
    if json:
        show_json(rows, executed=True)
    else:
        output.say(f"Removed {output.counted(len(rows), 'quota')}")


def _named(
    user: str | None,
    user_default: bool,
    client_id: str | None,
    client_id_default: bool,
    ip: str | None,
    ip_default: bool,
) -> dict[str, str | None]:
    """Returns the parts of a quota entity by type. The name None means the default entity."""
    named: dict[str, str | None] = {}
    for kind, name, is_default in (
        (USER, user, user_default),
        (CLIENT_ID, client_id, client_id_default),
        (IP, ip, ip_default),
    ):
        if name is not None and is_default:
            raise CommandError(f"choose one of --{kind} and --{kind}-default", USAGE)
        if name is not None or is_default:
            named[kind] = name
    return named


def _entity(named: Mapping[str, str | None]) -> Entity:
    if not named:
        raise CommandError("name the entity with --user, --client-id or --ip", USAGE)
    try:
        return parse_entity(named.items())
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None


def _parsed(entity: Entity, text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    if not equals:
        raise CommandError(f"{text}: write it as QUOTA=VALUE; quotas are {', '.join(_KEYS)}", USAGE)
    try:
        number = float(value)
    except ValueError:
        raise CommandError(f"{text}: the value is not a number", USAGE) from None
    if (wrong := wrong_quota(entity, key, number)) is not None:
        raise CommandError(wrong, USAGE)
    return key, number


def _found(
    cluster: Cluster, named: Mapping[str, str | None]
) -> list[tuple[Entity, dict[str, Any]]]:
    """Returns the quotas of the entities that have the components ``named``. Raises CommandError if
    ``named`` has an invalid address without a quota.

    Requests the quotas of all addresses and compares the addresses here: brokers compare texts, but
    an address has several spellings, and Kafka brokers also store host names.
    """
    ip = named.get(IP)
    components = [_component(kind, name) for kind, name in named.items()]
    answer = cluster.any.call("DescribeClientQuotas", {"components": components, "strict": False})
    check("quotas", answer)
    found = []
    for entry in answer["entries"] or ():
        parts = ((part["entity_type"], part["entity_name"]) for part in entry["entity"])
        entity = parse_entity(parts)
        if ip is None or (entity.ip is not None and _plain(entity.ip) == _plain(ip)):
            found += [
                (entity, _row(entity, each["key"], each["value"])) for each in entry["values"]
            ]
    if ip is not None and not found:
        _check_address(ip)
    return sorted(found, key=lambda each: [str(each[1][column]) for column in COLUMNS])


def _component(kind: str, name: str | None) -> dict[str, Any]:
    if name is None:
        return {"entity_type": kind, "match_type": _DEFAULT, "match": None}
    if kind == IP:
        return {"entity_type": kind, "match_type": _ANY, "match": None}
    return {"entity_type": kind, "match_type": _EXACT, "match": name}


def _plain(ip: str) -> str:
    """Returns the canonical spelling of an address. Returns a host name unchanged."""
    try:
        return address_of(ip)
    except ValueError:
        return ip


def _check_address(ip: str) -> None:
    try:
        address_of(ip)
    except ValueError:
        raise CommandError(f"--ip {ip}: not an IP address", USAGE) from None


def _alter(cluster: Cluster, entity: Entity, wanted: Mapping[str, float | None]) -> None:
    entry = {
        "entity": [
            {"entity_type": kind, "entity_name": name} for kind, name in named_parts(entity)
        ],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in wanted.items()
        ],
    }
    asked = {"entries": [entry], "validate_only": False}
    result = cluster.any.call("AlterClientQuotas", asked)["entries"][0]
    if result["error_code"]:
        raise refused(f"quotas of {entity}", result["error_code"], result["error_message"])


def _row(entity: Entity, key: str, value: float) -> dict[str, Any]:
    shown = {
        kind: None if name == ABSENT else DEFAULT if name is None else name
        for kind, name in zip(("user", "client_id", "ip"), entity, strict=True)
    }
    return {**shown, "quota": key, "value": int(value) if value == int(value) else value}
