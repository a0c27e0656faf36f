"""Writes docs/use/coverage.md: the served APIs and versions, read from the dispatch table.

python tools/make_coverage.py [--check]

With --check the tool writes nothing. It exits with 1 if the page differs from the table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from broker.apis.tables.cluster import SERVED_IN_CLUSTER  # noqa: E402
from broker.apis.tables.standalone import SERVED  # noqa: E402
from broker.config.config_table import TOPIC  # noqa: E402
from broker.net.request import ServedApi  # noqa: E402
from broker.net.required_acls import (  # noqa: E402
    NOUNS,
    AnyOf,
    AuthorizedOperations,
    EachResource,
    HandlerAcl,
    RequiredAcl,
    Rights,
)
from protocol.messages import BY_KEY  # noqa: E402
from security.acls.model import ResourceType  # noqa: E402

PAGE = ROOT / "docs" / "use" / "coverage.md"

HEAD = """\
# Served APIs

## APIs

`make coverage` writes this page from the broker's table of APIs
(`broker/apis/tables/standalone.py`), which also determines the response to ApiVersions.

| column | content |
|---|---|
| served | the versions that Muster serves; every field takes effect, except those \
in "left out" |
| known | all versions up to Apache Kafka 4.4.0 |
| left out | the fields without effect |
| needs | the operations that an authorizer must allow \
([security.md](../operate/security.md#rights)) |

The table lists the APIs of a standalone broker:

| key | API | served | known | left out | needs |
|---:|---|---|---|---|---|
"""

IN_CLUSTER = """
## More APIs in a cluster

A broker with `zookeeper.connect` also serves the APIs of this table
(`broker/apis/tables/cluster.py`). If an API is in both this table and the
[table of a standalone broker](#apis), this table applies in a cluster. A cluster serves the APIs of
consumer groups (KIP-848) from `group.version` 1 on, the APIs of share groups from `share.version` 1
on, and the APIs of streams groups from `streams.version` 1 on.

| key | API | served | known | left out | needs |
|---:|---|---|---|---|---|
"""

REST = """
## APIs not served

If a client sends a request of an API that the broker does not serve, the broker closes the
connection. Tests check the encoding of the messages of these APIs too, since the codecs in
`protocol/messages` include them. The broker does not serve these APIs:
"""


SETTINGS = """
## Topic settings without effect

Muster accepts, checks, stores, describes and alters every topic setting of Apache Kafka 3.9. All
topic settings do what Kafka documents, except the following settings, which have no effect yet:
"""


def versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def line(row: ServedApi) -> str:
    """Returns the row of an API in the table of the page."""
    known = row.api.versions
    return (
        f"| {row.api.key} | {row.api.name} | {versions(row.min_version, row.max_version)} "
        f"| {versions(known.start, known.stop - 1)} | {row.left_out} | {needs(row.rights)} |\n"
    )


def needs(rights: Rights) -> str:
    """Returns the ACLs that an API requires, as text."""
    parts = [" or ".join(map(right, options_of(need))) for need in rights.needs]
    each = rights.each
    if isinstance(each, EachResource):
        parts.append(f"{each.operation.name} on each resource, by its type")
    elif each is not None:
        of_all = "" if each.unless is None else f", or {right(each.unless)}"
        parts.append(f"{each.operation.name} on each {NOUNS[each.kind]}{of_all}")
    for hidden in rights.hides:
        of_all = "" if hidden.unless is None else f"; all with {right(hidden.unless)}"
        noun = NOUNS[hidden.kind]
        parts.append(f"shows each {noun} on which {hidden.operation.name} is allowed{of_all}")
    parts += map(own_right, rights.own)
    parts += map(described, rights.tells)
    return "; ".join(parts) or f"nothing: {rights.why_none}"


def options_of(need: RequiredAcl | AnyOf) -> Sequence[RequiredAcl]:
    """Returns the alternatives of a required ACL. One of them is sufficient."""
    return need.needs if isinstance(need, AnyOf) else (need,)


def right(need: RequiredAcl) -> str:
    """Returns a required ACL on the single resource of a request, as text."""
    return f"{need.operation.name} on the {NOUNS[need.kind]}"


def own_right(own: HandlerAcl) -> str:
    """Returns the ACL that the handler of an API itself checks, as text."""
    unless = "" if own.unless is None else f", or {right(own.unless)}"
    when = f"{own.when}, " if own.when else ""
    return f"{when}{own.operation.name} on {own.of}{unless}"


def described(tells: AuthorizedOperations) -> str:
    """Returns text about the authorized operations that a response contains."""
    each = "the" if tells.kind is ResourceType.CLUSTER else "each"
    to_whom = "" if tells.need is None else f", with {right(tells.need)}"
    return f"returns the allowed operations on {each} {NOUNS[tells.kind]}{to_whom}"


def page() -> str:
    alone = "".join(map(line, SERVED.values()))
    more = [row for key, row in SERVED_IN_CLUSTER.items() if SERVED.get(key) is not row]
    both = "".join(map(line, more))
    others = [
        f"{api.name} ({key})"
        for key, api in sorted(BY_KEY.items())
        if key not in SERVED and key not in SERVED_IN_CLUSTER
    ]
    idle = [f"`{setting.name}`" for setting in TOPIC.values() if not setting.has_effect]
    apis = HEAD + alone + IN_CLUSTER + both + REST + ", ".join(others) + ".\n"
    return apis + SETTINGS + ", ".join(sorted(idle)) + ".\n"


def main() -> int:
    """Writes the page, or checks it with --check. Returns the exit code."""
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            print(f"{PAGE.name} differs from the dispatch table: run make coverage")
            return 1
        return 0
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
