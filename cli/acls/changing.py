"""`muster acls add` and `muster acls remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import output
from cli.acls.options import (
    COLUMNS,
    RESOURCE_OPTIONS,
    Deny,
    Group,
    Host,
    OfCluster,
    Operations,
    PatternOption,
    PatternWord,
    Principal,
    Token,
    Topic,
    TransactionalId,
    User,
    pattern_type,
    place_of,
    principal_of,
    resources_of,
    row_of,
    typed,
    words,
)
from cli.acls.selecting import selected
from cli.data_directory import DataDir
from cli.errors import USAGE, CommandError
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from cli.plans import DryRun, Execute, Plan, show_json
from security.acls.model import (
    ANYTHING,
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    wrong_with,
)

Producer = Annotated[bool, typer.Option("--producer", help="The operations that a producer needs.")]
Consumer = Annotated[bool, typer.Option("--consumer", help="The operations that a consumer needs.")]

_OF_PRODUCERS = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_OF_CONSUMERS = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


def add(
    principal: Principal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    token: Token = None,
    user: User = None,
    pattern: PatternOption = None,
    producer: Producer = False,
    consumer: Consumer = False,
    deny: Deny = False,
    host: Host = None,
    data_dir: DataDir = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Add ACLs that allow or, with --deny, deny operations.

    Example: --principal User:alice --operation read --topic orders. Existing ACLs stay.
    """
    resources = resources_of(topic, group, transactional_id, cluster, token, user)
    if principal is None or not resources:
        missing = ["--principal"] if principal is None else []
        missing += [] if resources else [f"a resource ({RESOURCE_OPTIONS})"]
        are = "is" if len(missing) == 1 else "are"
        raise CommandError(f"{' and '.join(missing)} {are} missing", USAGE)
    if pattern not in (None, PatternWord.LITERAL, PatternWord.PREFIXED):
        raise CommandError("--pattern of a new ACL must be literal or prefixed", USAGE)
    if not (operation or producer or consumer):
        raise CommandError("name the operations with --operation, --producer or --consumer", USAGE)
    wanted = _operations(resources, operation, producer, consumer)
    permission = Permission.DENY if deny else Permission.ALLOW
    kind = pattern_type(pattern, PatternType.LITERAL)
    entries = [
        AclEntry(
            # ACLs of the cluster are always literal.
            Pattern(
                *resource, PatternType.LITERAL if resource.type == ResourceType.CLUSTER else kind
            ),
            principal_of(principal),
            host or ANYTHING,
            each,
            permission,
        )
        for resource, each in wanted
    ]
    for entry in entries:
        if (wrong := wrong_with(entry)) is not None:
            raise CommandError(wrong, USAGE)
    place_of(bootstrap, timeout, data_dir).add(entries)
    output.show([row_of(entry) for entry in entries], COLUMNS, "", json, "Added")


def _operations(
    resources: list[Resource], given: list[str] | None, producer: bool, consumer: bool
) -> list[tuple[Resource, Operation]]:
    wanted = [(resource, each) for resource in resources for each in words(Operation, given)]
    for asked, operations in ((producer, _OF_PRODUCERS), (consumer, _OF_CONSUMERS)):
        if asked:
            of_it = [(r, each) for r in resources for each in operations.get(r.type, ())]
            if not of_it:
                kinds = " or ".join(f"--{typed(kind)}" for kind in operations)
                what = "--producer" if operations is _OF_PRODUCERS else "--consumer"
                raise CommandError(f"{what} needs {kinds}", USAGE)
            wanted += of_it
    return list(dict.fromkeys(wanted))


def remove(
    principal: Principal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    token: Token = None,
    user: User = None,
    pattern: PatternOption = None,
    deny: Deny = False,
    host: Host = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    data_dir: DataDir = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Remove the ACLs that match all options; show the ACLs first.

    An option such as --topic selects ACLs with exactly this name, unless --pattern selects more.
    """
    plan = Plan(dry_run, execute, json, done="removed").checked()
    resources = resources_of(topic, group, transactional_id, cluster, token, user)
    if principal is None and not resources:
        raise CommandError(
            "select the ACLs with --principal, or with a resource such as --topic", USAGE
        )
    place = place_of(bootstrap, timeout, data_dir)
    default = PatternWord.ANY if pattern is None else pattern
    found = selected(place, resources, default, principal, operation, host, deny)
    rows = [row_of(entry) for entry in found]
    if not found:
        output.show(rows, COLUMNS, "No ACL matches; nothing to remove", json)
        return
    what = output.counted(len(found), "ACL")
    if not plan.agreed(rows, COLUMNS, f"Remove {what}?"):
        return
    place.remove(found)
    if json:
        show_json(rows, executed=True)
    else:
        output.say(f"Removed {what}")
