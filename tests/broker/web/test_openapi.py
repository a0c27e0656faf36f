"""The file broker/web/openapi.json describes each route of the HTTP server and the fields of its
responses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Match

from tests.broker import openapi
from tests.broker.openapi import DOCUMENT, PATHS, SCHEMAS, WATCHED
from tests.broker.seen import seeing

PAGE = Path(__file__).parents[3] / "docs" / "use" / "http-api.md"
UNNAMED = re.compile(r"\{rest:\w+\}")
SAMPLE = {"name": "index.html", "partition": "0", "broker": "1"}
"""Values for path parameters. A parameter that is not listed here has the value `sample`."""


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: SAMPLE.get(found[1], "sample"), path)


async def test_openapi_file_describes_exactly_the_routes_of_the_server(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        assert (await seen.get("/livez")).status_code == 200
        assert seen.broker.pages is not None
        routes = seen.broker.pages.routes()

    found: dict[str, set[str]] = {route.path: set() for route in routes}
    for path in PATHS:
        scope = {"type": "http", "method": "GET", "path": filled(path), "headers": []}
        matching = [each for each in routes if each.matches(scope)[0] is Match.FULL]
        assert matching, f"{path} is described and not served"
        found[matching[0].path].add(path)
    assert [route for route, paths in found.items() if not paths] == []
    for route, paths in found.items():
        if not UNNAMED.search(route):
            assert paths == {route}, f"{route} has its own words in the file"


async def test_response_of_each_path_matches_the_openapi_file(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit("sample", 0)
        for path in PATHS:
            if path != "/api/live":
                answer = await seen.get(filled(path).replace("/topics/sample", "/topics/orders"))
                openapi.response_of(path, answer.status_code)
        assert (await seen.get("/api/openapi.json")).json() == DOCUMENT


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        (path, each["name"])
        for path, item in PATHS.items()
        for each in item["get"].get("parameters", ())
        if each["in"] == "path"
    ],
)
def test_declared_parameters_of_an_openapi_path_equal_the_names_in_its_braces(
    path: str, parameter: str
) -> None:
    names = [each["name"] for each in PATHS[path]["get"]["parameters"] if each["in"] == "path"]
    assert parameter in names
    assert sorted(names) == sorted(re.findall(r"\{(\w+)\}", path))


def schemas() -> Iterator[tuple[str, Any]]:
    """Yields every schema in the file with its location."""
    yield from SCHEMAS.items()
    for path, item in PATHS.items():
        for status, response in item["get"]["responses"].items():
            for kind, content in response.get("content", {}).items():
                yield f"{path} {status} {kind}", content["schema"]
    for watch, each in WATCHED.items():
        yield f"{watch} head", each["head"]
        for table, schema in each["tables"].items():
            yield f"{watch} {table}", schema


@pytest.mark.parametrize(("place", "schema"), list(schemas()))
def test_openapi_schema_is_valid_and_each_field_has_a_description(place: str, schema: Any) -> None:
    Draft202012Validator.check_schema(schema)
    for branch in (schema, *schema.get("anyOf", ())):
        properties = branch.get("properties", {})
        assert set(branch.get("required", ())) <= set(properties), place
        assert [name for name, each in properties.items() if "description" not in each] == []


def test_every_openapi_reference_exists_and_every_schema_is_referenced() -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', openapi.FILE.read_text()))
    assert named == set(SCHEMAS)
    responses = set(re.findall(r'"#/components/responses/(\w+)"', openapi.FILE.read_text()))
    assert responses == set(DOCUMENT["components"]["responses"])


def test_openapi_check_rejects_unknown_fields_and_wrong_types() -> None:
    member = {
        "member": "m", "instance": None, "client": "c", "host": "h", "session_timeout_ms": 1,
        "rebalance_timeout_ms": 1, "waits_with": None, "partitions": None, "assignment_bytes": 0,
        "last_heard_ms_ago": 3,
    }  # fmt: skip
    openapi.check(member, openapi.named("Member"), "a member")
    for wrong in (member | {"new": 1}, member | {"host": 7}):
        with pytest.raises(AssertionError):
            openapi.check(wrong, openapi.named("Member"), "a member")


def test_http_api_page_lists_every_path_and_has_at_most_1500_words() -> None:
    text = PAGE.read_text()
    assert [path for path in PATHS if path.startswith("/api") and f"`{path}" not in text] == []
    assert len(text.split()) <= 1500
