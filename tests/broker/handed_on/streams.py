"""Cases in which another reader uses a live HTTP stream, or the same reader with another credential
or after its rights were revoked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.broker.handed_on.scene import ALICE, BOB, METRICS_TOKEN, Scene
from tests.broker.handed_on.table import Kind, Misuse, case

WITHIN_S = 30


@contextmanager
def watching(scene: Scene, headers: dict[str, str]) -> Iterator[Iterator[dict[str, Any]]]:
    """Opens a stream of all topics. Yields its events."""
    url = f"http://{scene.address}/api/live?watch=topics"
    with httpx.stream("GET", url, headers=headers, timeout=WITHIN_S) as answer:
        assert answer.status_code == 200
        yield _events(answer)


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    deadline_s = time.monotonic() + WITHIN_S
    for line in answer.iter_lines():
        assert time.monotonic() < deadline_s
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def topics_in(event: dict[str, Any]) -> set[str]:
    """Returns the topics that the event adds or changes."""
    return {key for table, key, value in event["rows"] if table == "topic" and value is not None}


@case(Kind.LIVE_STREAM, Misuse.BY_ANOTHER)
def a_stream_shows_what_its_own_reader_may_see(scene: Scene) -> None:
    hers, his = scene.topic(), scene.topic()
    scene.grant(ALICE, f"DESCRIBE TOPIC {hers}")
    scene.grant(BOB, f"DESCRIBE TOPIC {his}")
    with (
        watching(scene, scene.headers(ALICE)) as alices,
        watching(scene, scene.headers(BOB)) as bobs,
    ):
        assert {hers, his} & topics_in(next(alices)) == {hers}
        assert {hers, his} & topics_in(next(bobs)) == {his}


@case(Kind.LIVE_STREAM, Misuse.IN_ANOTHER_ROLE)
def the_token_of_metrics_opens_no_stream(scene: Scene) -> None:
    url = f"http://{scene.address}/api/live?watch=topics"
    for headers, status in (({"Authorization": f"Bearer {METRICS_TOKEN}"}, 403), ({}, 401)):
        assert httpx.get(url, headers=headers).status_code == status


@case(Kind.LIVE_STREAM, Misuse.AFTER_REVOCATION)
def a_topic_leaves_a_stream_with_the_right_to_see_it(scene: Scene) -> None:
    topic = scene.topic()
    scene.grant(ALICE, f"DESCRIBE TOPIC {topic}")
    with watching(scene, scene.headers(ALICE)) as events:
        assert topic in topics_in(next(events))
        scene.revoke(ALICE, f"DESCRIBE TOPIC {topic}")
        with watching(scene, scene.headers(ALICE)) as others:
            assert topic not in topics_in(next(others)), "of the same reader, opened afterwards"
        assert any([table, key] == ["topic", topic] and value is None
                   for event in events for table, key, value in event["rows"])  # fmt: skip


@case(Kind.LIVE_STREAM, Misuse.AFTER_REVOCATION)
def a_stream_ends_with_its_reader(scene: Scene) -> None:
    name = scene.name("scram")
    scene.add_scram_user(name)
    with watching(scene, scene.headers(name)) as events:
        next(events)
        scene.remove_scram_user(name)
        for _ in events:
            pass
    url = f"http://{scene.address}/api/topics"
    assert httpx.get(url, headers=scene.headers(name)).status_code == 401
