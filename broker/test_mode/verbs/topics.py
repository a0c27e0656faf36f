"""The verbs that create and delete topics, in the same way as client requests, and wait for the
result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from broker.apis.create_topics import Refused as NotCreated
from broker.apis.create_topics import create
from broker.apis.shared.services import Services
from broker.test_mode.arguments import (
    OBJECTS,
    POSITIVE,
    SETTINGS,
    TEXT,
    TEXTS,
    Argument,
    values_of,
)
from broker.test_mode.refusals import NotNow, WrongArgument
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs.verb import Answer, Verb
from broker.topics.owned_topics import OWNED
from broker.topics.topic_changes import LEFT_TO_BROKER, PARTITIONS_MAX, NoSuchTopic
from protocol.errors import KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT, TOPIC_ALREADY_EXISTS

_CREATE = "POST /test/topics"
_PASSES = (TOPIC_ALREADY_EXISTS, KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT)
"""The temporary errors, after which the same request may succeed later."""
_OF_TOPIC = (
    Argument("name", TEXT, "the topic's name", required=True),
    Argument("partitions", POSITIVE, "the number of partitions; num.partitions by default"),
    Argument(
        "replication_factor",
        POSITIVE,
        "the number of replicas; default.replication.factor by default",
    ),
    Argument("configs", SETTINGS, "topic configs, under Kafka's names", default={}),
)


async def create_all(tested: TestedBroker, topics: Sequence[Mapping[str, Any]]) -> Answer:
    """Creates topics in order and waits until they can be used. Stops at the first failure. If an
    argument is malformed, creates no topic."""
    wanted = [values_of(_CREATE, _OF_TOPIC, each, as_text=False) for each in topics]
    services = cast(Services, tested.broker.server.services)
    slices = services.slicer.work(_CREATE)
    await slices.pause()
    answers, room = [], PARTITIONS_MAX
    try:
        for each in wanted:
            made = await create(services, slices, _as_in_a_request(each), False, room)
            partitions = len(made.assignment)
            room -= partitions
            answers.append({"name": each["name"], "partitions": partitions})
    except NotCreated as error:
        refusal = NotNow if error.error_code in _PASSES else WrongArgument
        raise refusal(f"{_CREATE}: can't create {each['name']!r}: {error.message}") from None
    finally:
        slices.end()
    return {"topics": answers}


def _as_in_a_request(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": wanted["name"],
        "num_partitions": wanted["partitions"] or LEFT_TO_BROKER,
        "replication_factor": wanted["replication_factor"] or LEFT_TO_BROKER,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in wanted["configs"].items()],
    }


async def delete_all(tested: TestedBroker, names: Sequence[str]) -> Answer:
    """Deletes topics and their committed offsets."""
    verb = "POST /test/topics/delete"
    topics = tested.broker.topics
    for name in names:
        if name in OWNED:
            raise NotNow(
                f"{verb}: {name} belongs to {OWNED[name].owner}; POST /test/reset empties the topic"
            )
        try:
            await topics.delete(name)
        except NoSuchTopic:
            raise NotNow(f"{verb}: topic {name!r} does not exist") from None
        except OSError as error:
            raise NotNow(f"{verb}: can't delete {name!r}: {error.strerror}") from None
    return {}


VERBS = (
    Verb(
        "POST",
        "/topics",
        "creates topics; returns when they can be used",
        create_all,
        (
            Argument(
                "topics", OBJECTS, 'a list of {"name", "partitions", "configs"}', required=True
            ),
        ),
    ),
    Verb(
        "POST",
        "/topics/delete",
        "deletes topics with their records and committed offsets",
        delete_all,
        (Argument("names", TEXTS, "the topics' names", required=True),),
    ),
)
