"""Attempts to misuse a SASL exchange or a delegation token: by another principal, in another role
than that in which it was created, and after a right was revoked."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from protocol.errors import (
    DELEGATION_TOKEN_OWNER_MISMATCH,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ILLEGAL_SASL_STATE,
    NONE,
    SASL_AUTHENTICATION_FAILED,
)
from tests.broker.handed_on.scene import ALICE, BOB, SCRAM, Scene, begin_scram, say
from tests.broker.handed_on.table import Kind, Misuse, case
from tests.wire import Wire

USER = "User"


@case(Kind.SASL_CONVERSATION, Misuse.BY_ANOTHER)
def a_proof_counts_on_its_own_connection_alone(scene: Scene) -> None:
    name = scene.name("scram")
    scene.add_scram_user(name)
    first, second = scene.wire(), scene.wire()
    proof = begin_scram(first, name, f"{name}-secret")
    begin_scram(second, name, "another")
    assert say(second, proof)["error_code"] == SASL_AUTHENTICATION_FAILED
    third = scene.wire()
    third.call("SaslHandshake", 1, {"mechanism": SCRAM})
    assert say(third, proof)["error_code"] == SASL_AUTHENTICATION_FAILED
    assert say(first, proof)["error_code"] == NONE


@case(Kind.SASL_CONVERSATION, Misuse.BY_ANOTHER)
def a_login_is_not_renewed_by_another_principal(scene: Scene) -> None:
    alice = scene.logged_in(ALICE)
    assert scene.log_in(alice, BOB)["error_code"] == SASL_AUTHENTICATION_FAILED
    assert alice.is_closed()


@case(Kind.SASL_CONVERSATION, Misuse.IN_ANOTHER_ROLE)
def a_login_is_not_renewed_by_another_mechanism(scene: Scene) -> None:
    scene.add_scram_user(ALICE)
    alice = scene.logged_in(ALICE)
    assert alice.call("SaslHandshake", 1, {"mechanism": SCRAM})["error_code"] == NONE
    alice.send("SaslAuthenticate", 2, {"auth_bytes": b"n,,n=alice,r=nonce"})
    assert alice.is_closed()
    scene.remove_scram_user(ALICE)


@case(Kind.SASL_CONVERSATION, Misuse.IN_ANOTHER_ROLE)
def a_conversation_that_has_begun_serves_no_other_request(scene: Scene) -> None:
    name = scene.name("scram")
    scene.add_scram_user(name)
    for api, version, expected in (("SaslHandshake", 1, ILLEGAL_SASL_STATE), ("Metadata", 9, None)):
        wire = scene.wire()
        begin_scram(wire, name, f"{name}-secret")
        wire.send(api, version, {"mechanism": "PLAIN"} if expected else {"topics": None})
        if expected:
            assert wire.receive()[1]["error_code"] == expected
        assert wire.is_closed()


@case(Kind.SASL_CONVERSATION, Misuse.AFTER_REVOCATION)
def a_user_who_is_removed_does_not_complete_a_login(scene: Scene) -> None:
    name = scene.name("scram")
    scene.add_scram_user(name)
    wire = scene.wire()
    proof = begin_scram(wire, name, f"{name}-secret")
    scene.remove_scram_user(name)
    assert say(wire, proof)["error_code"] == SASL_AUTHENTICATION_FAILED


@case(Kind.SASL_CONVERSATION, Misuse.AFTER_REVOCATION)
def a_token_that_has_ended_does_not_complete_a_login(scene: Scene) -> None:
    alice = scene.logged_in(ALICE)
    token = created(alice)
    wire = scene.wire()
    proof = begin_scram(wire, token["token_id"], secret_of(token), by_token=True)
    assert ended(alice, token) == NONE
    assert say(wire, proof)["error_code"] == SASL_AUTHENTICATION_FAILED


# -- delegation tokens


def created(wire: Wire, owner: str | None = None, *renewers: str) -> dict[str, Any]:
    """Creates a delegation token. Returns the response."""
    asked = {
        "owner_principal_type": owner and USER,
        "owner_principal_name": owner,
        "renewers": [{"principal_type": USER, "principal_name": each} for each in renewers],
        "max_lifetime_ms": -1,
    }
    return wire.call("CreateDelegationToken", 3, asked)


def secret_of(token: dict[str, Any]) -> str:
    return b64encode(token["hmac"]).decode()


def renewed(wire: Wire, token: dict[str, Any]) -> int:
    asked = {"hmac": token["hmac"], "renew_period_ms": -1}
    code: int = wire.call("RenewDelegationToken", 2, asked)["error_code"]
    return code


def ended(wire: Wire, token: dict[str, Any]) -> int:
    """Sends ExpireDelegationToken with immediate expiry. Returns the error code."""
    asked = {"hmac": token["hmac"], "expiry_time_period_ms": -1}
    code: int = wire.call("ExpireDelegationToken", 2, asked)["error_code"]
    return code


def seen(wire: Wire) -> list[str]:
    """Returns the ids of the tokens that DescribeDelegationToken returns to the principal."""
    answer = wire.call("DescribeDelegationToken", 3, {"owners": None})
    return [each["token_id"] for each in answer["tokens"]]


def by_token(scene: Scene, token: dict[str, Any]) -> tuple[Wire, int]:
    """Returns a new connection that authenticates with the token, and the error code of the
    authentication."""
    wire = scene.wire()
    final = begin_scram(wire, token["token_id"], secret_of(token), by_token=True)
    return wire, say(wire, final)["error_code"]


@case(Kind.DELEGATION_TOKEN, Misuse.BY_ANOTHER)
def a_token_is_not_renewed_ended_or_seen_by_another(scene: Scene) -> None:
    alice, bob = scene.both()
    token = created(alice)
    assert renewed(bob, token) == ended(bob, token) == DELEGATION_TOKEN_OWNER_MISMATCH
    assert token["token_id"] not in seen(bob)
    assert token["token_id"] in seen(alice)
    assert renewed(alice, token) == ended(alice, token) == NONE


@case(Kind.DELEGATION_TOKEN, Misuse.IN_ANOTHER_ROLE)
def a_login_by_token_makes_and_changes_no_tokens(scene: Scene) -> None:
    token = created(scene.logged_in(ALICE))
    wire, error = by_token(scene, token)
    assert error == NONE
    refused = DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert created(wire)["error_code"] == refused
    assert renewed(wire, token) == ended(wire, token) == refused
    described = wire.call("DescribeDelegationToken", 3, {"owners": None})
    assert (described["error_code"], described["tokens"]) == (refused, [])


@case(Kind.DELEGATION_TOKEN, Misuse.IN_ANOTHER_ROLE)
def a_requester_is_not_the_owner_of_what_it_asked_for(scene: Scene) -> None:
    alice, bob = scene.both()
    right = f"CREATE_TOKENS USER {USER}:{BOB}"
    scene.grant(ALICE, right)
    token = created(alice, BOB)
    assert token["error_code"] == NONE
    assert renewed(alice, token) == ended(alice, token) == DELEGATION_TOKEN_OWNER_MISMATCH
    scene.revoke(ALICE, right)
    assert created(alice, BOB)["error_code"] != NONE
    assert ended(bob, token) == NONE


@case(Kind.DELEGATION_TOKEN, Misuse.AFTER_REVOCATION)
def a_token_is_hidden_when_the_right_to_see_it_is_revoked(scene: Scene) -> None:
    alice, bob = scene.both()
    token = created(alice)
    right = f"DESCRIBE_TOKENS USER {USER}:{ALICE}"
    scene.grant(BOB, right)
    assert token["token_id"] in seen(bob)
    scene.revoke(BOB, right)
    assert token["token_id"] not in seen(bob)


@case(Kind.DELEGATION_TOKEN, Misuse.AFTER_REVOCATION)
def a_token_that_has_ended_lets_nobody_in(scene: Scene) -> None:
    alice = scene.logged_in(ALICE)
    token = created(alice)
    assert by_token(scene, token)[1] == NONE
    assert ended(alice, token) == NONE
    assert by_token(scene, token)[1] == SASL_AUTHENTICATION_FAILED
