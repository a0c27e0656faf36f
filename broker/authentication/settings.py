"""Makes the login settings of a listener from the broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from broker.authentication.mechanisms import Begin, ListenerSasl, plain, scram
from broker.authentication.tokens import Tokens
from broker.authentication.users import Users
from broker.config.config import Config
from broker.time import Time
from security.credentials import BY_NAME, Find, Found, ScramMechanism
from security.jaas import parse_jaas
from security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from security.sasl.oauthbearer import OAuthBearerServer
from security.sasl.plain import MECHANISM as PLAIN
from security.sasl.plain import users_of

logger = structlog.get_logger(__name__)


def listener_sasl(
    config: Config,
    listener: str,
    users: Users,
    tokens: Tokens | None,
    time: Time,
) -> ListenerSasl:
    """Returns the login settings of one listener. Raises BadConfig for invalid OAUTHBEARER
    settings."""
    settings = config.of_listener(listener)
    _warn(config, listener, settings["sasl.enabled.mechanisms"].split(","))
    offered: dict[str, Begin] = {}
    for name in settings["sasl.enabled.mechanisms"].split(","):
        if name == PLAIN:
            offered[name] = plain(_passwords(config, listener))
        elif name in BY_NAME:
            find = _finder(users, tokens, BY_NAME[name])
            offered[name] = scram(name, find, users.decoys(BY_NAME[name]), time)
        else:
            offered[name] = _bearer(config, listener, time)
    return ListenerSasl(
        offered,
        {
            name: max(0, config.of_mechanism(listener, name)["connections.max.reauth.ms"])
            for name in offered
        },
        settings["sasl.server.max.receive.size"],
        config["connection.failed.authentication.delay.ms"],
    )


def _finder(users: Users, tokens: Tokens | None, mechanism: ScramMechanism) -> Find:
    of_users = users.finder(mechanism)

    def find(name: str, by_token: bool) -> Found | None:
        if by_token:
            return None if tokens is None else tokens.found(mechanism, name)
        return of_users(name, by_token)

    return find


def _warn(config: Config, listener: str, mechanisms: Sequence[str]) -> None:
    has_tls = any(each.name == listener and each.has_tls for each in config.listeners)
    if PLAIN in mechanisms and not has_tls:
        logger.warning("PLAIN passwords are sent without TLS", listener=listener)
    name = "sasl.jaas.config"
    if config.of_listener(listener)[name]:
        logger.warning(
            "login module ignored: sasl.jaas.config needs a mechanism prefix",
            listener=listener,
            instead=f"{mechanisms[0].lower()}.{name}",
        )


def _bearer(config: Config, listener: str, time: Time) -> Begin:
    from broker.authentication.bearer import SignedTokens, bearer_settings

    tokens = SignedTokens(bearer_settings(config.of_mechanism(listener, OAUTHBEARER)), time)
    return lambda: OAuthBearerServer(tokens.check)


def _passwords(config: Config, listener: str) -> Mapping[str, str]:
    text = config.of_mechanism(listener, PLAIN).own("sasl.jaas.config")
    return users_of(parse_jaas(text).options)
