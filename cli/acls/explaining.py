"""`muster acls explain`: shows whether an operation is allowed, and the ACL that decides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli import output
from cli.acls.options import (
    Group,
    Host,
    OfCluster,
    Operations,
    Principal,
    Token,
    Topic,
    TransactionalId,
    User,
    place_of,
    principal_of,
    resources_of,
    row_of,
    typed,
    words,
)
from cli.acls.places import Rules
from cli.data_directory import DataDir
from cli.errors import USAGE, CommandError
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from security.acls.acl_decision import AclRules, Decision, Rule
from security.acls.filters import AclFilter
from security.acls.index import AclIndex
from security.acls.model import ANYTHING, AclEntry, Operation, PatternType, Resource, spelled
from security.acls.text import sentence
from verdicts.commands import command, word

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="With --data-dir: the broker's properties file, which contains super.users.",
    ),
]


def explain(
    principal: Principal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    token: Token = None,
    user: User = None,
    host: Host = None,
    data_dir: DataDir = None,
    config: Config = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show whether a principal may do an operation, and which ACL or setting decides.

    Example: --principal User:alice --operation write --topic orders.
    """
    resources = resources_of(topic, group, transactional_id, cluster, token, user)
    operations = words(Operation, operation)
    if principal is None or len(resources) != 1 or len(operations) != 1:
        raise CommandError("name one --principal, one --operation and one resource", USAGE)
    who, what = principal_of(principal), operations[0]
    place = place_of(bootstrap, timeout, data_dir, config)
    rules = place.rules()
    covering = AclFilter(*resources[0], PatternType.MATCH)
    entries = [] if rules.authorizer == "" else place.found(covering)
    verdict = _verdict(rules, entries, who, host or "", what, resources[0])
    unknown = _unknown(rules, verdict)
    if host is None and any(each.host != ANYTHING for each in entries):
        unknown.append(
            "The client's address is unknown; --host IP checks the ACLs for a single address"
        )
    entry = verdict.rule if verdict and isinstance(verdict.rule, AclEntry) else None
    if json:
        output.show_json(
            {
                "allowed": verdict is None or verdict.is_allowed,
                "principal": who,
                "operation": spelled(what),
                "resource_type": spelled(resources[0].type),
                "name": resources[0].name,
                "host": host,
                "rule": _rule(verdict),
                "entry": None if entry is None else row_of(entry),
                "unknown": unknown,
            }
        )
        return
    may = "may" if verdict is None or verdict.is_allowed else "may not"
    where = "" if host is None else f" from {host}"
    output.say_folded(f"{who} {may} {spelled(what)} {resources[0]}{where}: {_rule(verdict)}")
    for each in unknown:
        output.say_folded(each)
    if verdict is not None and not verdict.is_allowed:
        output.say_folded(_remedy(entry, who, what, resources[0]))


def _verdict(
    rules: Rules,
    entries: Sequence[AclEntry],
    who: str,
    host: str,
    what: Operation,
    resource: Resource,
) -> Decision | None:
    """Returns the authorizer's decision; None if no authorizer is configured."""
    if rules.authorizer == "":
        return None
    acl_rules = AclRules(
        AclIndex(entries),
        rules.super_users or frozenset(),
        allow_everyone=bool(rules.allow_everyone),
    )
    return acl_rules.verdict(who, host, what, *resource)


def _rule(verdict: Decision | None) -> str:
    if verdict is None:
        return "the broker has no authorizer, so every principal may do everything"
    return sentence(verdict.rule)


def _unknown(rules: Rules, verdict: Decision | None) -> list[str]:
    """Returns sentences about settings whose value is unknown and could change the decision."""
    unknown = []
    if verdict is not None and not verdict.is_allowed and rules.super_users is None:
        unknown.append(
            "It is unknown whether the principal is in super.users; super users may do everything"
        )
    if verdict is not None and verdict.rule is Rule.NO_ACL_DENIES and rules.allow_everyone is None:
        unknown.append(
            "The value of allow.everyone.if.no.acl.found is unknown; true would allow the operation"
        )
    return unknown


def _remedy(denied_by: AclEntry | None, who: str, what: Operation, resource: Resource) -> str:
    if denied_by is None:
        return f"To allow the operation: $ {command('acls add', [], _whose(who, what, resource))}"
    return f"To remove the denying ACL: $ {_removing(denied_by)}"


def _removing(entry: AclEntry) -> str:
    resource = Resource(entry.pattern.resource_type, entry.pattern.name)
    pattern = f"--pattern {typed(entry.pattern.pattern_type)}"
    whose = _whose(entry.principal, entry.operation, resource)
    return command("acls remove", [], whose, pattern, f"--host {word(entry.host)}", "--deny")


def _whose(who: str, what: Operation, resource: Resource) -> str:
    option = f"--{typed(resource.type)}"
    named = option if option == "--cluster" else f"{option} {word(resource.name)}"
    return f"--principal {word(who)} --operation {typed(what)} {named}"
