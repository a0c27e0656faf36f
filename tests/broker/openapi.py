"""Checks HTTP responses of the broker against broker/web/openapi.json. The schema allows unknown
fields for later versions, but these checks fail on each field that the schema does not describe."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

FILE = Path(__file__).parents[2] / "broker" / "web" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
PATHS: dict[str, Any] = DOCUMENT["paths"]
WATCHED: dict[str, Any] = PATHS["/api/live"]["get"]["x-watch"]
_AT = "urn:openapi"
CHECKED_BYTES_MAX = 200_000
"""The maximum length of a checked response. A check of a longer response would take seconds."""


def fields(name: str) -> set[str]:
    """Returns the field names of a schema, including the fields of the schemas that it extends."""
    return _fields(SCHEMAS[name])


def _fields(schema: Any) -> set[str]:
    extended = [fields(part["$ref"].rpartition("/")[2]) for part in schema.get("allOf", ())]
    return set(schema.get("properties", ())).union(*extended)


def closed(schema: Any, *, is_part: bool = False) -> Any:
    """Returns a copy of ``schema`` that forbids fields that it does not describe. With ``is_part``,
    the schema is one of several in an ``allOf``. Another part may describe more fields, so the copy
    forbids fields only in its nested schemas."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if "$ref" in schema:
        made["$ref"] = _AT + schema["$ref"]
    if "properties" in schema:
        made["properties"] = {name: closed(each) for name, each in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            made[key] = closed(schema[key])
    for key in ("anyOf", "prefixItems"):
        if key in schema:
            made[key] = [closed(each) for each in schema[key]]
    if "allOf" in schema:
        made["allOf"] = [closed(each, is_part=True) for each in schema["allOf"]]
    if not is_part and {"$ref", "properties", "allOf"} & set(schema):
        made["unevaluatedProperties"] = False
    return made


@cache
def _registry() -> Registry[Any]:
    schemas = {name: closed(each, is_part=True) for name, each in SCHEMAS.items()}
    whole = Resource(contents={"components": {"schemas": schemas}}, specification=DRAFT202012)
    return Registry().with_resource(_AT, whole).crawl()


def check(value: Any, schema: Any, what: str) -> None:
    """Raises an error if ``value`` does not match ``schema`` or has a field that ``schema`` does
    not describe."""
    validator = Draft202012Validator(closed(schema), registry=_registry())
    found = [
        f"{what}: {'.'.join(map(str, error.absolute_path)) or 'top'}: {error.message[:500]}"
        for error in validator.iter_errors(value)
    ]
    assert not found, "\n".join(found)


def named(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))


def described(path: str) -> str | None:
    """Returns the path in openapi.json that matches a request path, or None. If several paths
    match, returns the path with the fewest parameters."""
    path = path.partition("?")[0]
    found = [each for each in PATHS if _pattern(each).fullmatch(path)]
    return min(found, key=lambda each: each.count("{"), default=None)


def response_of(path: str, status: int) -> dict[str, Any]:
    responses = PATHS[path]["get"]["responses"]
    assert str(status) in responses, f"{path}: status {status} is not in openapi.json"
    response: dict[str, Any] = responses[str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return response


def check_answer(path: str, status: int, content_type: str, text: str) -> None:
    """Raises an error if the response to a GET does not match openapi.json."""
    found = described(path)
    if found is None or len(text) > CHECKED_BYTES_MAX:
        return
    content = response_of(found, status).get("content", {})
    kind = content_type.partition(";")[0]
    assert not text or kind in content, f"{found}: {kind} is not in openapi.json"
    if kind == "application/json":
        check(json.loads(text), content[kind]["schema"], path)


def check_event(watch: str, event: Any) -> None:
    """Raises an error if an event of `/api/live` does not match openapi.json."""
    check(event, named("LiveEvent"), watch)
    kind, slash, _ = watch.partition("/")
    (described_as,) = [each for each in WATCHED if each.partition("/")[:2] == (kind, slash)]
    check(event["head"], WATCHED[described_as]["head"], f"{watch}: head")
    for table, key, row in event["rows"]:
        tables = WATCHED[described_as]["tables"]
        if row is not None:
            check(row, tables[table], f"{watch}: {table} {key}")
