"""``/kafka-acl`` and ``/kafka-acl-extended``: ACL entries, and the notices of their changes.

A node contains all entries of one pattern: ``/kafka-acl/<Type>/<name>`` for a literal name,
``/kafka-acl-extended/prefixed/<Type>/<name>`` for a prefix. Names in paths are not encoded. A
notice is a sequential node that a change creates. Literal and prefixed patterns have separate
directories of notices. Source: Kafka 3.9 ``ZkData``, ``ZkAclStore``, ``AclEntry``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from protocol.znodes.fields import BadNode, Fields, encode

LITERAL, PREFIXED = "LITERAL", "PREFIXED"
"""The pattern types, as ACL change notifications spell them."""
TREES: Mapping[str, str] = {LITERAL: "/kafka-acl", PREFIXED: "/kafka-acl-extended/prefixed"}
"""By pattern type, the directory of the nodes. The directory has a subdirectory for each resource
type."""
CHANGES: Mapping[str, str] = {
    LITERAL: "/kafka-acl-changes",
    PREFIXED: "/kafka-acl-extended-changes",
}
"""The ZooKeeper directory of the notifications of changed ACLs, by pattern type."""
CHANGE = "acl_changes_"
"""The beginning of a notice's name. A sequence number follows."""
TYPES = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
"""The resource types, in the spelling of paths."""
VERSION = 1

_FIELDS = ("principal", "permissionType", "host", "operation")

Entry = Mapping[str, str]
"""The fields of one ACL entry in a node: ``principal``, ``permissionType``, ``host``,
``operation``."""


class Place(NamedTuple):
    """A resource pattern. The node at `path` contains the ACL entries of this pattern."""

    resource_type: str
    name: str
    pattern_type: str = LITERAL

    @property
    def path(self) -> str:
        return f"{TREES[self.pattern_type]}/{self.resource_type}/{self.name}"

    @property
    def notice_path(self) -> str:
        """The path of a notice about a change of the pattern. ZooKeeper appends a sequence number
        to it."""
        return f"{CHANGES[self.pattern_type]}/{CHANGE}"


def encode_entries(entries: Iterable[Entry]) -> bytes:
    acls = [{name: each[name] for name in _FIELDS} for each in entries]
    return encode({"acls": acls, "version": VERSION})


def decode_entries(path: str, data: bytes) -> list[Entry]:
    """Returns the ACL entries in a node; empty for a node without data. Raises BadNode."""
    if not data:
        return []
    fields = Fields(path, data)
    if fields.number("version") != VERSION:
        raise fields.bad("version", str(VERSION))
    found = fields.all.get("acls")
    if not isinstance(found, list) or not all(map(_is_entry, found)):
        raise fields.bad("acls", f"a list of entries with {', '.join(_FIELDS)}")
    return found


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in _FIELDS)


def encode_change(place: Place) -> bytes:
    """Returns the data of a notice that the entries of a pattern have changed."""
    kind = _spelled_in_notices(place.resource_type)
    if place.pattern_type == LITERAL:
        return f"{kind}:{place.name}".encode()
    return encode(
        {
            "version": VERSION,
            "resourceType": kind,
            "name": place.name,
            "patternType": place.pattern_type,
        }
    )


def decode_change(path: str, data: bytes) -> Place:
    """Returns the pattern whose ACL entries have changed, from a notice in either of the two
    directories of notices (literal and prefixed patterns). Raises BadNode."""
    if path.startswith(CHANGES[PREFIXED]):
        fields = Fields(path, data)
        if fields.number("version") != VERSION:
            raise fields.bad("version", str(VERSION))
        pattern_type = fields.text("patternType")
        if pattern_type not in TREES:
            raise fields.bad("patternType", " or ".join(TREES))
        return _place(path, fields.text("resourceType"), fields.text("name"), pattern_type)
    kind, _, name = data.decode(errors="replace").partition(":")
    return _place(path, kind, name, LITERAL)


def _place(path: str, kind: str, name: str, pattern_type: str) -> Place:
    """Returns the pattern in a notice. Brokers before 2.0 wrote ``Topic`` in notices, later brokers
    write ``TOPIC``."""
    plain = kind.replace("_", "").lower()
    for known in TYPES:
        if known.lower() == plain and fits_a_path(name):
            return Place(known, name, pattern_type)
    raise BadNode(path, f"does not name a resource: {kind[:50]!r}, {name[:50]!r}")


def fits_a_path(name: str) -> bool:
    """Returns True if ZooKeeper accepts this resource name as the name of a node."""
    return bool(name) and "/" not in name and name not in (".", "..") and "\0" not in name


def _spelled_in_notices(kind: str) -> str:
    """Returns the spelling of a resource type in notices, such as ``TRANSACTIONAL_ID`` for
    ``TransactionalId``."""
    return "".join(f"_{sign}" if sign.isupper() else sign for sign in kind).lstrip("_").upper()
