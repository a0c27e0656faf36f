"""Writes ``protocol/messages``, ``log_records.py`` and ``api_keys.py`` from Kafka's schemas.

The schemas are in ``tests/data/schema``, whose README names their origin. The tool merges all
versions of a message into one table with version ranges, and writes one module per API. Run it
before ``make codecs``. The result is checked in, and tests compare it with the schemas.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from schema_layouts import Layout, base_of, element_of, entries, history, is_flexible

TOP = Path(__file__).resolve().parent.parent
SCHEMAS = TOP / "tests" / "data" / "schema"
MESSAGES = TOP / "protocol" / "messages"

# The messages in which records may be null, which the schemas do not always show.
NULLABLE_RECORDS = {"ProduceRequest", "FetchResponse", "ShareFetchResponse"}


def ranges(versions: list[int], newest: int) -> str:
    """Returns versions in the notation that ``protocol.schema.version_range`` parses."""
    first, last = min(versions), max(versions)
    if sorted(versions) != list(range(first, last + 1)):
        raise SystemExit(f"versions with a gap: {versions}")
    if last == newest:
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


class Merger:
    """Merges the layouts of all versions of a message into the source of its message table."""

    def __init__(self, message: str, newest: int, facts: dict[str, Any]) -> None:
        self.message = message
        self.newest = newest
        self.defaults = facts["defaults"].get(message, {})
        self.nullable_structs = facts["nullable_structs"].get(message, [])
        self.types: set[str] = {"Field"}

    def fields(self, layouts: dict[int, Layout], path: str = "") -> list[str]:
        found: dict[tuple[str, str, int | None], dict[int, Any]] = {}
        order: list[tuple[str, str, int | None]] = []
        for version, layout in sorted(layouts.items()):
            at = 0
            for entry in entries(layout):
                key = (entry.name, base_of(entry.type), entry.tag)
                if key not in found:
                    found[key] = {}
                    order.insert(at, key)
                at = order.index(key) + 1
                found[key][version] = entry.type
        for version, layout in layouts.items():
            names = [e.name for e in entries(layout) if e.tag is None]
            kept = [k[0] for k in order if k[2] is None and version in found[k]]
            if names != kept:
                raise SystemExit(
                    f"{self.message} v{version}: the field order {names} differs from {kept}"
                )
        order.sort(key=lambda key: -1 if key[2] is None else key[2])
        return [self.field(key, found[key], path) for key in order]

    def field(self, key: tuple[str, str, int | None], types: dict[int, Any], path: str) -> str:
        name, _, tag = key
        here = f"{path}.{name}" if path else name
        arguments = [
            f'"{name}"',
            self.type_source(types, here),
            f'"{ranges(list(types), self.newest)}"',
        ]
        nullable = [v for v, type_ in types.items() if self.is_nullable(type_, here)]
        if nullable:
            # The range ends with "+" if the field is nullable in all later versions.
            text = f"{min(nullable)}+" if max(nullable) == max(types) else ranges(nullable, -1)
            arguments.append(f'nullable="{text}"')
        if tag is not None:
            arguments.append(f"tag={tag}")
        if here in self.defaults:
            arguments.append(f"default={self.defaults[here]!r}")
        return f"Field({', '.join(arguments)})"

    def is_nullable(self, type_: Any, path: str) -> bool:
        """Returns True if a value of this type may be null. The schemas do not say which structs
        may be null, so `nullable_structs` lists them."""
        if isinstance(type_, dict):
            return bool(type_["nullable"])
        if isinstance(type_, list):
            return path in self.nullable_structs
        if type_.endswith("RECORDS") and self.message in NULLABLE_RECORDS:
            return True
        return "NULLABLE_" in type_

    def type_source(self, types: dict[int, Any], path: str) -> str:
        newest = types[max(types)]
        if isinstance(newest, str):
            base = base_of(newest)
            self.types.add(base)
            return base
        kind = "Struct" if isinstance(newest, list) else "Array"
        self.types.add(kind)
        if kind == "Array":
            types = {version: element_of(type_) for version, type_ in types.items()}
            if isinstance(element_of(newest), str):
                return f"Array({self.type_source(types, path)})"
        return f"{kind}({', '.join(self.fields(types, path))},)"


def flexible_range(versions: dict[int, dict[str, Any]], part: str) -> str:
    """Returns the range of flexible versions, or "" if no version is flexible."""
    flexible = [version for version, data in versions.items() if is_flexible(data[part])]
    return f"{min(flexible)}+" if flexible else ""


def snake(name: str) -> str:
    """Converts a name to snake case: OffsetCommit becomes offset_commit."""
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()


def api_module(name: str, api: dict[str, Any], facts: dict[str, Any]) -> str:
    versions = {int(version): data for version, data in api["versions"].items()}
    newest = max(versions)
    tables, types = [], {"Api"}
    for part in ("request", "response"):
        merger = Merger(name + part.capitalize(), newest, facts)
        fields = merger.fields({version: data[part] for version, data in versions.items()})
        types |= merger.types if fields else set()
        body = "".join(f"{field},\n" for field in fields)
        annotation = "" if fields else ": tuple[Field, ...]"
        types |= {"Field"} if annotation else set()
        tables.append(f"{part.upper()}{annotation} = (\n{body})")
    flexible = flexible_range(versions, "request")
    api_source = (
        f'API = Api(key={api["key"]}, name="{name}", versions="{min(versions)}-{newest}", '
        f'flexible="{flexible}", request=REQUEST, response=RESPONSE,)'
    )
    return "\n".join(
        [
            f'"""{name}, API key {api["key"]}."""',
            "",
            f"from protocol.schema import {', '.join(sorted(types))}",
            "",
            history(versions, ["request", "response"]),
            "",
            tables[0],
            "",
            tables[1],
            "",
            api_source,
            "",
        ]
    )


def records_module(records: dict[str, Any], facts: dict[str, Any]) -> str:
    parts, types = [], {"LogRecord"}
    for name, record in records.items():
        versions = {int(v): {"fields": layout} for v, layout in record["versions"].items()}
        newest = max(versions)
        merger = Merger(name, newest, facts)
        fields = merger.fields({v: data["fields"] for v, data in versions.items()})
        types |= merger.types
        flexible = flexible_range(versions, "fields")
        comment = history(versions, ["fields"]) + "\n" if newest else ""
        parts.append(
            f'{comment}LogRecord(record_type={record["apiKey"]}, name="{name}", '
            f'versions="{min(versions)}-{newest}", flexible="{flexible}", '
            f"fields=({', '.join(fields)},),),"
        )
    body = "\n".join(parts)
    return f'''"""The records of Kafka's internal topics as tables: groups, transactions, shares.

A key begins with its type (int16), a value with its version (int16); ``decode`` and ``encode``
handle the bytes after these two. The module exceeds the length limit, because it is one list.
Written by ``tools/make_messages.py``.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.schema import {", ".join(sorted(types))}

BY_NAME: Final[dict[str, LogRecord]] = {{record.name: record for record in (
{body}
)}}
"""Every record's key and value, by Kafka's name: OffsetCommitKey, OffsetCommitValue ..."""


def decode(name: str, version: int, buffer: Buffer, position: int = 0) -> dict[str, Any]:
    """Returns the fields of a key or value; raises ProtocolError unless the key or value fills the
    bytes exactly."""
    return _find(name).message(version).decode(buffer, position)


def encode(name: str, version: int, value: dict[str, Any]) -> bytes:
    """Returns the bytes of a key or value, without its type or version in the first two bytes."""
    return _find(name).message(version).encode(value)


def _find(name: str) -> LogRecord:
    record = BY_NAME.get(name)
    if record is None:
        raise ProtocolError(f"unknown record type {{name}}")
    return record
'''


def keys_module(apis: dict[str, Any]) -> str:
    # If a key has two names, the first name is newer and is used.
    names = {api["key"]: name for name, api in reversed(apis.items())}
    constants = "".join(f"{snake(names[k]).upper()}: Final = {k}\n" for k in sorted(names))
    first = {}
    for key in sorted(names):
        versions = apis[names[key]]["versions"]
        flexible = flexible_range({int(v): data for v, data in versions.items()}, "request")
        if flexible:
            first[key] = int(flexible[:-1])
    listed = "".join(f"    {snake(names[k]).upper()}: {v},\n" for k, v in first.items())
    return f'''"""API keys by Kafka's names, and the first flexible version of each API (KIP-482).

The module is small, because every request header imports it. Written by ``tools/make_messages.py``.
"""

from __future__ import annotations

from typing import Final

{constants}
FIRST_FLEXIBLE: Final[dict[int, int]] = {{
{listed}}}
"""The first version of each API with compact types and tagged fields, by API key. An API that has
no such version is missing."""
'''


def index_module(apis: dict[str, Any]) -> str:
    # In reverse order, so that the first, newer name of a key replaces the older name.
    keys = {api["key"]: snake(name) for name, api in reversed(apis.items())}
    by_key = "".join(f"    {key}: {keys[key]!r},\n" for key in sorted(keys))
    by_name = "".join(f"    {name!r}: {snake(name)!r},\n" for name in sorted(apis))
    return f'''"""Every API of Kafka's protocol as a table, by key and by name.

A table is imported on first use, since importing all of them would slow a broker's start. Written
by ``tools/make_messages.py``; ``docs/internals/protocol.md`` explains the notation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final, Generic, TypeVar

from protocol.schema import Api

Key = TypeVar("Key")


class Tables(Mapping[Key, Api], Generic[Key]):
    """A read-only dict of APIs that imports the module of an API on its first use."""

    def __init__(self, modules: dict[Key, str]) -> None:
        self._modules = modules
        self._found: dict[Key, Api] = {{}}

    def __getitem__(self, key: Key) -> Api:
        api = self._found.get(key)
        if api is None:
            module = import_module(f"protocol.messages.{{self._modules[key]}}")
            api = self._found[key] = module.API
        return api

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[Key]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


# Kafka 4.1 gave key 74 a new name and a version 1; the old name has no key here.
BY_KEY: Final[Tables[int]] = Tables({{
{by_key}}})
"""Every API by its key, ordered by key: BY_KEY[8]."""

BY_NAME: Final[Tables[str]] = Tables({{
{by_name}}})
"""Every API by Kafka's name: BY_NAME["OffsetCommit"]."""
'''


def main() -> None:
    apis = json.loads((SCHEMAS / "api.json").read_text())
    records = json.loads((SCHEMAS / "records.json").read_text())
    facts = json.loads((SCHEMAS / "defaults.json").read_text())
    for name, api in apis.items():
        (MESSAGES / f"{snake(name)}.py").write_text(api_module(name, api, facts))
    (MESSAGES / "__init__.py").write_text(index_module(apis))
    api_keys = TOP / "protocol" / "api_keys.py"
    api_keys.write_text(keys_module(apis))
    log_records = TOP / "protocol" / "log_records.py"
    log_records.write_text(records_module(records, facts))
    for command in (["check", "--fix", "--quiet", "--select", "I,W"], ["format", "--quiet"]):
        subprocess.run(
            [sys.executable, "-m", "ruff", *command, MESSAGES, log_records, api_keys], check=True
        )
    print(f"{len(apis)} APIs, {len(records)} log records")


if __name__ == "__main__":
    main()
