"""Over HTTP, a reader gets only the data that ListGroups, Metadata and other requests return to the
same principal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.config.config import BadConfig, Config
from broker.web.live.events import Row, Source
from broker.web.live.seen import SeenBy
from broker.web.readers.reader import Asker, JudgedReader
from security.acls.acl_decision import Rule
from security.acls.model import Operation
from security.principal import user
from tests.broker.edge import eventually
from tests.broker.seen import Scrape
from tests.broker.stories import produce
from tests.broker.transaction_stories import opened
from tests.broker.web.live.test_live import Stream
from tests.broker.web.rights import (
    CLUSTER,
    DESCRIBE,
    GROUP,
    ID,
    READ,
    TOPIC,
    SecuredSeen,
    basic,
    securely,
)

SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
    ),
}


@asynccontextmanager
async def busy(tmp_path: Path) -> Any:
    """Yields a broker with two topics, two groups, and an open transaction in one topic. One group
    has committed offsets in both topics."""
    async with securely(tmp_path) as seen:
        await seen.broker.topics.create("hidden", 1, {})
        await produce(seen, 3)
        await opened(seen)  # Transactional id billing-1 writes to orders-0.
        assert await seen.client.commit("mixed", 1) == 0
        assert await seen.client.commit("mixed", 0, topic="hidden") == 0
        assert await seen.client.commit("other", 1) == 0
        yield seen


async def names(seen: SecuredSeen, who: str, path: str, field: str) -> set[str]:
    table = path.rpartition("/")[2]
    return {row[field] for row in (await seen.json(who, path))[table]}


@pytest.mark.proves("security 20")
async def test_http_beyond_loopback_needs_authentication_and_shows_only_topics_with_rights(
    tmp_path: Path,
) -> None:
    """The test covers a secured listener and a plaintext listener."""
    for listeners in (SECURED, {}):
        reached = {**listeners, "http.listener": "0.0.0.0:9644"}
        with pytest.raises(BadConfig, match="without authentication") as refused:
            Config(reached)
        assert "http.unprotected.allowed=true" in str(refused.value)
        Config({**reached, "http.unprotected.allowed": "true"})
        Config({**reached, "http.metrics.token": "a-token-of-enough-characters"})
        Config({**listeners, "http.listener": "127.0.0.1:9644"})
        Config({**listeners, "http.listener": "[::1]:9644"})
        Config({**listeners, "http.listener": "off"})

    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [CLUSTER, (READ, TOPIC, "orders")])
        assert await names(seen, "alice", "/api/topics", "topic") == {"orders"}
        assert await names(seen, "bob", "/api/topics", "topic") == set()
        assert {"orders", "hidden"} <= await names(seen, "admin", "/api/topics", "topic")
        for path in ("/api/topics/hidden", "/api/topics/no-such-topic"):
            answer = await seen.as_("alice", path)
            assert (answer.status_code, answer.json()) == (
                403,
                {"error": f"User:alice may not Describe topic {path.rpartition('/')[2]}"},
            )
        assert seen.rights.told == ["DESCRIBE TOPIC hidden", "DESCRIBE TOPIC no-such-topic"]


async def test_http_reader_gets_the_groups_that_list_groups_returns(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [(DESCRIBE, GROUP, "mixed"), (DESCRIBE, TOPIC, "orders")])
        seen.rights.give("bob", [CLUSTER])
        assert await names(seen, "alice", "/api/groups", "group") == {"mixed"}
        assert await names(seen, "bob", "/api/groups", "group") == {"mixed", "other"}
        assert (await seen.as_("alice", "/api/groups/other")).status_code == 403
        assert (await seen.as_("alice", "/api/groups/other/journal")).status_code == 403

        mine = await seen.json("alice", "/api/groups/mixed")
        assert {row["topic"] for row in mine["offsets"]} == {"orders"}
        assert "hidden" not in json.dumps(mine)
        everything = await seen.json("admin", "/api/groups/mixed")
        assert {row["topic"] for row in everything["offsets"]} == {"orders", "hidden"}
        readers = (await seen.json("alice", "/api/topics/orders"))["groups"]
        assert [row["group"] for row in readers] == ["mixed"]


async def test_verdict_text_does_not_name_a_topic_without_describe_right(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen:
        # Only the hidden topic has unread records, and deleted records cause its lag.
        assert await seen.client.commit("mixed", 7, topic="hidden") == 0
        await seen.broker.verdicts.judge_all()
        whole = await seen.json("admin", "/api/groups/mixed")
        assert "hidden" in whole["sentence"], "or the test shows nothing"
        seen.rights.give("alice", [(DESCRIBE, GROUP, "mixed"), (DESCRIBE, TOPIC, "orders")])
        for path in ("/api/groups", "/api/groups/mixed", "/api/groups/mixed/journal"):
            text = (await seen.as_("alice", path)).text
            assert "mixed" in text
            assert "hidden:" not in text.replace("(hidden)", "")
            assert "hidden-" not in text.replace("(hidden)", "")


async def test_http_shows_transactions_and_blocked_partitions_only_with_describe_right(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [(DESCRIBE, ID, "billing-1")])
        seen.rights.give("bob", [(DESCRIBE, TOPIC, "orders")])

        assert await names(seen, "alice", "/api/transactions", "id") == {"billing-1"}
        assert await names(seen, "bob", "/api/transactions", "id") == set()
        assert (await seen.as_("bob", "/api/transactions/billing-1")).status_code == 403
        told = await seen.json("alice", "/api/transactions/billing-1")
        assert told["partition_list"] == []
        assert "orders" not in json.dumps(told)

        held = (await seen.json("bob", "/api/held"))["partitions"]
        assert [(row["topic"], row["id"]) for row in held] == [("orders", None)]
        assert "billing-1" not in json.dumps(held)
        place = "/api/held?topic=orders&partition=0"
        assert "billing-1" not in (await seen.as_("bob", place)).text
        assert (await seen.as_("alice", place)).status_code == 403


async def test_record_over_http_needs_read_on_the_topic(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen:
        path = "/api/topics/orders/0/record?offset=0"
        seen.rights.give("alice", [(DESCRIBE, TOPIC, "orders")])
        seen.rights.give("bob", [(READ, TOPIC, "orders")])
        assert (await seen.as_("alice", path)).json() == {
            "error": "User:alice may not Read topic orders"
        }
        assert (await seen.json("bob", path))["offset"] == 0


async def test_topic_settings_over_http_need_describe_configs(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [(DESCRIBE, TOPIC, "orders")])
        configs = (Operation.DESCRIBE_CONFIGS, TOPIC, "orders")
        seen.rights.give("bob", [(DESCRIBE, TOPIC, "orders"), configs])
        path = "/api/topics/orders"
        assert (await seen.json("alice", path))["settings"] == []
        shown = {row["name"]: row for row in (await seen.json("bob", path))["settings"]}
        assert shown["retention.ms"]["value"] == "604800000"
        for who, tables in (("alice", {"partition"}), ("bob", {"partition", "setting"})):
            async with following(seen, who, "topics/orders") as stream:
                await stream.next()
                assert set(stream.tables) - {"group"} == tables


async def test_broker_and_cluster_data_over_http_need_describe_on_the_cluster(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("bob", [CLUSTER])
        which = await seen.json("alice", "/api/broker")
        assert set(which) == {"broker", "cluster", "in_cluster", "address", "state"}
        assert "connections" in await seen.json("bob", "/api/broker")
        for path in ("/api/clients", "/api/cluster", "/api/cluster/check"):
            assert (await seen.as_("alice", path)).status_code == 403
            assert (await seen.as_("bob", path)).status_code != 403


async def test_list_of_denials_hides_names_that_the_reader_cannot_describe(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("bob", [CLUSTER, (DESCRIBE, TOPIC, "orders")])
        stranger: Any = Asker(user("eve"), "10.0.0.9")
        for name in ("orders", "hidden"):
            seen.broker.secured.audit.denied(
                stranger, READ, TOPIC, name, api="Fetch", count=1, rule=Rule.NO_ACL_DENIES
            )
        rows = (await seen.json("bob", "/api/denials"))["denials"]
        assert [row["name"] for row in rows] == [None, "orders"]
        assert "hidden" not in json.dumps(rows).replace("(hidden)", "")
        assert "hidden" in (await seen.as_("admin", "/api/denials")).text
        async with following(seen, "bob", "broker") as stream:
            await stream.next()
        shown = stream.tables["denial"]
        assert {row["name"] for row in shown.values()} == {None, "orders"}
        assert "hidden" not in json.dumps(shown).replace("(hidden)", ""), "not in a key either"


class Waiting(Source):
    """A data source with pending operations of a controller, in the row format of `TheCluster`."""

    def head(self) -> dict[str, Any]:
        return {}

    def rows(self) -> Iterator[Row | None]:
        for topic in ("orders", "hidden"):
            for what, partition in (("deletion", None), ("leader", 3)):
                row = {"what": what, "topic": topic, "partition": partition}
                yield Row("wait", f"{what} {topic}-{partition}", None, partial(dict, row))


async def test_pending_controller_work_on_a_topic_needs_describe_on_the_topic(
    tmp_path: Path,
) -> None:
    async with securely(tmp_path) as seen:
        seen.rights.give("bob", [CLUSTER, (DESCRIBE, TOPIC, "orders")])
        authorizer: Any = seen.rights
        reader = JudgedReader(user("bob"), "10.0.0.9", authorizer, lambda: None)  # type: ignore[arg-type,return-value]
        rows = [row for row in SeenBy(Waiting(), "cluster", reader).rows() if row is not None]
        assert [row.key for row in rows] == ["deletion orders-None", "leader orders-3"]
        assert {row.make()["topic"] for row in rows} == {"orders"}  # type: ignore[index]


async def test_http_reader_sees_expiring_offsets_only_with_describe_on_group_and_topic(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [(DESCRIBE, GROUP, "mixed"), (DESCRIBE, TOPIC, "hidden")])
        path = "/api/offsets/expiring?within_ms=9000000000"
        rows = (await seen.json("alice", path))["offsets"]
        assert {(row["group"], row["topic"]) for row in rows} == {("mixed", "hidden")}
        assert len((await seen.json("admin", path))["offsets"]) == 3


async def test_metrics_have_only_the_series_that_the_reader_can_describe(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [(DESCRIBE, GROUP, "mixed"), (DESCRIBE, TOPIC, "orders")])
        alice = Scrape((await seen.as_("alice", "/metrics")).text)
        admin = Scrape((await seen.as_("admin", "/metrics")).text)

        assert alice["kafka_topic_partitions", "topic=orders"] == 3
        assert alice["kafka_topic_partitions", "topic=hidden"] is None
        sums = alice.of("kafka_consumergroup_lag_sum")
        assert set(sums) == {frozenset(("consumergroup=mixed", "topic=orders"))}
        assert not any("muster_connections" in name for name, _ in alice.values)
        assert set(alice.values.items()) - set(admin.values.items()) == {
            (key, value) for key, value in alice.values.items() if admin.values[key] != value
        }
        assert admin["kafka_topic_partitions", "topic=hidden"] == 1
        assert "muster_connections" in {name for name, _ in admin.values}


@asynccontextmanager
async def following(seen: SecuredSeen, who: str, watch: str) -> Any:
    url = f"http://{seen.address}/api/live?watch={watch}"
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("GET", url, headers=basic(who)) as answer,
    ):
        assert answer.status_code == 200
        yield Stream(answer.aiter_lines(), watch)


@pytest.mark.campaign
async def test_event_stream_checks_the_rights_of_its_reader_at_each_refresh(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen:
        describe = (DESCRIBE, TOPIC, "orders")
        seen.rights.give("alice", [describe])
        async with following(seen, "alice", "topics") as stream:
            await stream.next()
            assert set(stream.tables["topic"]) == {"orders"}
            seen.rights.give("alice", [(DESCRIBE, TOPIC, "hidden")])
            while set(stream.tables["topic"]) != {"orders", "hidden"}:
                await stream.next()
            seen.rights.take("alice", describe)
            while set(stream.tables["topic"]) != {"hidden"}:
                await stream.next()
        await eventually(lambda: not seen.broker.pages.live.channels)


DENIED = {
    "groups/mixed": {"group": "mixed", "exists": False},
    "topics/hidden": {"topic": "hidden", "exists": False},
    "transactions/billing-1": {"id": "billing-1", "exists": False},
    "broker": {},
}


async def test_event_stream_is_denied_until_the_reader_has_the_right(tmp_path: Path) -> None:
    async with busy(tmp_path) as seen, AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(following(seen, "alice", watch)) for watch in DENIED
        ]
        for stream, named in zip(streams, DENIED.values(), strict=True):
            await stream.next()
            assert not seen.rights.told
            assert stream.head.pop("denied").startswith("User:alice may not Describe ")
            assert (stream.head, stream.tables) == (named, {})
            stream.head["denied"] = True
        names = ((DESCRIBE, TOPIC, "hidden"), (DESCRIBE, ID, "billing-1"))
        seen.rights.give("alice", [CLUSTER, *names, (DESCRIBE, GROUP, "mixed")])
        for stream in streams:
            while "denied" in stream.head:
                await stream.next()
            assert "orders" not in json.dumps([stream.head, stream.tables])


async def test_all_http_paths_hide_names_from_a_reader_without_rights(tmp_path: Path) -> None:
    """The test covers all routes of the server, also routes that are added later."""
    planted = ("orders", "hidden", "mixed", "other", "billing-1")
    async with busy(tmp_path) as seen:
        assert (await seen.as_("alice", "/api/broker")).status_code == 200
        pages = seen.broker.pages
        assert pages is not None
        paths = [route.path for route in pages.routes()]
        lists = {path for path in paths if "{" not in path} - {"/api/live", "/api/openapi.json"}
        ones = {
            f"{path.partition('{')[0]}{name}"
            for path in paths
            for name in planted
            if path.startswith("/api/") and "{" in path
        }
        assert {"/metrics", "/api/groups", "/api/clients"} <= lists
        assert {"/api/groups/mixed", "/api/topics/hidden"} <= ones
        for path in lists:
            text = (await seen.as_("alice", path)).text
            assert not [name for name in planted if f'"{name}"' in text], path
            assert "10.0.0.7" not in text, "the address of a client"
        for path in ones:
            answer = await seen.as_("alice", path)
            assert answer.status_code == 403, path


async def test_each_http_reader_gets_only_groups_and_topics_that_it_may_describe(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path) as seen:
        seen.rights.give("alice", [(DESCRIBE, GROUP, "mixed"), (DESCRIBE, TOPIC, "orders")])
        seen.rights.give("bob", [(DESCRIBE, GROUP, "other")])
        async with (
            following(seen, "alice", "groups") as hers,
            following(seen, "bob", "groups") as his,
        ):
            await hers.next()
            await his.next()
        assert set(hers.tables["group"]) == {"mixed"}
        assert hers.tables["group"]["mixed"]["topics"] == ["orders"]
        assert set(his.tables["group"]) == {"other"}
        assert his.tables["group"]["other"]["topics"] == []
