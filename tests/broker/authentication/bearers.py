"""OAUTHBEARER tokens, the keys that sign them, and an issuer that publishes the keys over HTTP."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from broker.authentication.bearer import BearerSettings, SignedTokens
from broker.time import Time

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
NOW_S = 2_000_000_000
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def keys(*more: dict[str, Any]) -> str:
    own = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "a", "use": "sig"}
    of_rsa = {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "r", "alg": "RS256"}
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    return json.dumps({"keys": [own, of_rsa, shared, *more]})


def token(key: Any = KEY, algorithm: str = "ES256", kid: str = "a", **claims: Any) -> str:
    said = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm, {"kid": kid})


def forged(header: str) -> str:
    """Returns a token whose header bytes are ``header`` and whose signature is invalid."""
    return ".".join(
        urlsafe_b64encode(part).decode().rstrip("=") for part in (header.encode(), b"{}", b"x")
    )


def token_valid_now(key: Any = KEY, **claims: Any) -> str:
    now_s = Time().now().wall_ms // 1000
    return token(key, iat=now_s, exp=now_s + 600, **claims)


def first_message(of: str) -> bytes:
    """Returns the first SASL message of a client that logs in with the token ``of``."""
    return b"n,,\x01auth=Bearer " + of.encode() + b"\x01\x01"


def signed_tokens(folder: Path, text: str | None = None, **more: Any) -> SignedTokens:
    file = folder / "keys.json"
    file.write_text(keys() if text is None else text)
    return SignedTokens(BearerSettings(file.as_uri(), **more), Time(wall_s=lambda: NOW_S))


def settings(folder: Path) -> dict[str, str]:
    """Returns the settings of a listener that accepts OAUTHBEARER tokens."""
    file = folder / "keys.json"
    file.write_text(keys())
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
    }


class Issuer:
    """An HTTP server that sends the ``answers`` in order and then repeats the last one."""

    def __init__(self, *answers: bytes, location: str = "") -> None:
        """``answers`` are the response bodies. If ``location`` is set, it is a URL to which each
        response redirects."""
        self.asked: list[str] = []
        self.answers = [*answers]
        self.location = location
        self.may_answer = threading.Event()
        """The issuer answers requests only while this event is set, as it is at the start."""
        self.may_answer.set()
        self.url = ""

    @contextmanager
    def serving(self, certificate: Path | None = None) -> Iterator[Issuer]:
        """Serves HTTP, or HTTPS if ``certificate`` is given."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.may_answer.wait(60)
                more = len(issuer.answers) > 1
                body = issuer.answers.pop(0) if more else issuer.answers[0]
                if issuer.location:
                    self.send_response(302)
                    self.send_header("Location", issuer.location)
                elif body.startswith(b"HTTP/") or b"no HTTP" in body:
                    self.wfile.write(body)
                    return
                else:
                    self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...

        server = Server(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{server.server_port}/keys"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
