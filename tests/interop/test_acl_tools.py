"""Old and new versions of Apache's kafka-acls add, list and remove ACLs on Muster."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from broker.config.authorizer_rules import STANDARD
from tests import java
from tests.brokers import Broker

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 25")]
TOOL = {
    java.KAFKA_NEW: "org.apache.kafka.tools.AclCommand",
    java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS: "kafka.admin.AclCommand",
}


@pytest.mark.proves("security 13")
@pytest.mark.parametrize("kafka", TOOL)
def test_kafka_acls_adds_lists_and_removes_acls(brokers: Callable[..., Broker], kafka: str) -> None:
    """A MATCH filter finds all ACLs that apply to a name."""
    broker = brokers({"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"})

    def acls(words: str) -> list[str]:
        arguments = ["--bootstrap-server", broker.bootstrap, *words.split()]
        done = java.run(kafka, TOOL[kafka], *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(re.findall(r"\((.*principal=.*)\)", done.stdout))

    def told(principal: str, operation: str, permission: str = "ALLOW", host: str = "*") -> str:
        return (
            f"principal={principal}, host={host}, operation={operation},"
            f" permissionType={permission}"
        )

    alice, bob = "User:alice", "User:bob"
    acls(f"--add --allow-principal {alice} --producer --topic orders")
    acls(f"--add --allow-principal {bob} --consumer --topic ord --group billing"
         " --resource-pattern-type prefixed")  # fmt: skip
    acls("--add --deny-principal User:* --deny-host 10.0.0.9 --operation All --topic *")

    assert acls("--list --topic orders --resource-pattern-type match") == sorted(
        [
            *(told(alice, each) for each in ("CREATE", "DESCRIBE", "WRITE")),
            *(told(bob, each) for each in ("DESCRIBE", "READ")),
            told("User:*", "ALL", "DENY", "10.0.0.9"),
        ]
    )
    assert len(acls("--list")) == 7
    assert acls(f"--list --principal {bob} --group billing --resource-pattern-type any") == [
        told(bob, "READ")
    ]
    acls("--remove --force --topic orders --resource-pattern-type match")
    assert acls("--list") == [told(bob, "READ")]
    acls("--remove --force --group billing --resource-pattern-type prefixed")
    assert acls("--list") == []
