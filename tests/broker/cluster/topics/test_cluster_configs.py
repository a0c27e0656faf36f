"""Tests that settings in ZooKeeper take effect on every broker soon after any client has written
them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker.cluster.zookeeper.followed_notices import NOTICES_KEPT_MS
from broker.topics.config_changes import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigRefused
from broker.topics.registry import OFFSETS_TOPIC
from protocol.errors import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.znodes import configs
from tests.broker.cluster.topics.settings_scene import CHANGES, Conduct, Scene, play

RETENTION = "retention.ms"
Played = Callable[[Conduct], None]


@pytest.fixture
def run_in_scene(tmp_path: Path) -> Played:
    return partial(play, tmp_path)


def test_topic_settings_written_by_another_client_take_effect(run_in_scene: Played) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn("t")
        await scene.settle()
        await scene.write("topics/t", {RETENTION: "5"})
        await scene.until(lambda: scene.retention_ms == 5)
        assert scene.registry.topics["t"].configs == {RETENTION: "5"}
        await scene.write("topics/t", {})
        await scene.until(lambda: scene.retention_ms == 604_800_000)
        assert scene.registry.topics["t"].configs == {}

    run_in_scene(conduct)


def test_new_topic_has_settings_that_were_written_before_its_creation(run_in_scene: Played) -> None:
    """The settings are written without a change notice."""

    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        await scene.other.create("/config/topics/t", configs.encode_config({RETENTION: "5"}))
        await scene.settle()
        assert scene.own() == {}
        scene.learn("t")
        await scene.until(lambda: scene.own() == {RETENTION: "5"})
        assert scene.retention_ms == 5

    run_in_scene(conduct)


def test_config_notices_written_before_the_start_are_applied(run_in_scene: Played) -> None:
    async def conduct(scene: Scene) -> None:
        await scene.write("topics/t", {RETENTION: "5"})
        scene.learn("t")
        scene.configs.start()
        await scene.until(lambda: scene.retention_ms == 5)

    run_in_scene(conduct)


@pytest.mark.parametrize(
    "bad",
    [
        b"?",
        b"",
        {"version": 3},
        {"version": 2, "entity_path": "weather/rain"},
        {"version": 2, "entity_path": ""},
        {"version": 1, "entity_type": "topics"},
        {"version": 2, "entity_path": "topics/never"},
        {"version": 2, "entity_path": "topics/"},
        {"version": 2, "entity_path": "ips/127.0.0.1"},
        {"version": 2, "entity_path": "users/u/clients/c"},
        {"version": 2, "entity_path": "users/u/clients"},
        {"version": 2, "entity_path": "clients/../topics"},
        {"version": 2, "entity_path": "clients/"},
    ],
)
def test_config_notice_after_an_invalid_notice_is_applied(
    run_in_scene: Played, bad: object
) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn("t")
        await scene.notice(bad)
        await scene.write("topics/t", {RETENTION: "5"})
        await scene.until(lambda: scene.retention_ms == 5)
        assert not scene.errors.counts.total()

    run_in_scene(conduct)


def test_config_notice_of_an_old_tool_is_applied(run_in_scene: Played) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn("t")
        await scene.settle()
        await scene.other.create("/config/topics/t", configs.encode_config({RETENTION: "5"}))
        await scene.notice({"version": 1, "entity_type": "topics", "entity_name": "t"})
        await scene.until(lambda: scene.retention_ms == 5)

    run_in_scene(conduct)


def test_invalid_settings_are_ignored_and_kept_in_the_zookeeper_node(run_in_scene: Played) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn("t")
        strange = {"later.setting": "x", "segment.bytes": "few"}
        await scene.write("topics/t", {RETENTION: "5", **strange})
        await scene.until(lambda: scene.retention_ms == 5)
        assert scene.own() == {RETENTION: "5"}

        await scene.changes.change(
            TOPIC_RESOURCE, "t", lambda own, *_: {**own, "segment.ms": "7"}, False
        )
        data, _ = await scene.other.get("/config/topics/t")
        there = configs.decode_config("", data)
        assert there == {RETENTION: "5", "segment.ms": "7", **strange}
        await scene.write("topics/t", b"not JSON")
        await scene.until(lambda: scene.own() == {})

    run_in_scene(conduct)


def test_offsets_topic_stays_compacted_when_zookeeper_has_cleanup_policy_delete(
    run_in_scene: Played,
) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn(OFFSETS_TOPIC)
        await scene.write(f"topics/{OFFSETS_TOPIC}", {"cleanup.policy": "delete", RETENTION: "5"})
        await scene.until(lambda: RETENTION in scene.own(OFFSETS_TOPIC))
        assert scene.own(OFFSETS_TOPIC)["cleanup.policy"] == "compact"

    run_in_scene(conduct)


def test_cluster_default_settings_and_settings_of_the_broker_itself_take_effect(
    run_in_scene: Played,
) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        await scene.write("brokers/<default>", {"log.retention.ms": "7", "num.io.threads": "9"})
        await scene.until(lambda: scene.retention_ms == 7)
        assert scene.config.dynamic_default == {"log.retention.ms": "7"}
        await scene.write("brokers/1", {"log.retention.ms": "8"})
        await scene.until(lambda: scene.retention_ms == 8)
        await scene.write("brokers/2", {"log.retention.ms": "9"})
        await scene.write("brokers/1", {})
        await scene.until(lambda: scene.retention_ms == 7)
        assert scene.applied

    run_in_scene(conduct)


def test_controller_is_notified_only_when_unclean_leader_election_enable_changes(
    run_in_scene: Played,
) -> None:
    async def conduct(scene: Scene) -> None:
        unclean = "unclean.leader.election.enable"
        scene.configs.start()
        scene.learn("t")
        await scene.write("topics/t", {RETENTION: "5"})
        await scene.write("brokers/<default>", {"log.retention.ms": "7"})
        await scene.until(lambda: scene.config.dynamic_default != {})
        assert scene.unclean == []
        await scene.write("topics/t", {unclean: "true"})
        await scene.until(lambda: scene.unclean == ["t"])
        await scene.write("brokers/<default>", {unclean: "true"})
        await scene.until(lambda: scene.unclean == ["t", ""])
        await scene.changes.change(BROKER_RESOURCE, "", lambda *_: {unclean: "false"}, False)
        await scene.until(lambda: scene.unclean == ["t", "", ""])

    run_in_scene(conduct)


def test_old_config_notices_are_removed_when_a_new_notice_is_applied(run_in_scene: Played) -> None:
    async def conduct(scene: Scene) -> None:
        ensemble = scene.zookeeper.ensemble
        scene.configs.start()
        scene.learn("t")
        await scene.write("topics/t", {RETENTION: "5"})
        await scene.settle()
        ensemble.now_ms += NOTICES_KEPT_MS
        scene.time.move(NOTICES_KEPT_MS)
        await scene.write("topics/t", {RETENTION: "6"})
        await scene.until(lambda: scene.retention_ms == 6)
        # One notice is exactly as old as allowed.
        assert len(await scene.other.children(CHANGES)) == 2
        scene.time.move(1)
        await scene.write("topics/t", {RETENTION: "7"})
        await scene.until(lambda: scene.retention_ms == 7)
        await scene.settle()
        assert sorted(await scene.other.children(CHANGES)) == [
            "config_change_0000000001",
            "config_change_0000000002",
        ]

    run_in_scene(conduct)


@pytest.mark.proves("clusters 20")
@pytest.mark.parametrize("loss", ["lose_connection", "expire"])
def test_settings_changed_during_a_lost_connection_take_effect(
    run_in_scene: Played, loss: str
) -> None:

    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn("t")
        await scene.settle()
        scene.zookeeper.suspend()
        await scene.write("topics/t", {RETENTION: "5"})
        await scene.other.create("/config/topics/u", configs.encode_config({RETENTION: "6"}))
        scene.learn("t", "u")
        await scene.settle()
        assert scene.own() == scene.own("u") == {}
        if loss == "expire":
            scene.zookeeper.ensemble.end_session(scene.zookeeper.session)
        scene.zookeeper.resume()
        await scene.until(lambda: scene.retention_ms == 5 and scene.own("u") == {RETENTION: "6"})
        await scene.write("topics/t", {RETENTION: "7"})
        await scene.until(lambda: scene.retention_ms == 7)

    run_in_scene(conduct)


@pytest.mark.proves("clusters 20")
def test_read_of_settings_is_repeated_when_its_zookeeper_session_ended(
    run_in_scene: Played,
) -> None:
    """The session ends during the read that a watch started. This read fails, and sets no watch."""

    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        scene.learn("t")
        await scene.settle()
        scene.zookeeper.suspend()
        await scene.settle()  # The watch has fired, and its read waits.
        await scene.write("topics/t", {RETENTION: "5"})
        scene.zookeeper.ensemble.end_session(scene.zookeeper.session)
        scene.zookeeper.resume()
        await scene.until(lambda: scene.retention_ms == 5)

    run_in_scene(conduct)


def test_settings_change_is_written_with_a_notice_and_applied_immediately(
    run_in_scene: Played,
) -> None:
    async def conduct(scene: Scene) -> None:
        scene.learn("t")
        await scene.changes.change(TOPIC_RESOURCE, "t", lambda *_: {RETENTION: "5"}, False)

        assert scene.retention_ms == 5
        data, _ = await scene.other.get("/config/topics/t")
        assert json.loads(data) == {"version": 1, "config": {RETENTION: "5"}}
        (notice,) = await scene.other.children(CHANGES)
        data, _ = await scene.other.get(f"{CHANGES}/{notice}")
        assert json.loads(data) == {"version": 2, "entity_path": "topics/t"}

        await scene.changes.change(
            BROKER_RESOURCE, "1", lambda *_: {"log.retention.ms": "9"}, False
        )
        await scene.changes.change(
            BROKER_RESOURCE, "", lambda *_: {"log.segment.bytes": "99"}, False
        )
        for path, want in (
            ("brokers/1", {"log.retention.ms": "9"}),
            ("brokers/<default>", {"log.segment.bytes": "99"}),
        ):
            data, _ = await scene.other.get(f"/config/{path}")
            assert configs.decode_config("", data) == want
        assert scene.config["log.retention.ms"] == 9
        assert scene.config["log.segment.bytes"] == 99

    run_in_scene(conduct)


def test_settings_change_keeps_settings_that_the_broker_has_not_read_yet(
    run_in_scene: Played,
) -> None:
    async def conduct(scene: Scene) -> None:
        scene.learn("t")
        await scene.write("topics/t", {RETENTION: "5"})  # No broker follows notices in this test.
        await scene.changes.change(
            TOPIC_RESOURCE, "t", lambda own, *_: {**own, "segment.ms": "7"}, False
        )
        assert scene.own() == {RETENTION: "5", "segment.ms": "7"}

    run_in_scene(conduct)


def test_settings_change_that_is_refused_or_only_validated_writes_no_node(
    run_in_scene: Played,
) -> None:
    async def conduct(scene: Scene) -> None:
        scene.learn("t")
        await scene.changes.change(TOPIC_RESOURCE, "t", lambda *_: {RETENTION: "5"}, True)
        for kind, name, settings, error_code in (
            (TOPIC_RESOURCE, "t", {RETENTION: "long"}, INVALID_CONFIG),
            (TOPIC_RESOURCE, "never", {}, UNKNOWN_TOPIC_OR_PARTITION),
            (BROKER_RESOURCE, "2", {}, INVALID_REQUEST),
        ):
            with pytest.raises(ConfigRefused) as refused:
                await scene.changes.change(kind, name, lambda *_, s=settings: s, False)  # type: ignore[misc]
            assert refused.value.error_code == error_code
        assert await scene.other.children(CHANGES) == []
        await scene.zookeeper.close()
        with pytest.raises(ConfigRefused) as refused:
            await scene.changes.change(TOPIC_RESOURCE, "t", lambda *_: {RETENTION: "5"}, False)
        assert refused.value.error_code == REQUEST_TIMED_OUT

    run_in_scene(conduct)


@pytest.mark.parametrize("setting", ["ssl.keystore.password", "ssl.keystore.key"])
def test_password_setting_is_refused_in_a_cluster(run_in_scene: Played, setting: str) -> None:
    whole = f"listener.name.plaintext.{setting}"

    async def conduct(scene: Scene) -> None:
        for validate_only in (True, False):
            with pytest.raises(ConfigRefused) as refused:
                await scene.changes.change(
                    BROKER_RESOURCE, "1", lambda *_: {whole: "planted"}, validate_only
                )
            assert refused.value.error_code == INVALID_REQUEST
            assert refused.value.message == (
                f"Cannot update {whole} dynamically: in a cluster it would be stored in ZooKeeper"
                " in plain text; use a PEM file, which needs no password"
            )
        assert "planted" not in str(scene.zookeeper.ensemble.nodes)

    run_in_scene(conduct)
