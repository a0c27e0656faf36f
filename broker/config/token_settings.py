"""Whether there are delegation tokens, and the secret that makes their passwords."""

from __future__ import annotations

from typing import Any, Final, Protocol

_SECRET: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The newer name first: it wins."""


class Settings(Protocol):
    """Typed values by Kafka's name."""

    def __getitem__(self, name: str) -> Any: ...


def token_secret(settings: Settings) -> str:
    """What makes the passwords of tokens; "" where there are none."""
    return next((settings[name] for name in _SECRET if settings[name]), "")


def has_tokens(settings: Settings) -> bool:
    """Whether there are any."""
    return bool(token_secret(settings))
