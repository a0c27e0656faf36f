"""Searches for secrets outside the places where a broker may store them.

The test configures and uses every kind of secret in one run. No secret may appear in a log line, a
traceback, a DescribeConfigs or HTTP response, a metric, a file of the data directory, or the repr
of an object. Exceptions are the stored SCRAM keys in users.json and altered settings in
configs.json. Only the owner can read these files.
"""

from __future__ import annotations

import asyncio
import gc
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.processors import format_exc_info
from structlog.testing import capture_logs

from broker.authentication.users import Users
from broker.config.config import BadConfig, Config
from protocol.messages.alter_user_scram_credentials import API as ALTER_USERS
from protocol.messages.create_delegation_token import API as CREATE_TOKEN
from protocol.messages.describe_configs import API as DESCRIBE_CONFIGS
from protocol.messages.describe_delegation_token import API as DESCRIBE_TOKENS
from protocol.messages.describe_user_scram_credentials import API as DESCRIBE_USERS
from protocol.messages.incremental_alter_configs import API as ALTER_CONFIGS
from protocol.messages.renew_delegation_token import API as RENEW_TOKEN
from security.credentials import ScramMechanism, credential
from security.sasl.client_side import Credentials, client_login
from security.sasl.plain import MODULE
from security.tokens import credential_of
from tests.broker.authentication import bearers
from tests.broker.authentication.letting_in import (
    AUTHENTICATE,
    HANDSHAKE,
    cut_requests,
    plain_token,
    send_cut,
)
from tests.broker.edge import Client
from tests.broker.net.tls.securing import client_context
from tests.broker.web.rights import JAAS, TOKEN, basic
from tests.broker.web.test_https import Encrypted, encrypted
from tests.certificates import Authority, Issued

pytestmark = pytest.mark.proves("security 34")

KEY_PASSWORD, STORE_PASSWORD = "planted-key-password", "planted-store-password"
OWN_PASSWORD, ALTERED = "planted-own-password", "planted-altered-password"
TOKEN_KEY = "planted-key-of-delegation-tokens"
GUESS, TOKEN_GUESS = "planted-guess", "planted-token-guess-0001"
INLINE_PASSWORD, NEXT_PASSWORD = "planted-inline-password", "planted-next-password"
SCRAM_PASSWORD, SALT = "planted-scram-password", b"planted-salt-of-scram"
SHA_512 = ScramMechanism.SHA_512
SALTED = SHA_512.salted_password(SCRAM_PASSWORD.encode(), SALT, 4096)
KEPT = credential(SHA_512, SALTED, SALT, 4096)
OURS = (
    "broker", "client", "controller", "coordinator", "journal", "log", "offsets", "protocol",
    "replication", "security", "transactions", "verdicts",
)  # fmt: skip
BROKER_RESOURCE, SET = 4, 0
INLINE = "listener.name.inline.ssl."


def forms(secret: bytes) -> set[bytes]:
    """Returns the texts for which the test searches: the start of the secret, as it is, and in
    base64, hex and Python's repr."""
    part = secret[: len(secret) // 3 * 3 - 3]
    return {part, b64encode(part), part.hex().encode(), repr(part)[2:-1].encode()}


def secrets(key_text: str) -> set[bytes]:
    texts = [
        KEY_PASSWORD, STORE_PASSWORD, OWN_PASSWORD, ALTERED, TOKEN_KEY, GUESS, TOKEN, TOKEN_GUESS,
        INLINE_PASSWORD, SCRAM_PASSWORD, "alice-secret", "bob: secret", "admin-secret",
    ]  # fmt: skip
    found = {form for text in texts for form in forms(text.encode())} | key_forms(key_text)
    return found | forms(SALTED) | {b64encode(basic_text(who)) for who in ("alice", "admin")}


def key_forms(text: str) -> set[bytes]:
    lines = [line for line in text.splitlines()[1:-1] if len(line) > 40]
    assert lines
    return {form for line in lines for form in forms(line.encode())}


def basic_text(who: str) -> bytes:
    return f"{who}:{who}-secret".encode()


def found_in(text: str | bytes, planted: set[bytes]) -> list[bytes]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return [secret for secret in planted if secret in data]


async def use_all(served: Encrypted, told: list[str]) -> None:
    """Uses each secret in valid and invalid requests. Appends the responses to ``told``."""
    seen = served.seen
    client = seen.client
    upsertion = {
        "name": "carol", "mechanism": SHA_512.code, "iterations": 4096, "salt": SALT,
        "salted_password": SALTED,
    }  # fmt: skip
    asked = {"deletions": [], "upsertions": [upsertion]}
    told.append(str(await client.call(ALTER_USERS.key, 0, **asked)))
    assert "carol" in told[-1]
    told.append(str(await client.call(DESCRIBE_USERS.key, 0, users=None)))
    names = [
        *(INLINE + name for name in ("keystore.key", "keystore.certificate.chain", "key.password")),
        "sasl.jaas.config",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        "delegation.token.secret.key",
    ]
    for keys in (None, ["http.metrics.token", "http.ssl.key.password", *names]):
        broker = {"resource_type": BROKER_RESOURCE, "resource_name": "1"}
        asked = {"resources": [{**broker, "configuration_keys": keys}], "include_synonyms": True}
        told.append(str(await client.call(DESCRIBE_CONFIGS.key, 3, **asked)))
        assert "http.metrics.token" in told[-1]
    for name in (
        "http.metrics.token",
        "listener.name.ssl.ssl.keystore.password",
        INLINE + "keystore.key",
        INLINE + "key.password",
        "no.such.name",
    ):
        change = {"name": name, "config_operation": SET, "value": ALTERED}
        asked = {"resources": [{**broker, "configs": [change]}], "validate_only": False}
        told.append(str(await client.call(ALTER_CONFIGS.key, 1, **asked)))
    port = seen.broker.sockets.addresses()[1][1]
    for password in ("alice-secret", GUESS):
        peer = await Client.connect(port)
        await peer.call(HANDSHAKE, 1, mechanism="PLAIN")
        answer = await peer.call(AUTHENTICATE, 2, auth_bytes=plain_token("alice", password))
        told.append(str(answer))
        peer.close()
    for headers in (
        basic("alice", GUESS),
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN_GUESS}"},
        basic("carol", SCRAM_PASSWORD),
    ):
        told.append((await served.get("/metrics", headers=headers)).text)


async def use_token(served: Encrypted, told: list[str]) -> list[bytes]:
    """Creates, renews and uses a delegation token in valid and invalid requests. Returns the
    token's secrets."""
    port = served.seen.broker.sockets.addresses()[1][1]
    owner = await Client.connect(port)
    await owner.call(HANDSHAKE, 1, mechanism="PLAIN")
    await owner.call(AUTHENTICATE, 2, auth_bytes=plain_token("alice", "alice-secret"))
    made = await owner.call(CREATE_TOKEN.key, 1, renewers=[], max_lifetime_ms=-1)
    proof = made["hmac"]
    assert len(proof) == 64
    renewed = await owner.call(RENEW_TOKEN.key, 1, hmac=proof, renew_period_ms=-1)
    assert not renewed["error_code"]
    guess = bytes(reversed(proof))
    told.append(str(await owner.call(RENEW_TOKEN.key, 1, hmac=guess, renew_period_ms=-1)))
    described = await owner.call(DESCRIBE_TOKENS.key, 1, owners=None)
    assert [each["hmac"] for each in described["tokens"]] == [proof]
    for secret in (proof, guess):
        peer = await Client.connect(port)
        who = Credentials(made["token_id"], b64encode(secret).decode(), by_token=True)
        login = client_login(SHA_512.mechanism, who, "nonce")
        await peer.call(HANDSHAKE, 1, mechanism=SHA_512.mechanism)
        challenge = await peer.call(AUTHENTICATE, 2, auth_bytes=login.first())
        final = login.answer(challenge["auth_bytes"])
        told.append(str(await peer.call(AUTHENTICATE, 2, auth_bytes=final)))
        assert ("'error_code': 0" in told[-1]) == (secret == proof)
        peer.close()
    owner.close()
    return [proof, guess]


async def use_bearer_tokens(served: Encrypted, told: list[str]) -> list[bytes]:
    """Authenticates with a valid and an invalid OAUTHBEARER token. Returns the secrets in the
    tokens."""
    now_s = served.seen.time.now().wall_ms // 1000
    found = []
    for key in (bearers.KEY, bearers.OTHER):
        token = bearers.token(key, iat=now_s, exp=now_s + 600)
        peer = await Client.connect(served.seen.broker.sockets.addresses()[1][1])
        await peer.call(HANDSHAKE, 1, mechanism="OAUTHBEARER")
        message = bearers.first_message(token)
        answer = await peer.call(AUTHENTICATE, 2, auth_bytes=message)
        assert (not answer["auth_bytes"]) == (key is bearers.KEY)
        if answer["auth_bytes"]:
            told.append(str(answer))
            answer = await peer.call(AUTHENTICATE, 2, auth_bytes=b"\x01")
        told.append(str(answer))
        peer.close()
        found += [token.encode(), *(part.encode() for part in token.split(".")[1:])]
    return found


async def send_cut_requests(served: Encrypted, secrets: list[bytes]) -> None:
    """Sends requests that end in the middle of a secret, before and after authentication."""
    upsertion = {
        "name": "erin", "mechanism": SHA_512.code, "iterations": 4096, "salt": SALT,
        "salted_password": SALTED,
    }  # fmt: skip
    change = {"name": INLINE + "key.password", "config_operation": SET, "value": ALTERED}
    altered = [{"resource_type": BROKER_RESOURCE, "resource_name": "1", "configs": [change]}]
    plain, with_sasl = (each[1] for each in served.seen.broker.sockets.addresses()[:2])
    for request in (
        *cut_requests(SALTED, ALTER_USERS.key, 0, deletions=[], upsertions=[upsertion]),
        *cut_requests(
            ALTERED.encode(), ALTER_CONFIGS.key, 1, resources=altered, validate_only=False
        ),
    ):
        await send_cut(await Client.connect(plain), request)
    for secret in (*secrets, plain_token("alice", "alice-secret"), plain_token("alice", GUESS)):
        for request in cut_requests(secret, AUTHENTICATE, 2, auth_bytes=secret):
            peer = await Client.connect(with_sasl)
            await peer.call(HANDSHAKE, 1, mechanism="PLAIN")
            await send_cut(peer, request)


async def use_inline_keys(served: Encrypted, own: Issued) -> set[bytes]:
    """Uses a listener with an inline private key, and replaces the key while the broker runs.
    Returns the new key and its password, in each form in which a response could contain them."""
    broker, authority = served.seen.broker, served.authority
    serials = []
    for issued in (own, authority.issue("inline")):
        if issued is not own:
            text = issued.encrypted_key_text(NEXT_PASSWORD)
            settings = {
                "keystore.key": text,
                "keystore.certificate.chain": issued.certificate_text,
                "key.password": NEXT_PASSWORD,
            }
            configs = [
                {"name": INLINE + name, "config_operation": SET, "value": value}
                for name, value in settings.items()
            ]
            resource = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configs": configs}
            answer = await served.seen.client.call(
                ALTER_CONFIGS.key, 1, resources=[resource], validate_only=False
            )
            assert not answer["responses"][0]["error_code"], answer
        _, writer = await asyncio.open_connection(
            "127.0.0.1", broker.sockets.addresses()[3][1], ssl=client_context(authority)
        )
        shown = writer.get_extra_info("ssl_object").getpeercert()
        serials.append(int(shown["serialNumber"], 16))
        assert serials[-1] == issued.certificate.serial_number
        writer.close()
    assert len({*serials}) == 2
    return forms(NEXT_PASSWORD.encode()) | key_forms(text) | key_forms(issued.key_text)


async def read_all(served: Encrypted, told: list[str]) -> None:
    """Appends to ``told`` all HTTP responses that an administrator can get."""
    pages = served.seen.broker.pages
    assert pages is not None
    for path in {route.path for route in pages.routes()} - {"/api/live"}:
        if "{" not in path:
            told.append((await served.get(path, headers=basic("admin"))).text)


@pytest.mark.proves("security 8")
async def test_secrets_are_absent_from_logs_responses_files_and_reprs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("broker")
    store = tmp_path / "own.p12"
    store.write_bytes(authority.issue("store").pkcs12(STORE_PASSWORD))
    inline = authority.issue("inline")
    listeners = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "INLINE")
    settings: dict[str, Any] = {
        **bearers.settings(tmp_path),
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in listeners),
        "listener.security.protocol.map": "INLINE:SSL,"
        + ",".join(f"{name}:{name}" for name in listeners[:3]),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        INLINE + "keystore.type": "PEM",
        INLINE + "keystore.key": inline.encrypted_key_text(INLINE_PASSWORD),
        INLINE + "keystore.certificate.chain": inline.certificate_text,
        INLINE + "key.password": INLINE_PASSWORD,
        "plain.sasl.jaas.config": f'{MODULE} required username="me" password="{OWN_PASSWORD}";',
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "listener.name.ssl.ssl.keystore.location": str(store),
        "listener.name.ssl.ssl.keystore.password": STORE_PASSWORD,
        "delegation.token.secret.key": TOKEN_KEY,
        "http.ssl.keystore.key": own.encrypted_key_text(KEY_PASSWORD),
        "http.ssl.keystore.certificate.chain": own.certificate_text,
        "http.ssl.key.password": KEY_PASSWORD,
    }
    told: list[str] = []
    structlog.reset_defaults()
    with capture_logs(processors=[format_exc_info]) as lines:
        async with encrypted(tmp_path, settings, authority) as served:
            next_key = await use_inline_keys(served, inline)
            await use_all(served, told)
            proofs = await use_token(served, told)
            proofs += await use_bearer_tokens(served, told)
            await send_cut_requests(served, proofs)
            tokens = served.seen.broker.secured.tokens
            assert tokens is not None
            [token] = tokens.all()
            derived = credential_of(token.token_id, TOKEN_KEY.encode(), SHA_512)

            def breaks(*_: object) -> None:
                raise RuntimeError("a bug")

            monkeypatch.setattr(Users, "_wrong", breaks)
            await use_broken(served)
            monkeypatch.undo()
            await read_all(served, told)
            shown = [repr(each) for each in gc.get_objects() if is_ours(each)]
            assert any("ListenerSasl" in each for each in shown), "what is searched is there"
    with pytest.raises(BadConfig) as refused:
        Config({**settings, "num.partitions": "0", "http.metrics.token": "short"})
    told.append(str(refused.value))

    logged = [str(dict(line)) for line in lines]
    assert any("Traceback" in line for line in logged)
    for name in ("AlterUserScramCredentials", "IncrementalAlterConfigs", "SaslAuthenticate"):
        assert any(f"{name} request" in line for line in logged), "what was cut is told of"
    planted = secrets(own.key_text) | secrets(own.encrypted_key_text(KEY_PASSWORD))
    planted |= secrets(inline.key_text) | secrets(settings[INLINE + "keystore.key"])
    planted |= {form for proof in proofs for form in forms(proof)}
    planted |= forms(derived.stored_key) | forms(derived.server_key)
    for text in (*told, *logged, *shown):
        assert found_in(text, planted) == [], text[:500]
    kept = {
        "users.json": forms(KEPT.stored_key) | forms(KEPT.server_key),
        "configs.json": next_key,
    }
    for text in (*told, *logged, *shown):
        assert found_in(text, set().union(*kept.values())) == [], text[:500]
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    for path in files:
        assert found_in(path.read_bytes(), planted) == [], path
        for name, its_own in kept.items():
            assert (found_in(path.read_bytes(), its_own) == []) == (path.name != name), path
    private = [path for path in files if path.name in (*kept, "tokens.json")]
    assert [path.stat().st_mode & 0o077 for path in private] == [0, 0, 0]


async def use_broken(served: Encrypted) -> None:
    """Sends a request that contains a secret and causes an exception in the broker. The broker
    closes the connection."""
    upsertion = {
        "name": "dave", "mechanism": SHA_512.code, "iterations": 4096, "salt": SALT,
        "salted_password": SALTED,
    }  # fmt: skip
    with pytest.raises(asyncio.IncompleteReadError):
        await served.seen.client.call(ALTER_USERS.key, 0, deletions=[], upsertions=[upsertion])


def is_ours(each: object) -> bool:
    """Returns True if the class of the object is defined in Muster."""
    module = type(each).__module__
    return isinstance(module, str) and module.partition(".")[0] in OURS
