from __future__ import annotations

import pytest

from protocol.errors import (
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_OWNER_MISMATCH,
    INVALID_PRINCIPAL_TYPE,
    NONE,
)
from security.credentials import ScramMechanism, credential
from security.principal import Principal, user
from security.tokens import (
    AT_ONCE,
    Lifetimes,
    credential_of,
    expired,
    is_about,
    is_over,
    new_token,
    password_of,
    renewed,
    wrong_renewer,
)

ALICE, BOB, CAROL = map(user, ("alice", "bob", "carol"))
TIMES = Lifetimes(longest_ms=1_000, expiry_ms=100)


def token(asked_ms=-1, now_ms=10_000):
    return new_token("id", ALICE, ALICE, (BOB,), asked_ms, TIMES, now_ms)


@pytest.mark.parametrize(
    ("asked_ms", "ends_ms", "expires_ms"),
    [(-1, 11_000, 10_100), (5_000, 11_000, 10_100), (500, 10_500, 10_100), (50, 10_050, 10_050)],
)
def test_token_lifetime_is_the_requested_lifetime_up_to_the_maximum(asked_ms, ends_ms, expires_ms):
    one = token(asked_ms)
    assert (one.ends_ms, one.expires_ms) == (ends_ms, expires_ms)


def test_token_is_not_renewed_beyond_its_maximum_lifetime():
    one = token()
    assert renewed(one, BOB, 50, TIMES, 10_090).expires_ms == 10_140
    assert renewed(one, ALICE, -1, TIMES, 10_090).expires_ms == 10_190
    assert renewed(one, ALICE, 0, TIMES, 10_090).expires_ms == 10_190
    late = one._replace(expires_ms=10_990)
    assert renewed(late, ALICE, -1, TIMES, 10_980).expires_ms == 11_000


def test_token_can_be_renewed_or_expired_only_by_owner_and_renewers_until_it_expires():
    one = token()
    assert renewed(one, CAROL, -1, TIMES, 10_000) == DELEGATION_TOKEN_OWNER_MISMATCH
    assert expired(one, CAROL, AT_ONCE, 10_000) == DELEGATION_TOKEN_OWNER_MISMATCH
    assert is_over(one, 10_100)
    assert renewed(one, ALICE, -1, TIMES, 10_100) == DELEGATION_TOKEN_EXPIRED
    assert renewed(one, CAROL, -1, TIMES, 10_100) == DELEGATION_TOKEN_EXPIRED
    assert expired(one, ALICE, 10, 10_100) == DELEGATION_TOKEN_EXPIRED


def test_requester_can_describe_a_token_but_not_renew_it():
    one = token()._replace(requester=CAROL)
    assert is_about(one, CAROL)
    assert not is_about(token(), CAROL)
    assert renewed(one, CAROL, -1, TIMES, 10_000) == DELEGATION_TOKEN_OWNER_MISMATCH


def test_token_expires_immediately_or_at_a_given_time():
    assert expired(token(), ALICE, AT_ONCE, 10_000) is None
    assert expired(token(), BOB, 30, 10_000).expires_ms == 10_030


def test_token_password_depends_on_the_secret_key():
    one, other = password_of("id", b"secret"), password_of("id", b"another")
    assert one != other
    assert len(one) == 88


def test_scram_credential_of_a_token_is_derived_from_its_password():
    mechanism = ScramMechanism.SHA_512
    one = credential_of("id", b"secret", mechanism)
    salted = mechanism.salted_password(password_of("id", b"secret").encode(), one.salt, 4096)
    assert one == credential(mechanism, salted, one.salt, 4096)
    assert one.salt != credential_of("other", b"secret", mechanism).salt


def test_renewer_that_is_not_a_user_is_refused():
    assert wrong_renewer((BOB,)) == NONE
    assert wrong_renewer((Principal("Group", "g"),)) == INVALID_PRINCIPAL_TYPE
