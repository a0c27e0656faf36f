"""`muster acls list`, and the selection of ACLs by options."""

from __future__ import annotations

from collections.abc import Sequence

from cli import output
from cli.acls.options import (
    COLUMNS,
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
    order_of,
    place_of,
    principal_of,
    resources_of,
    row_of,
    words,
)
from cli.acls.places import Place
from cli.data_directory import DataDir
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide
from security.acls.filters import AclFilter
from security.acls.model import AclEntry, Operation, PatternType, Permission, Resource


def list_entries(
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
    data_dir: DataDir = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List ACLs.

    An option such as --topic selects all ACLs that apply to the resource, including prefixed ACLs
    and ACLs for *, unless --pattern selects others.
    """
    place = place_of(bootstrap, timeout, data_dir)
    resources = resources_of(topic, group, transactional_id, cluster, token, user)
    found = selected(
        place, resources, pattern or PatternWord.MATCH, principal, operation, host, deny
    )
    rows = [row_of(entry) for entry in found]
    output.show(rows, COLUMNS, "No ACL matches", json, wide=wide)


def selected(
    place: Place,
    resources: Sequence[Resource],
    pattern: PatternWord,
    principal: str | None,
    operations: list[str] | None,
    host: str | None,
    deny: bool,
) -> list[AclEntry]:
    """Returns the ACLs that apply to any of ``resources`` and match all other options."""
    kind = PatternType[pattern.name]
    filters = [AclFilter(resource.type, resource.name, kind) for resource in resources]
    if not filters:
        # Without a resource name, MATCH selects the same ACLs as ANY.
        filters = [AclFilter(pattern_type=PatternType.ANY if pattern.name == "MATCH" else kind)]
    who = None if principal is None else principal_of(principal)
    wanted = words(Operation, operations)
    found = {
        entry: None
        for each in filters
        for entry in place.found(each._replace(principal=who, host=host))
        if (not wanted or entry.operation in wanted)
        and (not deny or entry.permission == Permission.DENY)
    }
    return sorted(found, key=order_of)
