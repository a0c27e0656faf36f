"""``/config/<type>/<name>``: the settings of topics, brokers, clients, users and IP addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from protocol.znodes.fields import BadNode, Fields, encode

CONFIG = "/config"
TOPICS, BROKERS, CLIENTS, USERS, IPS = "topics", "brokers", "clients", "users", "ips"
GROUPS = "groups"
"""The type of the entities that have settings of groups. Only Muster writes such nodes: Kafka
supports settings of groups only in KRaft mode."""
DEFAULT = "<default>"
"""The name of the default entity of a type. Its settings apply to all entities of the type."""
CLIENT_KINDS = (CLIENTS, USERS, IPS)
"""The types of entities that have quotas and credentials."""
ENCODED_KINDS = (*CLIENT_KINDS, GROUPS)
"""The types of entities whose names are percent-encoded in ZooKeeper paths."""
_NOUNS = {CLIENTS: "client-id", USERS: "user", IPS: "ip"}


class ClientEntity(NamedTuple):
    """An entity with quotas or credentials: a client id, a user, a client id of a user, or an IP
    address."""

    path: str
    """The path of the entity's node below ``/config``, as in notices. Different writers may encode
    the same name differently."""
    parts: tuple[tuple[str, str | None], ...]
    """The type and the name of each part of the entity. The name is None for the default entity of
    the type."""

    @property
    def words(self) -> str:
        """The entity in words, such as ``user alice, client-id <default>``."""
        return ", ".join(
            f"{_NOUNS[kind]} {DEFAULT if name is None else name}" for kind, name in self.parts
        )


def entity(kind: str, name: str) -> str:
    """Returns the path of an entity below ``/config``, as in change notices."""
    if kind in ENCODED_KINDS and name != DEFAULT:
        name = sanitized(name)
    return f"{kind}/{name}"


def sanitized(text: str) -> str:
    """Returns ``text`` encoded for a path, like Kafka's ``Sanitizer``."""
    return quote(text, safe="").replace("~", "%7E")


def path(kind: str, name: str) -> str:
    """Returns the path of the node with an entity's settings."""
    return f"{CONFIG}/{entity(kind, name)}"


def name_of(kind: str, node: str) -> str:
    """Returns the name of an entity. ``node`` is the last part of its path."""
    return unquote(node) if kind in ENCODED_KINDS else node


def client_entity(entity_path: str) -> ClientEntity:
    """Returns the entity in a path below ``/config``. Raises BadNode."""
    parts: list[tuple[str, str]] = []
    match entity_path.split("/"):
        case [(("clients" | "users" | "ips") as kind), node]:
            parts = [(kind, node)]
        case ["users", user, "clients", client]:
            parts = [(USERS, user), (CLIENTS, client)]
    if not parts or not all(_is_node(node) for _, node in parts):
        raise BadNode(f"{CONFIG}/{entity_path[:100]}", "does not name a client id, user or address")
    named = ((kind, None if node == DEFAULT else name_of(kind, node)) for kind, node in parts)
    return ClientEntity(entity_path, tuple(named))


def entity_of(parts: Iterable[tuple[str, str | None]]) -> ClientEntity:
    """Returns the client entity with these parts. A part is a type and a name; the name None means
    the default entity of the type. The part of a user must precede the part of its client id."""
    named = tuple(parts)
    path = "/".join(
        f"{kind}/{DEFAULT if name is None else sanitized(name)}" for kind, name in named
    )
    return ClientEntity(path, named)


def _is_node(name: str) -> bool:
    return name not in ("", ".", "..") and name.isprintable()


def encode_config(settings: Mapping[str, str]) -> bytes:
    return encode({"version": 1, "config": dict(settings)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Returns the settings of an entity; empty for a node without data. Raises BadNode."""
    if not data:
        return {}
    fields = Fields(path, data)
    if fields.number("version") != 1:
        raise fields.bad("version", "1")
    return dict(fields.texts("config"))
