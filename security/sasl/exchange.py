r"""The SASL exchange of a login on one connection, and of each re-authentication.

    INITIAL ----ApiVersions----> HANDSHAKE ----SaslHandshake----> AUTHENTICATE ----> COMPLETE
       \________________________________SaslHandshake______________/      ^____________/

The exchange receives frames. It returns the answer and the next step of the connection. The caller
does I/O, encodes and decodes, reads clocks, and delays an answer if the `Reply` requires it. After
a handshake of version 0, tokens arrive without a request around them. Source: KIP-43, 152, 255,
306, 368; Kafka 3.9 ``SaslServerAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from protocol.errors import (
    ILLEGAL_SASL_STATE,
    NONE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)
from protocol.messages import BY_KEY
from protocol.now import Now
from security.principal import Principal, user
from security.sasl.steps import Accepted, Challenge, Refused, Step

API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
RENEWAL_MS_MIN: Final = 1000
"""The minimum time in ms between the starts of two re-authentications."""


class Mechanism(Protocol):
    """The broker's part of one login with one mechanism."""

    def tries(self, message: bytes) -> str | None:
        """Returns the user name with which the client logs in, if ``message`` contains a secret or
        a proof; otherwise None."""

    def step(self, message: bytes) -> Step:
        """Handles the client's next message. Returns its result."""


class Then(Enum):
    """The next step of a connection after it has received a frame of its SASL login."""

    GO_ON = "the answer is sent; the next frame belongs to the login"
    SERVE = "the broker answers this request as after a login; the next frame belongs to the login"
    LOGGED_IN = "the login is complete; the next frames are ordinary requests"
    FAIL = "after the delay the answer is sent and the connection is closed"
    CLOSE = "the connection is closed at once"


class Reply(NamedTuple):
    """The result of one frame that the client sent during the login."""

    then: Then
    answer: Mapping[str, Any] | bytes | None = None
    """The body of the response, or the bytes of a frame without a header; None if no response is
    sent."""
    error_code: int = NONE
    reason: str | None = None
    """The reason why the login failed; None if it did not fail. Only the operator may see the
    reason."""


class Login(NamedTuple):
    """A completed login."""

    principal: Principal
    mechanism: str
    by_token: bool
    expires_ms: int | None
    """Monotonic time in ms after which the connection accepts only SaslHandshake; None for no
    limit."""


class _State(Enum):
    INITIAL = "no request has arrived"
    HANDSHAKE = "ApiVersions was answered"
    AUTHENTICATE = "a mechanism was chosen"
    OTHER_MECHANISM = "a re-authentication has chosen another mechanism"
    COMPLETE = "logged in"


class Exchange:
    """The SASL exchange of one connection.

    ``offered`` has, for each enabled mechanism, a function that creates a login. The order of
    ``offered`` is that of the SaslHandshake response. ``session_ms`` has the value of
    ``connections.max.reauth.ms`` for each mechanism; 0 means no limit.
    """

    def __init__(
        self, offered: Mapping[str, Callable[[], Mechanism]], session_ms: Mapping[str, int]
    ) -> None:
        self._offered = offered
        self._session_ms = session_ms
        self._state = _State.INITIAL
        self._mechanism_name = ""
        self._mechanism: Mechanism | None = None
        self._refusal: str | None = None
        """The reason of a rejected login, while the broker waits for the client's response to the
        error message; otherwise None."""
        self._renewal_began_ms: int | None = None
        self.login: Login | None = None
        """The last completed login; None before the first login is complete. A re-authentication
        replaces it."""
        self.takes_raw = False
        """True if the next frame is a token without a request around it."""

    @property
    def is_under_way(self) -> bool:
        """True while a login is in progress. The caller must then pass the next frame to `request`
        or `token`."""
        return self._state != _State.COMPLETE

    @property
    def mechanism_name(self) -> str:
        """The mechanism that the client chose last; "" before the first handshake with an enabled
        mechanism."""
        return self._mechanism_name

    def tries(self, token: bytes) -> str | None:
        """Returns the user name if the client's message ``token`` contains a secret, so that it
        counts as an attempt to log in. Otherwise returns None."""
        return None if self._mechanism is None else self._mechanism.tries(token)

    def request(self, api_key: int, version: int, body: Mapping[str, Any], now: Now) -> Reply:
        """Handles a request that arrives before the login is complete. ``body`` has the fields of
        SaslHandshake or SaslAuthenticate; for other requests it is not read."""
        match self._state:
            case _State.INITIAL | _State.HANDSHAKE:
                if api_key == API_VERSIONS:
                    if self._state == _State.HANDSHAKE:
                        return Reply(
                            Then.CLOSE, reason="a second ApiVersions arrived before the login"
                        )
                    return Reply(Then.SERVE)
                if api_key == SASL_HANDSHAKE:
                    return self._handshake(version, body["mechanism"])
                said = (
                    f"{_name(api_key)} arrived before the login: check that the client is"
                    " configured for SASL"
                )
                return Reply(Then.FAIL, reason=said)
            case _State.AUTHENTICATE:
                if api_key == SASL_AUTHENTICATE:
                    return self._answered(self._step(body["auth_bytes"], now), now)
                said = f"{_name(api_key)} arrived during the login"
                return Reply(
                    Then.FAIL,
                    {"error_code": ILLEGAL_SASL_STATE} if api_key == SASL_HANDSHAKE else {},
                    ILLEGAL_SASL_STATE,
                    # aiokafka takes the message with the error for the last message of the login.
                    said if self._refusal is None else f"{self._refusal}; {said}",
                )
            case _State.OTHER_MECHANISM:
                assert self.login is not None
                return Reply(
                    Then.CLOSE,
                    reason=f"SASL mechanism {self._mechanism_name!r} requested by client is not"
                    f" supported for re-authentication of mechanism {self.login.mechanism!r}",
                )
            case _State.COMPLETE:
                raise AssertionError("the login is complete")

    def served(self, error_code: int) -> None:
        """Notes that the broker has answered ApiVersions with ``error_code``. After an error the
        client may send ApiVersions again."""
        if error_code == NONE:
            self._state = _State.HANDSHAKE

    def token(self, token: bytes, now: Now) -> Reply:
        """Handles a token that is a whole frame without a SaslAuthenticate request, as after a
        SaslHandshake of version 0."""
        step = self._step(token, now)
        match step:
            case Challenge(message):
                return Reply(Then.GO_ON, message)
            case Accepted(message):
                return Reply(Then.LOGGED_IN, message)
            case Refused(reason):
                return Reply(Then.FAIL, None, SASL_AUTHENTICATION_FAILED, reason)

    def renew(self, version: int, body: Mapping[str, Any], now: Now) -> Reply | None:
        """Handles a SaslHandshake after the login. Returns None if the caller must reply
        ILLEGAL_SASL_STATE."""
        assert self.login is not None
        began_ms = self._renewal_began_ms
        if self.login.expires_ms is None or (
            began_ms is not None and now.mono_ms - began_ms < RENEWAL_MS_MIN
        ):
            return None
        self._renewal_began_ms = now.mono_ms
        reply = self._handshake(version, body["mechanism"])
        if reply.then == Then.GO_ON and self._mechanism_name != self.login.mechanism:
            self._state = _State.OTHER_MECHANISM
        return reply

    def _handshake(self, version: int, name: str) -> Reply:
        answer = {"mechanisms": list(self._offered)}
        begin = self._offered.get(name)
        if begin is None:
            return Reply(
                Then.FAIL,
                {"error_code": UNSUPPORTED_SASL_MECHANISM, **answer},
                UNSUPPORTED_SASL_MECHANISM,
                f"mechanism {name!r} is not enabled",
            )
        self._mechanism_name, self._mechanism = name, begin()
        self._state = _State.AUTHENTICATE
        self.takes_raw = version == 0
        return Reply(Then.GO_ON, {"error_code": NONE, **answer})

    def _step(self, token: bytes, now: Now) -> Step:
        """Passes a token to the mechanism and returns the result. An acceptance completes the
        login."""
        assert self._mechanism is not None
        step = self._mechanism.step(token)
        self._refusal = step.refusal if isinstance(step, Challenge) else None
        if isinstance(step, Accepted):
            before, principal = self.login, user(step.name)
            if before is not None and before.principal != principal:
                old, new = (".".join(each) for each in (before.principal, principal))
                said = f"Cannot change principals during re-authentication from {old}: {new}"
                return Refused(
                    f"{before.principal} re-authenticated with the credentials of {principal}",
                    said,
                )
            self.login = Login(
                principal, self._mechanism_name, step.by_token, self._expires_ms(step, now)
            )
            self._state = _State.COMPLETE
            self._mechanism = None
            self.takes_raw = False
        return step

    def _expires_ms(self, step: Accepted, now: Now) -> int | None:
        session_ms = self._session_ms.get(self._mechanism_name, 0)
        ends = [now.mono_ms + session_ms] if session_ms else []
        if step.expires_ms is not None:
            ends.append(now.mono_ms + max(0, step.expires_ms - now.wall_ms))
        return min(ends, default=None)

    def _answered(self, step: Step, now: Now) -> Reply:
        match step:
            case Challenge(message):
                return Reply(Then.GO_ON, _authenticated(message, 0))
            case Accepted(message):
                assert self.login is not None
                ends_ms = self.login.expires_ms
                lifetime_ms = 0 if ends_ms is None else ends_ms - now.mono_ms
                return Reply(Then.LOGGED_IN, _authenticated(message, lifetime_ms))
            case Refused(reason, to_client, message):
                return Reply(
                    Then.FAIL,
                    {
                        **_authenticated(message, 0),
                        "error_code": SASL_AUTHENTICATION_FAILED,
                        "error_message": to_client or self._general_words(),
                    },
                    SASL_AUTHENTICATION_FAILED,
                    reason,
                )

    def _general_words(self) -> str:
        during = "authentication" if self.login is None else "re-authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism"
            f" {self._mechanism_name}"
        )


def _name(api_key: int) -> str:
    return BY_KEY[api_key].name if api_key in BY_KEY else f"API key {api_key}"


def _authenticated(message: bytes, lifetime_ms: int) -> dict[str, Any]:
    return {
        "error_code": NONE,
        "error_message": "",
        "auth_bytes": message,
        "session_lifetime_ms": lifetime_ms,
    }
