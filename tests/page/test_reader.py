"""The page of a secured broker in Chromium shows a user only what the ACLs of the user allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.brokers import KIND, running
from tests.commits import commit
from tests.page.browser import Browser, browsing
from tests.page.conftest import rows
from tests.page.scene import PageBroker
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": (
        f'{MODULE} required username="admin" password="admin-secret"'
        ' user_admin="admin-secret" user_alice="alice-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "http.authentication": "basic",
}
ALICES = (
    (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE),
    (ResourceType.GROUP, "billing", AclOperation.DESCRIBE),
)


def filled(bootstrap: str) -> None:
    """Creates two topics and two groups. User alice gets DESCRIBE on the topic orders and on the
    group billing."""
    admin: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
    }
    topics = ("orders", "salaries")
    client = AdminClient(admin)
    for made in client.create_topics([NewTopic(name, 1) for name in topics]).values():
        made.result(30)
    entries = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation,
            AclPermissionType.ALLOW,
        )
        for kind, name, operation in ALICES
    ]  # fmt: skip
    for added in client.create_acls(entries).values():
        added.result(30)
    producer = Producer(admin)
    for name in topics:
        producer.produce(name, b"x")
    assert producer.flush(30) == 0
    for group, its in (("billing", topics), ("payroll", ("salaries",))):
        consumer = Consumer({**admin, "group.id": group})
        commit(consumer, {(name, 0): 1 for name in its})
        consumer.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBroker]:
    data: Path = tmp_path_factory.mktemp("reader") / "data"
    broker = PageBroker(data, SETTINGS)
    with running(broker):
        filled(broker.bootstrap)
        yield broker


def test_page_shows_a_user_only_authorized_topics_and_groups(secured: PageBroker) -> None:
    with browsing(secured.http) as browser:
        log_in(browser, "alice")
        browser.open("#/topics")
        assert [row.split()[0] for row in rows(browser, "Topics")] == ["orders"]
        browser.open("#/groups")
        assert [row.split()[0] for row in rows(browser, "Consumer groups")] == ["billing"]
        browser.open("#/groups/billing")
        assert "orders" in browser.text()
        assert "salaries" not in browser.text()
        for place, denied in (
            ("#/topics/salaries", "User:alice may not Describe topic salaries."),
            ("#/groups/payroll", "User:alice may not Describe group payroll."),
            ("#/broker", "User:alice may not Describe the cluster."),
        ):
            browser.open(place)
            assert denied in browser.text()
        assert "salaries" not in browser.ask("return document.body.innerText")
        assert browser.complaints() == []


def test_broker_view_shows_principals_and_denied_requests_to_an_administrator(
    secured: PageBroker,
) -> None:
    alice = {
        "bootstrap.servers": secured.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
        "client.id": "reports",
        "group.id": "reports",
    }
    consumer = Consumer(alice)
    consumer.assign([TopicPartition("salaries", 0, 0)])
    until("it is told so", lambda: (message := consumer.poll(0.1)) and message.error())
    with browsing(secured.http) as browser:
        log_in(browser, "admin")
        browser.open("#/broker")
        until("the client is there", lambda: rows_of(browser, "Connected clients", "reports"))
        [client] = rows_of(browser, "Connected clients", "reports")
        assert "User:alice" in client
        assert "PLAINTEXT (SASL_PLAINTEXT)" in client
        denied = rows_of(browser, "Denied requests", "salaries")
        assert denied
        for row in denied:
            assert "User:alice" in row
            assert "Topic:LITERAL:salaries" in row
            assert "no ACL matches" in row
            assert "reports on 127.0.0.1" in row
        assert browser.complaints() == []
    consumer.close()


def rows_of(browser: Browser, heading: str, word: str) -> list[str]:
    return [row for row in rows(browser, heading) if word in row]


def log_in(browser: Browser, who: str) -> None:
    """Opens the page with a name and a password in the URL. The browser sends both in its later
    requests."""
    browser.driver.get(f"http://{who}:{who}-secret@{browser.address}/")
    until("the page is there", lambda: browser.find("#link"))
    browser.complaints()
