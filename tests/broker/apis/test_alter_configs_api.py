"""Tests AlterConfigs and IncrementalAlterConfigs in every version, with every operation and every
refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker.config.dynamic_settings import DYNAMIC, SHOWN_WHEN_SET
from protocol.errors import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.config_calls import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    Operation,
    alter,
    described,
    replace,
    synonyms_of,
    value_of,
)
from tests.broker.topic_calls import create_topic
from tests.brokers import Broker
from tests.wire import Wire

OWN, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
EVERY_BROKER = ""


@pytest.fixture
def changed(wire: Wire) -> Iterator[Wire]:
    """Yields a connection to the shared broker. Deletes the dynamic settings after the test."""
    yield wire
    for name in ("1", EVERY_BROKER):
        assert replace(wire, name, {}, kind=BROKER) == (NONE, None)


# -- topics


@pytest.mark.parametrize("version", range(2))
def test_incremental_alter_sets_and_deletes_settings_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, configs={"segment.bytes": "5000"})

    assert alter(
        wire, name, ("retention.ms", SET, "9"), ("segment.bytes", DELETE, None), version=version
    ) == (NONE, None)

    assert value_of(wire, name, "retention.ms") == ("9", OWN)
    assert value_of(wire, name, "segment.bytes") == ("1073741824", DEFAULT)


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_settings_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, configs={"segment.bytes": "5000", "retention.ms": "1"})

    assert replace(wire, name, {"retention.ms": "9"}, version=version) == (NONE, None)

    assert value_of(wire, name, "retention.ms") == ("9", OWN)
    assert value_of(wire, name, "segment.bytes") == ("1073741824", DEFAULT)


def test_append_and_subtract_operations_change_list_settings(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    policy = "cleanup.policy"

    assert alter(wire, name, (policy, APPEND, "compact")) == (NONE, None)
    assert value_of(wire, name, policy) == ("delete,compact", OWN), "the default is kept"
    assert alter(wire, name, (policy, APPEND, "compact,compact")) == (NONE, None)
    assert value_of(wire, name, policy) == ("delete,compact", OWN), "nothing stands there twice"
    assert alter(wire, name, (policy, SUBTRACT, "delete")) == (NONE, None)
    assert value_of(wire, name, policy) == ("compact", OWN)
    throttled = "follower.replication.throttled.replicas"
    assert alter(wire, name, (throttled, APPEND, "0:1,1:1")) == (NONE, None)
    assert alter(wire, name, (throttled, SUBTRACT, "0:1")) == (NONE, None)
    assert value_of(wire, name, throttled) == ("1:1", OWN)
    assert alter(wire, name, (throttled, SET, "*")) == (NONE, None)


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [
        (("no.such", SET, "1"), "Unknown topic config name: no.such"),
        (("log.retention.ms", SET, "1"), "Unknown topic config name: log.retention.ms"),
        (("retention.ms", SET, "soon"), "retention.ms=soon: it must be a whole number"),
        (("retention.ms", SET, "-2"), "retention.ms=-2: it must be at least -1"),
        (("cleanup.policy", SET, "burn"), "cleanup.policy=burn: it must be one of"),
        (("retention.ms", APPEND, "1"), "Can't append to retention.ms: its type is LONG, not LIST"),
        (("leader.replication.throttled.replicas", SET, "0:1,2"), "leader.replication.throttled"),
        (("min.insync.replicas", SET, "0"), "min.insync.replicas=0: it must be at least 1"),
        (
            ("message.format.version", SET, "soon"),
            "message.format.version: 'soon' is not a Kafka version",
        ),
        (("preallocate", SET, "maybe"), "preallocate=maybe: it must be true or false"),
        (
            ("min.cleanable.dirty.ratio", SET, "2"),
            "min.cleanable.dirty.ratio=2: it must be at most",
        ),
        (("min.compaction.lag.ms", SET, "9" * 18), None),
    ],
)
def test_invalid_topic_setting_refuses_all_changes_of_its_resource(
    wire: Wire, name: str, operation: Operation, sentence: str | None
) -> None:
    create_topic(wire, name, configs={"max.compaction.lag.ms": "5000"})
    before = described(wire, name)

    code, message = alter(wire, name, ("segment.ms", SET, "77"), operation)

    assert code == INVALID_CONFIG
    assert (message or "").startswith(sentence or "min.compaction.lag.ms must not be above max")
    assert described(wire, name) == before, "nothing of a request that is refused is done"


@pytest.mark.parametrize(
    ("operations", "sentence"),
    [
        ([("retention.ms", SET, None)], "Null value not supported for: retention.ms"),
        ([("retention.ms", 4, "1")], "Unknown operation type 4"),
        ([("retention.ms", -1, "1")], "Unknown operation type -1"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], "Error due to duplicate"),
    ],
)
def test_invalid_operation_of_incremental_alter_is_refused(
    wire: Wire, name: str, operations: list[Operation], sentence: str
) -> None:
    create_topic(wire, name)

    code, message = alter(wire, name, *operations)

    assert code == INVALID_REQUEST
    assert (message or "").startswith(sentence)


def test_alter_configs_refuses_a_null_value(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    assert replace(wire, name, {"retention.ms": None})[0] == INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "resource", "error_code"),
    [
        (TOPIC, "not-there", UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "not legal", INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", INVALID_REQUEST),
        (BROKER, "2", INVALID_REQUEST),
        (BROKER, "one", INVALID_REQUEST),
        (BROKER_LOGGER, "1", INVALID_REQUEST),
        (77, "x", INVALID_REQUEST),
    ],
)
def test_alter_of_an_unknown_or_unsupported_resource_is_an_error(
    wire: Wire, kind: int, resource: str, error_code: int
) -> None:
    for code, message in (
        alter(wire, resource, ("retention.ms", SET, "1"), kind=kind),
        replace(wire, resource, {"retention.ms": "1"}, kind=kind),
    ):
        assert code == error_code
        assert message


def test_resources_of_one_request_are_altered_independently(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    configs = [{"name": "retention.ms", "config_operation": SET, "value": "5"}]
    resources = [
        {"resource_type": TOPIC, "resource_name": each, "configs": configs}
        for each in (name, "not-there", "twice", "twice")
    ]

    answer = wire.call("IncrementalAlterConfigs", 1, {"resources": resources})

    assert [(each["resource_name"], each["error_code"]) for each in answer["responses"]] == [
        (name, NONE),
        ("not-there", UNKNOWN_TOPIC_OR_PARTITION),
        ("twice", INVALID_REQUEST),
        ("twice", INVALID_REQUEST),
    ]
    assert value_of(wire, name, "retention.ms") == ("5", OWN)


def test_validate_only_reports_errors_and_changes_no_setting(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    assert alter(wire, name, ("retention.ms", SET, "5"), validate_only=True) == (NONE, None)
    assert replace(wire, name, {"retention.ms": "5"}, validate_only=True) == (NONE, None)
    assert alter(wire, "1", ("log.retention.ms", SET, "5"), kind=BROKER, validate_only=True) == (
        NONE,
        None,
    )
    assert alter(wire, name, ("retention.ms", SET, "x"), validate_only=True)[0] == INVALID_CONFIG
    assert value_of(wire, name, "retention.ms") == ("604800000", DEFAULT)


# -- brokers


def test_dynamic_broker_setting_overrides_cluster_default_and_file(
    brokers: Callable[..., Broker], name: str
) -> None:
    with Wire(brokers({"log.retention.ms": "4000", "log.retention.hours": "1"}).port) as wire:
        create_topic(wire, name)
        setting = "log.retention.ms"
        by_file = [(setting, "4000", STATIC), ("log.retention.hours", "1", STATIC)]
        fallback = [("log.retention.hours", "168", DEFAULT)]

        assert alter(wire, EVERY_BROKER, (setting, SET, "3000"), kind=BROKER) == (NONE, None)
        assert value_of(wire, name, "retention.ms") == ("3000", DYNAMIC_DEFAULT)
        assert alter(wire, "1", (setting, SET, "2000"), kind=BROKER) == (NONE, None)
        assert value_of(wire, name, "retention.ms") == ("2000", DYNAMIC_BROKER)
        assert alter(wire, name, ("retention.ms", SET, "1000")) == (NONE, None)
        assert value_of(wire, name, "retention.ms") == ("1000", OWN)

        run_time = [(setting, "2000", DYNAMIC_BROKER), (setting, "3000", DYNAMIC_DEFAULT)]
        whole = run_time + by_file + fallback
        assert synonyms_of(wire, name, "retention.ms") == [("retention.ms", "1000", OWN), *whole]
        assert synonyms_of(wire, "1", setting, BROKER) == whole
        assert synonyms_of(wire, EVERY_BROKER, setting, BROKER) == [run_time[1]]

        for undo, left in (("1", "3000"), (EVERY_BROKER, "4000")):
            assert alter(wire, undo, (setting, DELETE, None), kind=BROKER) == (NONE, None)
            assert value_of(wire, "1", setting, BROKER)[0] == left


def test_alter_configs_replaces_dynamic_settings_of_a_broker(changed: Wire) -> None:
    assert replace(changed, "1", {"log.retention.ms": "9", "log.roll.ms": "8"}, kind=BROKER) == (
        NONE,
        None,
    )
    assert replace(changed, "1", {"log.roll.ms": "7"}, kind=BROKER) == (NONE, None)

    assert value_of(changed, "1", "log.roll.ms", BROKER) == ("7", DYNAMIC_BROKER)
    assert value_of(changed, "1", "log.retention.ms", BROKER) == (None, DEFAULT)


def test_append_operation_extends_the_default_of_a_broker_setting_whose_value_is_a_list(
    changed: Wire,
) -> None:
    operation = ("log.cleanup.policy", APPEND, "compact")

    assert alter(changed, EVERY_BROKER, operation, kind=BROKER) == (NONE, None)
    assert value_of(changed, "1", "log.cleanup.policy", BROKER) == (
        "delete,compact",
        DYNAMIC_DEFAULT,
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no.such", "Unknown broker config name: no.such"),
        ("retention.ms", "Unknown broker config name: retention.ms"),
        ("num.partitions", "set it in the properties file, and restart the broker"),
        ("listeners", "set it in the properties file, and restart the broker"),
        ("log.retention.hours", "set it in the properties file, and restart the broker"),
        ("num.io.threads", "it has no effect on this broker"),
        ("background.threads", "it has no effect on this broker"),
    ],
)
@pytest.mark.parametrize("broker_id", ["1", EVERY_BROKER])
def test_alter_of_a_broker_setting_that_is_not_dynamic_is_refused(
    wire: Wire, broker_id: str, name: str, sentence: str
) -> None:
    code, message = alter(wire, broker_id, (name, SET, "1"), kind=BROKER)

    assert code == INVALID_REQUEST
    assert sentence in (message or "")


@pytest.mark.parametrize(
    ("setting", "text", "sentence"),
    [
        ("log.retention.ms", "soon", "it must be a whole number"),
        ("log.segment.bytes", "3", "it must be at least 14"),
        ("max.connections.per.ip.overrides", "here", "it must be ADDRESS:NUMBER"),
    ],
)
def test_invalid_value_of_a_broker_setting_is_refused(
    wire: Wire, setting: str, text: str, sentence: str
) -> None:
    code, message = alter(wire, "1", (setting, SET, text), kind=BROKER)

    assert code == INVALID_REQUEST
    assert sentence in (message or "")


def test_broker_setting_is_refused_when_it_makes_settings_of_a_topic_invalid(
    changed: Wire, name: str
) -> None:
    create_topic(changed, name, configs={"max.compaction.lag.ms": "5000"})
    operation = ("log.cleaner.min.compaction.lag.ms", SET, "6000")

    code, message = alter(changed, EVERY_BROKER, operation, kind=BROKER)

    assert code == INVALID_REQUEST
    assert "invalid: min.compaction.lag.ms" in (message or "")


def test_broker_settings_are_described_as_read_only_unless_dynamic(wire: Wire) -> None:
    told = described(wire, "1", BROKER)

    changeable = {name for name, entry in told.items() if not entry["read_only"]}
    assert changeable == DYNAMIC - SHOWN_WHEN_SET


@pytest.mark.campaign
def test_altered_settings_survive_kill_9(brokers: Callable[..., Broker], name: str) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name, 3)
        assert alter(wire, name, ("retention.ms", SET, "5")) == (NONE, None)
        assert alter(wire, "1", ("log.roll.ms", SET, "6"), kind=BROKER) == (NONE, None)
        assert alter(wire, EVERY_BROKER, ("log.roll.ms", SET, "7"), kind=BROKER) == (NONE, None)
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert value_of(wire, name, "retention.ms") == ("5", OWN)
        assert value_of(wire, name, "segment.ms") == ("6", DYNAMIC_BROKER)
        assert len(synonyms_of(wire, name, "segment.ms")) == 3


def test_create_partitions_keeps_the_settings_of_the_topic(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    alter(wire, name, ("retention.ms", SET, "5"))
    grown = {"name": name, "count": 3, "assignments": None}
    answer = wire.call("CreatePartitions", 3, {"topics": [grown], "timeout_ms": 1000})

    assert answer["results"][0]["error_code"] == NONE
    assert value_of(wire, name, "retention.ms") == ("5", OWN)


@pytest.mark.campaign
def test_stored_setting_that_contradicts_the_settings_file_is_ignored_and_logged(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        low, high = (
            ("log.cleaner.min.compaction.lag.ms", SET, "6000"),
            ("log.roll.ms", SET, "9"),
        )
        assert alter(wire, "1", low, high, kind=BROKER) == (NONE, None)
    broker.stop()
    broker.settings["log.cleaner.max.compaction.lag.ms"] = "5000"
    broker.log.clear()
    broker.start()

    with Wire(broker.port) as wire:
        assert value_of(wire, "1", low[0], BROKER) == ("0", DEFAULT)
        assert value_of(wire, "1", "log.roll.ms", BROKER) == ("9", DYNAMIC_BROKER)
    (line,) = [line for line in broker.lines() if "dynamic config ignored" in line]
    assert low[0] in line


@pytest.mark.parametrize("resource", ["1", EVERY_BROKER])
def test_unsupported_throttle_settings_can_be_deleted_but_not_set(
    wire: Wire, resource: str
) -> None:
    """``kafka-reassign-partitions --verify`` deletes these settings even if they are not set."""
    throttle = "replica.alter.log.dirs.io.max.bytes.per.second"

    assert alter(wire, resource, (throttle, DELETE, None), kind=BROKER) == (NONE, None)
    code, _ = alter(wire, resource, (throttle, SET, "1000"), kind=BROKER)
    assert code == INVALID_REQUEST
