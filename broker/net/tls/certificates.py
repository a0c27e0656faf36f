"""The certificates of a broker's listeners, read when the broker starts and whenever they change.

Certificates change by AlterConfigs, by SIGHUP, or on disk; the broker checks the files once per
minute. A thread reads and validates changed certificates. If they are valid, new connections use
them. Otherwise the old certificates remain in use, and the error is logged. The broker logs one
line per day about a certificate that expires soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.config.config import BadConfig, Config
from broker.config.config_value import BadValue
from broker.config.listener_settings import START
from broker.net.clients.failure_lines import FailureLines
from broker.net.listener import Listener
from broker.time import Time

if TYPE_CHECKING:
    from broker.loop.background import Background
    from broker.net.tls.context import ListenerTls, Stamps, TlsSettings
    from broker.net.tls.listener import TlsListener

logger = structlog.get_logger(__name__)

LOOK_S = 60
"""The number of seconds between two checks whether the certificate files have changed."""
WARN_DAYS = 30
"""The broker logs warnings if a certificate expires within this number of days."""
_DAY_MS = 86_400_000


class Made(NamedTuple):
    """The TLS context of a listener, with the settings and file stamps from which it was
    created."""

    tls: ListenerTls
    settings: TlsSettings
    stamps: Stamps


class Certificates:
    """The certificates of all listeners.

    After `open` has returned, only the event loop's thread may use them.
    """

    def __init__(self, config: Config, listeners: list[Listener], time: Time) -> None:
        self._config = config
        self._listeners = listeners
        self._time = time
        self._lines = FailureLines(time)
        self._made: dict[Listener, Made] = {}
        self._refused: dict[Listener, Stamps] = {}
        """The file stamps of rejected certificates, so that each rejected change is logged only
        once."""
        self._warned_ms: dict[Listener, int] = {}
        self._looking: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Reads the certificates of all listeners. Raises BadConfig if a certificate can't be
        used."""
        for listener in self._listeners:
            if listener.endpoint.has_tls:
                self._open(listener)

    def _open(self, listener: Listener) -> None:
        # The import is here because a broker without TLS does not need this module.
        from broker.net.tls.context import TlsError
        from broker.net.tls.settings import open_tls, tls_settings

        of_listener = self._config.of_listener(listener.name)
        settings = tls_settings(listener.endpoint, of_listener)
        stamps = settings.stamps()
        try:
            listener.tls = open_tls(listener.endpoint, of_listener, self._lines)
        except TlsError as error:
            raise BadConfig(f"listener {listener.name}: {error}") from None
        self._made[listener] = Made(listener.tls.made, settings, stamps)
        self._warn_of_client_auth(listener)

    def _warn_of_client_auth(self, listener: Listener) -> None:
        """Warns that a SASL listener ignores the broker-wide ssl.client.auth: only the listener's
        own setting has an effect (KIP-684)."""
        name = "ssl.client.auth"
        own = self._config.of_listener(listener.name).own(name)
        if listener.endpoint.has_sasl and own is None and self._config[name].lower() != "none":
            logger.warning(
                "ssl.client.auth ignored on SASL listener",
                listener=listener.name,
                instead=f"{START}{listener.name.lower()}.{name}",
            )

    async def start(self, background: Background) -> None:
        """Applies TLS settings from the dynamic config, and starts the periodic check of the
        files."""
        if not self._made:
            return
        await self._look(is_start=True)
        self._looking = background.every("certificates", lambda: LOOK_S, self.look, _failed)

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    # -- changes

    async def prepared(self, config: Config) -> Mapping[Listener, Made]:
        """Returns new TLS contexts for the listeners whose settings in ``config`` or whose files
        have changed; `use` applies them. Raises BadValue if the TLS settings of any listener are
        invalid."""
        fresh = {}
        for listener, settings, stamps in self._differing(config):
            fresh[listener] = await self._tried(config, listener, settings, stamps)
        return fresh

    def use(self, fresh: Mapping[Listener, Made]) -> None:
        for listener, made in fresh.items():
            assert listener.tls is not None
            listener.tls.made = made.tls
            self._made[listener] = made
            self._refused.pop(listener, None)
            self._warned_ms.pop(listener, None)
            certificate = made.tls.certificate
            logger.info(
                "certificate reloaded",
                listener=listener.name,
                subject=certificate.subject,
                serial=certificate.serial,
                expires=certificate.expires.isoformat(),
            )

    async def look(self) -> None:
        """Applies changed files, and warns of expiring certificates; called every minute."""
        await self._look(is_start=False)

    async def _look(self, *, is_start: bool) -> None:
        """Loads changed certificate files and uses them. If the settings of a listener changed
        during the load of its files, the loaded certificate is dropped."""
        for listener, settings, stamps in list(self._differing(self._config)):
            if self._refused.get(listener) == stamps:
                continue
            serves = self._made[listener]
            try:
                made = await self._tried(
                    self._config, listener, settings, stamps, may_be_other=is_start
                )
            except BadValue as error:
                self._refused[listener] = stamps
                logger.error("certificate can't be reloaded, old one kept", reason=str(error))
            else:
                if self._made[listener] is serves and self._is_wanted(made, listener):
                    self.use({listener: made})
        self._warn()

    def _differing(self, config: Config) -> Iterator[tuple[Listener, TlsSettings, Stamps]]:
        if not self._made:
            return
        from broker.net.tls.settings import tls_settings

        for listener, made in self._made.items():
            settings = tls_settings(listener.endpoint, config.of_listener(listener.name))
            stamps = settings.stamps()
            if (settings, stamps) != (made.settings, made.stamps):
                yield listener, settings, stamps

    def _is_wanted(self, made: Made, listener: Listener) -> bool:
        from broker.net.tls.settings import tls_settings

        of_listener = self._config.of_listener(listener.name)
        return made.settings == tls_settings(listener.endpoint, of_listener)

    async def _tried(
        self,
        config: Config,
        listener: Listener,
        settings: TlsSettings,
        stamps: Stamps,
        *,
        may_be_other: bool = False,
    ) -> Made:
        """Makes the TLS objects for new settings, in a thread because this takes time. Unless
        ``may_be_other`` is True, checks that they may replace the listener's current TLS objects.
        Raises BadValue."""
        from broker.net.tls.context import TlsError, check_change, listener_tls

        of_listener = config.of_listener(listener.name)
        serves = self._made[listener].tls
        other_subject = of_listener["ssl.allow.dn.changes"]
        other_names = of_listener["ssl.allow.san.changes"]
        is_inter_broker = config.is_in_cluster and listener.is_inter_broker

        def try_it() -> ListenerTls:
            tls = listener_tls(settings)
            if not may_be_other:
                check_change(
                    serves,
                    tls,
                    other_subject=other_subject,
                    other_names=other_names,
                    is_inter_broker=is_inter_broker,
                )
            return tls

        try:
            return Made(await self._time.in_thread(try_it), settings, stamps)
        except TlsError as error:
            raise BadValue(f"listener {listener.name}: {error}") from None

    # -- expiry

    def listeners(self) -> list[TlsListener]:
        return [listener.tls for listener in self._made if listener.tls is not None]

    def seconds_left(self) -> dict[str, float]:
        """Returns the number of seconds until the certificate expires, by listener; negative if it
        has expired."""
        now_ms = self._time.now().wall_ms
        return {
            listener.name: made.tls.certificate.expires.timestamp() - now_ms / 1000
            for listener, made in self._made.items()
        }

    def _warn(self) -> None:
        now = self._time.now()
        for listener, made in self._made.items():
            days_left = made.tls.certificate.days_left(now.wall_ms)
            warned_ms = self._warned_ms.get(listener)
            if days_left >= WARN_DAYS or (
                warned_ms is not None and now.mono_ms - warned_ms < _DAY_MS
            ):
                continue
            self._warned_ms[listener] = now.mono_ms
            logger.warning(
                "certificate expires soon" if days_left > 0 else "certificate expired",
                listener=listener.name,
                subject=made.tls.certificate.subject,
                expires=made.tls.certificate.expires.isoformat(),
            )


def _failed(error: Exception) -> None:
    logger.error("certificates can't be checked", error=str(error))
