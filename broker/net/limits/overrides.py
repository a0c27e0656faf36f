"""``max.connections.per.ip.overrides``: connection limits of single addresses. A host name means
all addresses to which it resolves when the broker starts or when the setting changes; as in Apache
Kafka, the name is not resolved again later. A host name that can't be resolved is an error at the
start of the broker and in a request that changes the setting, since a limit without an address has
no effect."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.config.config import BadConfig, Config
from broker.config.config_value import BadValue
from broker.config.listeners import is_address
from broker.net.peer import java_address
from broker.time import Time

if TYPE_CHECKING:
    from broker.loop.background import Background

logger = structlog.get_logger(__name__)

SETTING = "max.connections.per.ip.overrides"


class Found(NamedTuple):
    """The value of max.connections.per.ip.overrides, with its host names resolved."""

    text: str
    by_address: Mapping[str, int]
    unknown: Mapping[str, str]
    """The reason for each host name that can't be resolved."""


class Overrides:
    """The overrides of one broker; after `open` has returned, only the event loop's thread may use
    them."""

    def __init__(self, config: Config, time: Time) -> None:
        self._config = config
        self._time = time
        self._text = ""
        """The text of the setting that was resolved last or is being resolved."""
        self.by_address: dict[str, int] = {}
        """The limits by the peer's address in Java's form. Changes update this dict object; it is
        never replaced."""

    def open(self) -> None:
        """Resolves the host names in ``max.connections.per.ip.overrides``, and blocks until they
        are resolved. Called before the broker serves clients. Raises BadConfig."""
        found = _looked_up(self._config)
        try:
            _check(found)
        except BadValue as error:
            raise BadConfig(str(error)) from None
        self.use(found)

    async def start(self) -> None:
        """Resolves the host names in ``max.connections.per.ip.overrides`` again if the dynamic
        config has changed this setting. Logs the names that can't be resolved."""
        if self._config[SETTING] != self._text:
            await self._follow()

    async def prepared(self, config: Config) -> Found | None:
        """Returns the value of the setting in ``config`` with host names resolved; None if the
        setting has not changed.

        Raises BadValue for a host name that can't be resolved.
        """
        if config[SETTING] == self._text:
            return None
        found = await self._in_thread(config)
        _check(found)
        return found

    def use(self, found: Found | None) -> None:
        if found is not None:
            self._text = found.text
            self.by_address.clear()
            self.by_address.update(found.by_address)

    def follow(self, background: Background) -> None:
        """If another broker of the cluster has changed max.connections.per.ip.overrides, starts a
        task that applies the new value."""
        if self._config[SETTING] != self._text:
            self._text = self._config[SETTING]
            background.spawn(self._follow())

    async def _follow(self) -> None:
        found = await self._in_thread(self._config)
        if self._config[SETTING] == found.text:
            self.use(found)
            for name, why in found.unknown.items():
                logger.error(f"{SETTING}: host name can't be resolved", host=name, reason=why)

    async def _in_thread(self, config: Config) -> Found:
        if all(map(is_address, config.connections_per_ip_overrides)):
            return _looked_up(config)  # no name to resolve, so it does not block
        return await self._time.in_thread(_looked_up, config)


def _looked_up(config: Config) -> Found:
    """Resolves the host names of the setting; may block on the network."""
    by_address: dict[str, int] = {}
    unknown = {}
    for host, number in config.connections_per_ip_overrides.items():
        try:
            addresses = [host] if is_address(host) else _addresses(host)
        except (OSError, UnicodeError) as error:
            unknown[host] = getattr(error, "strerror", None) or str(error)
            continue
        by_address |= {java_address(address)[1:]: number for address in addresses}
    return Found(config[SETTING], by_address, unknown)


def _addresses(name: str) -> list[str]:
    infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in infos]


def _check(found: Found) -> None:
    for name, why in found.unknown.items():
        raise BadValue(f"{SETTING}={found.text}: {name} can't be resolved: {why}")
