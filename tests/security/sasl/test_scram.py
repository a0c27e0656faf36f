"""Tests of SCRAM servers: the example of RFC 7677, a simple client in this module, and every kind
of invalid message."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.credentials import (
    SALT_BITS,
    Found,
    ScramCredential,
    ScramMechanism,
    credential,
    credential_text,
    decoy,
    parse_credential,
    salt_of,
    wrong_iterations,
)
from security.sasl.scram import ScramServer
from security.sasl.steps import Accepted, Challenge, Refused

SHA_256, SHA_512 = ScramMechanism
SECRET = b"the broker's own"


def made(password, salt=b"salt", iterations=4096, mechanism=SHA_256):
    salted = mechanism.salted_password(password.encode(), salt, iterations)
    return credential(mechanism, salted, salt, iterations)


class Client:
    """A SCRAM client that follows RFC 5802."""

    def __init__(self, name, password, mechanism=SHA_256, *, authzid="", extensions=""):
        self.mechanism, self.password = mechanism, password.encode()
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self.header = f"n,{authzid},".encode()
        self.bare = f"n={escaped},r=client{extensions}".encode()

    @property
    def first(self):
        return self.header + self.bare

    def final(self, challenge, *, nonce=None, change=lambda proof: proof):
        fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
        salt, iterations = b64decode(fields[b"s"]), int(fields[b"i"])
        mechanism = self.mechanism
        salted = mechanism.salted_password(self.password, salt, iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        bare = b"c=%s,r=%s" % (b64encode(self.header), nonce or fields[b"r"])
        covered = b",".join((self.bare, challenge, bare))
        signature = mechanism.hmac(mechanism.hash(client_key), covered)
        proof = change(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))
        verifier = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), covered)
        self.expects = b"v=" + b64encode(verifier)
        return bare + b",p=" + b64encode(proof)


def decoy_finder(mechanism):
    return lambda name, by_token: decoy(mechanism, name.encode(), SECRET, [4096])


def server(users, mechanism=SHA_256, nonce="server"):
    def find(name, by_token):
        known = users.get((name, by_token))
        return None if known is None else Found(*known)

    return ScramServer(mechanism, find, nonce, decoy_finder(mechanism))


ALICE = {("alice", False): (made("secret"), "alice")}


def test_scram_server_sends_the_messages_of_rfc_7677():
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = {("user", False): (made("pencil", salt), "user")}
    one = server(users, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert one.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert one.step(final) == Accepted(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize(
    ("name", "password"), [("alice", "secret"), ("a,b=c", "p,=w"), ("u", "pässwörd\N{SNOWMAN}")]
)
def test_scram_login_succeeds_and_the_server_proves_that_it_knows_the_password(
    mechanism, name, password
):
    one = server({(name, False): (made(password, mechanism=mechanism), name)}, mechanism)
    client = Client(name, password, mechanism)
    assert one.tries(client.first) is None
    challenge = one.step(client.first)
    assert one.tries(client.final(challenge.message)) == name
    assert one.step(client.final(challenge.message)) == Accepted(client.expects, name)


def test_token_id_with_the_tokenauth_extension_logs_in_the_owner():
    users = {("t0k3n", True): (made("hmac"), "alice", 7_000)}
    client = Client("t0k3n", "hmac", extensions=",tokenauth=true")
    one = server(users)
    done = one.step(client.final(one.step(client.first).message))
    assert done == Accepted(client.expects, "alice", 7_000, by_token=True)
    plain = server(users)
    client = Client("t0k3n", "hmac")
    assert isinstance(plain.step(client.final(plain.step(client.first).message)), Refused)


def test_authorization_id_other_than_the_user_name_is_refused():
    client = Client("alice", "secret", authzid="a=alice")
    one = server(ALICE)
    assert isinstance(one.step(client.final(one.step(client.first).message)), Accepted)
    refused = server(ALICE).step(Client("alice", "secret", authzid="a=bob").first)
    assert refused.to_client == (
        "Authentication failed: Client requested an authorization id that is different from"
        " username"
    )


def test_unknown_user_gets_a_constant_challenge_and_fails_at_the_proof():
    answers = set()
    for _ in range(2):
        one, client = server(ALICE), Client("bob", "guess")
        challenge = one.step(client.first)
        answers.add(challenge)
        refused = one.step(client.final(challenge.message))
        assert refused == Refused("user 'bob' has no credential for SCRAM-SHA-256")
    assert len(answers) == 1


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_unknown_user_requires_as_many_hashes_as_a_wrong_password(monkeypatch, mechanism):
    computed = []
    hashed, signed = ScramMechanism.hash, ScramMechanism.hmac

    def hash_of(self, data):
        computed.append(("hash", len(data)))
        return hashed(self, data)

    def hmac_of(self, key, data):
        computed.append(("hmac", len(key), len(data)))
        return signed(self, key, data)

    salt = bytes(len(decoy_finder(mechanism)("mabel", False).salt))
    users = {("alice", False): (made("secret", salt, mechanism=mechanism), "alice")}
    costs = []
    for name in ("alice", "mabel"):
        one, client = server(users, mechanism), Client(name, "guess", mechanism)
        final = client.final(server(users, mechanism).step(client.first).message)
        computed.clear()
        with monkeypatch.context() as counted:
            counted.setattr(ScramMechanism, "hash", hash_of)
            counted.setattr(ScramMechanism, "hmac", hmac_of)
            one.step(client.first)
            assert isinstance(one.step(final), Refused)
        costs.append([*computed])
    assert costs[0] == costs[1]
    assert costs[0][-1] == ("hash", mechanism.size_bytes), "the proof is computed"


def test_decoy_credential_of_an_unknown_user_has_the_form_of_a_real_credential():
    shown = [decoy(SHA_256, b"%d" % number, SECRET, [4096, 8192]) for number in range(200)]
    assert {each.iterations for each in shown} == {4096, 8192}
    # Kafka's tools make such salts: 130 random bits in base 36.
    assert all(re.fullmatch(b"[0-9a-z]{20,26}", each.salt) for each in shown)
    assert {25, 26} <= {len(each.salt) for each in shown}
    assert int(salt_of((1 << SALT_BITS) - 1), 36) == (1 << SALT_BITS) - 1
    assert {len(each.stored_key) for each in shown} == {32}
    assert shown[0] == decoy(SHA_256, b"0", SECRET, [8192, 4096]), "always the same"
    assert shown[0].salt != decoy(SHA_256, b"0", b"another", [4096]).salt
    assert decoy(SHA_256, b"0", SECRET, []).iterations == 4096
    # With more iteration counts in use, some decoys change, each to the new count.
    more = [decoy(SHA_256, b"%d" % number, SECRET, [4096, 8192, 16384]) for number in range(200)]
    changed = {each.iterations for each, before in zip(more, shown, strict=True) if each != before}
    assert changed == {16384}


def test_credential_with_too_few_iterations_is_refused():
    users = {("alice", False): (made("secret", iterations=4095), "alice")}
    one, client = server(users), Client("alice", "secret")
    assert isinstance(one.step(client.final(one.step(client.first).message)), Refused)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"change": lambda proof: bytes(len(proof))}, "wrong password for user 'alice'"),
        ({"change": lambda proof: proof[1:]}, "SCRAM: proof has 31 bytes, not 32"),
        ({"nonce": b"xclientserver"}, "SCRAM: nonce of client-final-message"),
        ({"nonce": b"server"}, "SCRAM: nonce of client-final-message"),
    ],
)
def test_invalid_final_message_is_refused(wrong, reason):
    one, client = server(ALICE), Client("alice", "secret")
    refused = one.step(client.final(one.step(client.first).message, **wrong))
    assert refused.reason.startswith(reason)
    assert refused.to_client is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=,r=x",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=al\xc3\xa9,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=alice",
        b"n,,n=alice,r=",
    ],
)
def test_malformed_first_message_is_refused(message):
    assert isinstance(server(ALICE).step(message), Refused)


@given(st.binary(max_size=200))
def test_scram_server_refuses_a_random_message_or_sends_a_challenge(message):
    one = server(ALICE)
    first = one.step(message)
    assert isinstance(first, Refused | Challenge)
    begun = server(ALICE)
    begun.step(Client("alice", "secret").first)
    assert isinstance(begun.step(message), Refused)


def test_credential_is_written_and_read_as_by_kafka():
    kept = made("secret", mechanism=SHA_512, iterations=8192)
    text = credential_text(kept)
    assert text.startswith("salt=c2FsdA==,stored_key=")
    assert text.endswith(",iterations=8192")
    assert parse_credential(text) == kept


@pytest.mark.parametrize("text", ["", "salt=x", "salt=!,stored_key=,server_key=,iterations=1"])
def test_error_about_a_malformed_credential_does_not_contain_the_credential(text):
    with pytest.raises(ValueError, match=r"^a SCRAM credential must have the form salt="):
        parse_credential(text)


def test_scram_iterations_outside_kafkas_bounds_are_refused():
    assert wrong_iterations(4095) == "Too few iterations"
    assert wrong_iterations(16385) == "Too many iterations"
    assert wrong_iterations(4096) is wrong_iterations(16384) is None


def test_repr_of_a_credential_has_no_secret():
    assert repr(ScramCredential(b"s", b"k", b"v", 4096)) == "ScramCredential(4096 iterations)"
