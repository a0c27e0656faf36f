"""Tests that the audit log names the author of each change of ACLs, quotas, passwords and
tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from security.acls.model import Operation
from tests.broker.apis.authorization.asking import codes
from tests.broker.apis.authorization.filled import (
    ADMIN,
    ANY_ENTRY,
    STRANGER,
    acl_for_owner,
    new_token,
    protected_broker,
    quota,
    scram_upsertion,
    talk,
)
from tests.wire import Wire

WRONG = {**acl_for_owner("wrong"), "operation": Operation.ANY}
CHANGES: list[tuple[str, int, dict[str, Any]]] = [
    ("CreateAcls", 3, {"creations": [acl_for_owner("t"), WRONG]}),
    ("DeleteAcls", 3, {"filters": [ANY_ENTRY]}),
    ("AlterClientQuotas", 1, quota(1024.0)),
    ("AlterUserScramCredentials", 0, scram_upsertion("more")),
]
TOKENS = ("delegation token created", "delegation token renewed", "delegation token expiry changed")
"""Log lines about changes of delegation tokens. Every user may make these changes to their own
tokens."""
ENTRY = "an ACL allows User:orders from * everything on Topic t"


async def test_each_security_change_is_audited_once_with_author_and_content(tmp_path: Path) -> None:
    def change(wire: Wire) -> set[int]:
        found = {code for each in CHANGES for code in codes(wire.call(*each))}
        token = wire.call("CreateDelegationToken", 2, new_token())
        renewed = {"hmac": token["hmac"], "renew_period_ms": -1}
        ended = {"hmac": token["hmac"], "expiry_time_period_ms": -1}
        assert not wire.call("RenewDelegationToken", 2, renewed)["error_code"]
        assert not wire.call("ExpireDelegationToken", 2, ended)["error_code"]
        return found

    async with protected_broker(tmp_path) as broker:
        with capture_logs() as lines:
            denied = await talk(broker, STRANGER, change)
            await talk(broker, ADMIN, change)
    changes = [line for line in lines if line.get("logger") == "audit" and "by" in line]
    told = [(line["event"], line.get("count"), line.get("entries")) for line in changes]
    assert denied != {0}
    tokens = [(what, None, None) for what in TOKENS]
    assert told == [
        *tokens,
        ("ACLs added", 1, ENTRY),
        ("ACLs removed", 1, ENTRY),
        ("client quotas changed", 1, None),
        ("SCRAM credentials changed", 1, None),
        *tokens,
    ]
    assert [line["by"] for line in changes] == ["User:stranger"] * 3 + ["User:admin"] * 7
    assert {line["host"] for line in changes} == {"127.0.0.1"}
    assert {line["client_id"] for line in changes} == {STRANGER, ADMIN}
