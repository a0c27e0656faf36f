"""The storages of ACLs: any Kafka broker, or a data directory of Muster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from cli.client.cluster import Cluster
from cli.client.configs import BROKER_RESOURCE, Resource, describe
from cli.data_directory import changeable, readable
from cli.errors import CommandError, check, refused
from security.acls.filters import AclFilter
from security.acls.index import AclIndex
from security.acls.model import (
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from security.principal import parse_super_users

SETTINGS = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")


class Rules:
    """The settings of the authorizer. None in a field means unknown."""

    def __init__(self, settings: dict[str, str | None]) -> None:
        self.authorizer = settings.get(SETTINGS[0])
        users = settings.get(SETTINGS[1])
        self.super_users = None if users is None else parse_super_users(users)
        everyone = settings.get(SETTINGS[2])
        self.allow_everyone = None if everyone is None else everyone.strip().lower() == "true"


class Place(Protocol):
    """A storage of ACLs."""

    def found(self, wanted: AclFilter) -> list[AclEntry]:
        """Returns the ACLs that match the filter."""

    def add(self, entries: Sequence[AclEntry]) -> None:
        """Adds ACLs. Raises CommandError for the first ACL that is rejected."""

    def remove(self, entries: Sequence[AclEntry]) -> None:
        """Removes ACLs. Raises CommandError for the first ACL whose removal is rejected."""

    def rules(self) -> Rules: ...


class AtBroker:
    """The ACLs of a running broker."""

    def __init__(self, bootstrap: str, timeout_s: float) -> None:
        self._cluster = Cluster(bootstrap, timeout_s=timeout_s)

    def found(self, wanted: AclFilter) -> list[AclEntry]:
        answer = self._cluster.any.call("DescribeAcls", _filter(wanted))
        check("ACLs", answer)
        return sorted(
            _entry({**resource, **acl})
            for resource in answer["resources"]
            for acl in resource["acls"]
        )

    def add(self, entries: Sequence[AclEntry]) -> None:
        creations = [_creation(entry) for entry in entries]
        answer = self._cluster.any.call("CreateAcls", {"creations": creations})
        for entry, result in zip(entries, answer["results"], strict=True):
            _check(entry, result)

    def remove(self, entries: Sequence[AclEntry]) -> None:
        filters = [_filter(_exactly(entry)) for entry in entries]
        answer = self._cluster.any.call("DeleteAcls", {"filters": filters})
        for entry, result in zip(entries, answer["filter_results"], strict=True):
            _check(entry, result)
            for acl in result["matching_acls"]:
                _check(entry, acl)

    def rules(self) -> Rules:
        """Implements Place.rules. Reads the settings from one broker, whichever is first in the
        metadata."""
        try:
            node_id = self._cluster.metadata([])["brokers"][0]["node_id"]
            broker = Resource(BROKER_RESOURCE, str(node_id))
            shown = describe(self._cluster.broker(node_id), broker, list(SETTINGS))
        except CommandError:  # the user may not be authorized to read settings
            return Rules({})
        hidden = {name for name, each in shown.items() if each["is_sensitive"]}
        settings: dict[str, str | None] = {"super.users": "", "allow.everyone.if.no.acl.found": ""}
        settings |= {name: each["value"] for name, each in shown.items()}
        return Rules({name: None if name in hidden else text for name, text in settings.items()})


class InDirectory:
    """The ACLs in the data directory of a stopped broker."""

    def __init__(self, directory: Path, config: Path | None) -> None:
        self._directory = str(directory.absolute())
        self._config = config

    def found(self, wanted: AclFilter) -> list[AclEntry]:
        """Implements Place.found. A broker may be using the directory."""
        with readable(self._directory) as fs:
            return AclIndex(self._file(fs).read()).matching(wanted)

    def add(self, entries: Sequence[AclEntry]) -> None:
        self._change(lambda there: dict.fromkeys([*there, *entries]))

    def remove(self, entries: Sequence[AclEntry]) -> None:
        gone = set(entries)
        self._change(lambda there: [entry for entry in there if entry not in gone])

    def rules(self) -> Rules:
        """Implements Place.rules with the settings in the file of --config."""
        if self._config is None:
            return Rules({})
        from broker.config.config import BadConfig
        from broker.config.sources import load

        try:
            config = load(self._config, os.environ, [], {})
        except BadConfig as error:
            raise CommandError(f"{self._config}: {error}") from None
        everyone = str(config[SETTINGS[2]]).lower()
        named = {name: str(config[name]) for name in SETTINGS}
        return Rules({**named, "allow.everyone.if.no.acl.found": everyone})

    def _file(self, fs: Any) -> Any:
        from broker.authorizer.acl_store import AclFile

        return AclFile(fs, self._directory)

    def _change(self, changed: Any) -> None:
        with changeable(self._directory) as fs:
            file = self._file(fs)
            file.write(changed(file.read()))


def _exactly(entry: AclEntry) -> AclFilter:
    """Returns the filter that matches only the ACL ``entry``."""
    of_pattern = AclFilter(*entry.pattern)
    _, who, host, operation, permission = entry
    return of_pattern._replace(principal=who, host=host, operation=operation, permission=permission)


def _check(entry: AclEntry, result: dict[str, Any]) -> None:
    if result["error_code"]:
        what = f"the ACL of {entry.principal} for {entry.pattern.name}"
        raise refused(what, result["error_code"], result["error_message"])


def _creation(entry: AclEntry) -> dict[str, Any]:
    return {
        "resource_type": int(entry.pattern.resource_type),
        "resource_name": entry.pattern.name,
        "resource_pattern_type": int(entry.pattern.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission),
    }


def _filter(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": int(wanted.resource_type),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": int(wanted.pattern_type),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission),
    }


def _entry(acl: dict[str, Any]) -> AclEntry:
    pattern = Pattern(
        _member(ResourceType, acl["resource_type"]),
        acl["resource_name"],
        _member(PatternType, acl["pattern_type"]),
    )
    return AclEntry(
        pattern,
        acl["principal"],
        acl["host"],
        _member(Operation, acl["operation"]),
        _member(Permission, acl["permission_type"]),
    )


def _member(kind: Any, code: int) -> Any:
    """Returns the enum member for a code; UNKNOWN for a code of a newer broker."""
    known: Iterable[int] = [int(each) for each in kind]
    return kind(code if code in known else 0)
