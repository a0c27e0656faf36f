"""The HTTP verbs under /test: each verb has its documented effect, and refuses invalid arguments
with a reason."""

from __future__ import annotations

import pytest

from tests.broker.topic_calls import fetch, produce
from tests.tested import Tested
from tests.wire import Wire, batch, values_of


def topics_of(muster: Tested) -> dict[str, int]:
    with Wire(muster.port) as wire:
        answer = wire.call("Metadata", 12, {"topics": None})
    return {topic["name"]: len(topic["partitions"]) for topic in answer["topics"]}


def test_response_to_a_get_request_for_slash_test_contains_every_verb_with_its_arguments(
    muster: Tested,
) -> None:
    verbs = {(each["method"], each["path"]): each for each in muster.get("")["verbs"]}

    assert verbs[("POST", "/test/topics/delete")] == {
        "method": "POST",
        "path": "/test/topics/delete",
        "help": "deletes topics with their records and committed offsets",
        "arguments": [
            {
                "name": "names",
                "type": "list of texts",
                "required": True,
                "help": "the topics' names",
            }
        ],
    }
    assert all(each["help"] for each in verbs.values())


def test_topics_exist_when_the_topics_verb_returns(muster: Tested) -> None:
    made = muster.post(
        "/topics",
        topics=[
            {"name": "orders", "partitions": 3, "configs": {"retention.ms": 1000}},
            {"name": "payments"},
        ],
    )

    assert made["topics"] == [
        {"name": "orders", "partitions": 3},
        {"name": "payments", "partitions": 1},
    ]
    assert topics_of(muster) == {"orders": 3, "payments": 1}


def test_deleted_topics_do_not_exist_when_the_delete_verb_returns(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "orders"}, {"name": "payments"}])

    muster.post("/topics/delete", names=["orders"])

    assert topics_of(muster) == {"payments": 1}


def test_broker_is_empty_and_keeps_its_address_after_a_reset(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "orders"}])
    with Wire(muster.port) as wire:
        produce(wire, "orders", batch(b"one"))
        assert values_of(fetch(wire, "orders")["records"]) == [b"one"]

    muster.post("/reset")

    assert topics_of(muster) == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/resett", {}, 404, "verb POST /test/resett; did you mean POST /test/reset?"),
        ("GET", "/reset", None, 404, "verb GET /test/reset; did you mean POST /test/reset?"),
        ("POST", "/what", {}, 404, "unknown verb POST /test/what; GET /test lists all verbs"),
        ("POST", "/isolate", {}, 404, "/test/isolate: a single test broker does not have this"),
        ("POST", "/reset", {"x": 1}, 400, "unknown argument 'x'; its arguments: none"),
        ("POST", "/reset", b"{", 400, "POST /test/reset: the body is not JSON: "),
        ("POST", "/reset", [1], 400, "the body must be a JSON object"),
        ("POST", "/reset", b"x" * 2_000_000, 400, "the body has more than 1048576 bytes"),
        ("GET", "/lines?limit=x", None, 400, 'limit is "x"; it must be a whole number, 1 or more'),
        ("GET", "/lines?limit=0", None, 400, 'limit is "0"; it must be a whole number, 1 or more'),
        ("POST", "/topics", {}, 400, "topics is missing: "),
        ("POST", "/topics", {"topics": "a"}, 400, 'topics is "a"; it must be a list of objects'),
        ("POST", "/topics", {"topics": [{}]}, 400, "name is missing: the topic's name"),
        ("POST", "/topics", {"topics": [{"name": 1}]}, 400, "1; it must be a non-empty string"),
        ("POST", "/topics", {"topics": [{"name": "a/b"}]}, 400, "can't create 'a/b': "),
        ("POST", "/topics", {"topics": [{"name": "a", "configs": {"x": 1}}]}, 400,
            "can't create 'a': Unknown topic config name: x"),
        ("POST", "/topics/delete", {"names": ["a"]}, 409, "topic 'a' does not exist"),
        ("POST", "/topics/delete", {"names": [1]}, 400, "names is [1]; it must be a list of"),
    ],
)  # fmt: skip
def test_invalid_request_of_a_verb_is_refused_with_the_reason(
    muster: Tested, method: str, path: str, body: object, status: int, sentence: str
) -> None:
    got, said = muster.refused(method, path, body)

    assert got == status
    assert sentence in said
    assert "\n" not in said
