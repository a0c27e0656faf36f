"""The command line options that select ACLs."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import output
from cli.acls.places import AtBroker, InDirectory, Place
from cli.errors import USAGE, CommandError
from cli.layout import Column, Columns
from security.acls.model import (
    CLUSTER_NAME,
    AclEntry,
    PatternType,
    Resource,
    ResourceType,
    spelled,
)
from security.acls.text import member_of
from security.principal import parse_principal

COLUMNS: Columns = [
    "principal",
    "permission",
    "operation",
    Column("resource_type", "TYPE"),
    Column("name", "NAME"),
    "pattern",
    "host",
]


class PatternWord(StrEnum):
    """The values of --pattern."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


Principal = Annotated[
    str | None,
    typer.Option("--principal", metavar="TYPE:NAME", help="The principal, such as User:alice."),
]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        metavar="WORD",
        help="An operation, such as read, write, describe-configs or all; repeatable, or separated"
        " by commas.",
    ),
]
Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="NAME", help="A topic's name, or * for all.")
]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="A group's id, or * for all.")
]
TransactionalId = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id, or * for all."),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster as the resource.")]
Token = Annotated[
    str | None,
    typer.Option("--delegation-token", metavar="ID", help="A delegation token's id, or * for all."),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="TYPE:NAME",
        help="A user whose delegation tokens the principal may create or describe.",
    ),
]
PatternOption = Annotated[
    PatternWord | None,
    typer.Option(
        "--pattern",
        help="Which ACLs match NAME. literal: literal ACLs with this name. prefixed: prefixed ACLs"
        " with this name. match: all ACLs that apply to a resource with this name. any: literal"
        " and prefixed ACLs with this name.",
    ),
]
RESOURCE_OPTIONS = "--topic, --group, --transactional-id, --cluster, --delegation-token or --user"
Deny = Annotated[bool, typer.Option("--deny", help="Only ACLs that deny.")]
Host = Annotated[
    str | None, typer.Option("--host", metavar="IP", help="The client's address, or * for any.")
]


def place_of(
    bootstrap: str, timeout_s: float, data_dir: Path | None, config: Path | None = None
) -> Place:
    """Returns the storage of the ACLs: the data directory ``data_dir`` if it is given, else the
    broker."""
    if data_dir is not None:
        return InDirectory(data_dir, config)
    return AtBroker(bootstrap, timeout_s)


def resources_of(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    token: str | None = None,
    user: str | None = None,
) -> list[Resource]:
    """Returns the resources that the options name."""
    named = [
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
        (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
        (ResourceType.DELEGATION_TOKEN, token),
        (ResourceType.USER, user),
    ]
    return [Resource(kind, name) for kind, name in named if name is not None]


def words(kind: type[IntEnum], texts: list[str] | None) -> list[Any]:
    """Returns the members of ``kind`` that the words name. Raises CommandError for an unknown
    word."""
    found = []
    for text in texts or ():
        for word in filter(None, text.split(",")):
            try:
                found.append(member_of(kind, word.strip()))
            except ValueError as error:
                raise CommandError(str(error), USAGE) from None
    return found


def typed(member: IntEnum) -> str:
    """Returns the spelling of an enum member on the command line, such as transactional-id."""
    return member.name.lower().replace("_", "-")


def pattern_type(word: PatternWord | None, default: PatternType) -> PatternType:
    """Returns the pattern type for a value of --pattern; ``default`` if the value is None."""
    return default if word is None else PatternType[word.name]


def principal_of(text: str) -> str:
    """Returns the principal in Kafka's spelling. Raises CommandError if the text is not a valid
    principal."""
    try:
        return str(parse_principal(text))
    except ValueError as error:
        raise CommandError(f"--principal: {error}", USAGE) from None


def row_of(entry: AclEntry) -> output.Row:
    """Returns the table row of an ACL, which also serves as JSON."""
    return {
        "principal": entry.principal,
        "permission": spelled(entry.permission),
        "operation": spelled(entry.operation),
        "resource_type": spelled(entry.pattern.resource_type),
        "name": entry.pattern.name,
        "pattern": entry.pattern.pattern_type.name.lower(),
        "host": entry.host,
    }


def order_of(entry: AclEntry) -> tuple[Any, ...]:
    """Returns the sort key of an ACL: by resource, then by principal, with denials first."""
    return (*entry.pattern, entry.principal, entry.permission, entry.operation, entry.host)
