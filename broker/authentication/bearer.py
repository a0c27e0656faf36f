"""Verifies the signed tokens of OAUTHBEARER with the issuer's keys.

The keys are a JWKS (RFC 7517), in a file or at a URL. A thread reads the keys again periodically,
and when a token names an unknown key; a login never waits for this read. A token that is unsigned,
or signed with a shared secret, is rejected. Log lines and errors contain no part of a token.
Source: KIP-768; Kafka 3.9 ``ValidatorAccessTokenValidator``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import structlog

from broker.config.config import BadConfig
from broker.config.listener_settings import MechanismSettings
from broker.time import Time
from protocol.slotted import slotted
from security.sasl.oauthbearer import TokenClaims, TokenRefused

logger = structlog.get_logger(__name__)

ALGORITHMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The accepted signature algorithms, each with the type of its keys. All are asymmetric."""
HEADER_CHARACTERS_MAX: Final = 16384
"""The maximum length in characters of a token's header.

The header is read before the signature is verified, in at most 2 ms.
"""
KEYS_BYTES_MAX: Final = 1 << 20
READ_WITHIN_S: Final = 10
_LOCAL: Final = ("127.0.0.1", "::1", "localhost")
_UNREADABLE: Final = (OSError, ValueError, RecursionError, HTTPException)
"""The exceptions that are raised if the keys can't be read, or if the response is not a JWKS."""


@slotted(frozen=True)
class BearerSettings:
    """The settings ``sasl.oauthbearer.*`` of a listener."""

    url: str
    audience: tuple[str, ...] = ()
    issuer: str | None = None
    name_claim: str = "sub"
    skew_ms: int = 30_000
    refresh_ms: int = 3_600_000
    retry_ms: int = 10_000


def bearer_settings(settings: MechanismSettings) -> BearerSettings:
    """Returns the OAUTHBEARER settings of a listener. Raises BadConfig."""
    start = "sasl.oauthbearer."
    url = settings[start + "jwks.endpoint.url"] or ""
    parts = urlsplit(url)
    if not (
        parts.scheme in ("https", "file") or (parts.scheme == "http" and parts.hostname in _LOCAL)
    ):
        raise BadConfig(
            f"{start}jwks.endpoint.url must be an https: or file: URL of the signing keys:"
            " OAUTHBEARER does not accept unsigned tokens"
        )
    return BearerSettings(
        url,
        tuple(filter(None, (settings[start + "expected.audience"] or "").split(","))),
        settings[start + "expected.issuer"] or None,
        settings[start + "sub.claim.name"],
        settings[start + "clock.skew.seconds"] * 1000,
        settings[start + "jwks.endpoint.refresh.ms"],
        settings[start + "jwks.endpoint.retry.backoff.max.ms"],
    )


class SignedTokens:
    """Verifies the tokens of one listener."""

    def __init__(self, settings: BearerSettings, time: Time) -> None:
        """Raises BadConfig if the library PyJWT is missing, or if the key file contains no keys."""
        try:
            import jwt
        except ImportError:
            raise BadConfig(
                "OAUTHBEARER needs the package PyJWT: pip install 'musterd[oauthbearer]'"
            ) from None
        self._jwt = jwt
        self._settings = settings
        self._time = time
        self._keys: dict[str | None, dict[str, Any]] = {}
        """The keys in JWK form, by key id."""
        self._asked_ms = time.now().mono_ms
        self._is_reading = False
        if settings.url.startswith("file:"):
            try:
                self._keys = _keys_of(_read(settings.url))
            except _UNREADABLE as error:
                raise BadConfig(f"{settings.url} has no signing keys: {error}") from None
        else:
            self._read_in_thread()

    def check(self, token: str) -> TokenClaims | TokenRefused:
        """Returns the claims of a valid token; for another token, returns the reason why it is
        rejected."""
        self._refresh(self._settings.refresh_ms)
        try:
            return self._checked(token)
        except Exception as error:  # noqa: BLE001 - the library may raise anything on bad input
            return TokenRefused(f"the token can't be checked: {type(error).__name__}")

    def _checked(self, token: str) -> TokenClaims | TokenRefused:
        jwt = self._jwt
        if token.find(".") > HEADER_CHARACTERS_MAX:
            return TokenRefused("the token's header is too long")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            return TokenRefused("the token is not a signed JWT")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            return TokenRefused("the token's signature algorithm is not supported")
        key = self._keys.get(header.get("kid"))
        if key is None:
            self._refresh(self._settings.retry_ms)
            return TokenRefused("the token names an unknown key")
        if key.get("kty") != ALGORITHMS[algorithm] or key.get("alg", algorithm) != algorithm:
            return TokenRefused("the token's signature algorithm does not match its key")
        try:
            # PyJWT does not check times, since the checks must use the broker's clock.
            claims = jwt.decode(
                token,
                jwt.PyJWK(key, algorithm).key,
                algorithms=[algorithm],
                options={
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_aud": False,
                    "verify_sub": False,
                },
            )
        except jwt.PyJWTError as error:
            return TokenRefused(f"the token is not valid: {type(error).__name__}")
        return self._judge(claims)

    def _judge(self, claims: Mapping[str, Any]) -> TokenClaims | TokenRefused:
        settings = self._settings
        now_ms = self._time.now().wall_ms
        name: Any = claims.get(settings.name_claim)
        expires: Any = claims.get("exp")
        issued: Any = claims.get("iat")
        begins: Any = claims.get("nbf", issued)
        if not isinstance(name, str) or not name:
            return TokenRefused(f"the token has no user name in claim {settings.name_claim}")
        if not (_is_time(expires) and _is_time(issued) and _is_time(begins)):
            return TokenRefused("the token has no valid exp or iat claim")
        if now_ms >= expires * 1000 + settings.skew_ms:
            return TokenRefused(f"the token of {name!r} has expired")
        if max(issued, begins) * 1000 > now_ms + settings.skew_ms:
            return TokenRefused(f"the token of {name!r} is not valid yet")
        audience = claims.get("aud", [])
        audiences = audience if isinstance(audience, list) else [audience]
        if settings.audience and not any(each in settings.audience for each in audiences):
            return TokenRefused(
                f"the audience of the token of {name!r} is not in"
                " sasl.oauthbearer.expected.audience"
            )
        if settings.issuer is not None and claims.get("iss") != settings.issuer:
            return TokenRefused(
                f"the issuer of the token of {name!r} is not sasl.oauthbearer.expected.issuer"
            )
        return TokenClaims(name, int(expires * 1000))

    # -- the keys

    def _refresh(self, after_ms: int) -> None:
        """Starts to read the keys in a thread, unless the last read began less than ``after_ms``
        ago."""
        now_ms = self._time.now().mono_ms
        if not self._is_reading and now_ms - self._asked_ms >= after_ms:
            self._asked_ms = now_ms
            self._read_in_thread()

    def _read_in_thread(self) -> None:
        self._is_reading = True
        self._time.start_thread(self._read_again, "jwks")

    def _read_again(self) -> None:
        try:
            self._keys = _keys_of(_read(self._settings.url))
        except _UNREADABLE as error:
            logger.warning(
                "signing keys of tokens can't be fetched", url=self._settings.url, error=str(error)
            )
        finally:
            self._is_reading = False


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 40


class _ToHttpsAlone(HTTPRedirectHandler):
    """Rejects redirects to a URL without TLS, because an attacker on the network could insert keys
    there."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != "https":
            raise HTTPError(
                newurl, code, "the server redirects the request to a URL without TLS", headers, fp
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read(url: str) -> bytes:
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path)).read_bytes()
    with build_opener(_ToHttpsAlone()).open(url, timeout=READ_WITHIN_S) as answer:
        data: bytes = answer.read(KEYS_BYTES_MAX)
        return data


def _keys_of(data: bytes) -> dict[str | None, dict[str, Any]]:
    """Returns the signing keys of a JWKS by key id. Raises ValueError if it has no keys."""
    found = json.loads(data)
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise ValueError("the content is not a JSON object with a list 'keys'")
    usable = {
        key.get("kid"): key
        for key in keys
        if isinstance(key, dict)
        and key.get("kty") in ALGORITHMS.values()
        and key.get("use", "sig") == "sig"
        and isinstance(key.get("kid"), str | None)
    }
    if not usable:
        raise ValueError("no key is a public key for signatures")
    return usable
