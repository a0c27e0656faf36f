"""The security parts of a broker: authentication, authorization, the audit log and quotas. `Broker`
creates one `Secured` from its configuration, and opens it before it answers requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from broker.apis.throttling.measuring import Measuring
from broker.authentication.logins import Logins
from broker.authentication.user_file import UserFile
from broker.authorizer.audit import Audit
from broker.authorizer.authorizer import AllowsAll
from broker.authorizer.quota_changes import QuotaChanges, QuotaFile
from broker.config.authorizer_rules import has_authorizer
from broker.config.config import BadConfig, Config
from broker.config.token_settings import has_tokens
from broker.loop.internal_errors import InternalErrors
from broker.net.limits.listener_rates import ListenerRates
from broker.net.limits.overrides import Overrides
from broker.net.listener import http_listener, listeners_of
from broker.net.sockets import CannotListen
from broker.net.tls.certificates import Certificates
from broker.quotas.client_quotas import ClientQuotas
from security.principal import parse_super_users

if TYPE_CHECKING:
    from broker.apis.fetch.sessions import FetchSessions
    from broker.authentication.tokens import Tokens
    from broker.authentication.users import Users
    from broker.authorizer.acl_changes import AclChanges
    from broker.authorizer.acl_store import AclStore, Outside
    from broker.authorizer.authorizer import Authorizer
    from broker.cluster_stores import ClusterStores
    from broker.loop.background import Background
    from broker.loop.slices import Slicer
    from broker.net.listener import Listener
    from broker.net.server import Server
    from broker.time import Time
    from log.files.filesystem import FileSystem

logger = structlog.get_logger(__name__)


class Secured:
    """The security parts of one broker."""

    def __init__(self, config: Config, time: Time, errors: InternalErrors) -> None:
        self._config = config
        self._time = time.real
        self.listeners = listeners_of(config)
        self.http = http_listener(config)
        with_http = [*self.listeners, *filter(None, [self.http])]
        self.certificates = Certificates(config, with_http, time.real)
        self.overrides = Overrides(config, time.real)
        self.audit = Audit(time, errors)
        """The audit log of denied operations and of security changes by clients."""
        self.authorizer: Authorizer = AllowsAll()
        self.acls: AclChanges | None = None
        """Changes of ACLs, if an authorizer is configured; otherwise None."""
        self.quotas = QuotaChanges(ClientQuotas(config, time))
        self.users: Users | None = None
        """The users with SCRAM credentials; set by `open`."""
        self.tokens: Tokens | None = None
        self.logins = Logins(self._time)
        """State of logins that all connections share, such as the limits on failed logins."""

    def open(self, fs: FileSystem, directory: str, run_outside: Outside, slicer: Slicer) -> None:
        """Opens the stores of a standalone broker. Raises BadDirectory."""
        if has_authorizer(self._config):
            from broker.authorizer.acl_store import FileAcls

            self.judge_by(FileAcls(fs, directory, run_outside, slicer))
        self.quotas.keep_in(QuotaFile(fs, directory, run_outside))
        self.users = UserFile(fs, directory, self._time).users()
        if has_tokens(self._config):
            from broker.authentication.token_file import TokenFile
            from broker.authentication.tokens import Tokens

            kept = TokenFile(fs, directory, run_outside)
            self.tokens = Tokens(self._config, self._time)
            self.tokens.keep_in(kept, kept.tokens.values())

    def open_in_cluster(self, stores: ClusterStores) -> None:
        """Sets the stores of a broker in a cluster; these stores are already open."""
        if stores.acls is not None:
            self.judge_by(stores.acls)
        self.quotas.keep_in(stores.quotas)
        self.users = stores.users
        self.tokens = None if stores.tokens is None else stores.tokens.tokens

    def judge_by(self, store: AclStore) -> None:
        """Creates the authorizer, which decides by the ACLs in ``store``."""
        from broker.authorizer.acl_authorizer import AclAuthorizer
        from broker.authorizer.acl_changes import AclChanges

        super_users = parse_super_users(self._config["super.users"])
        allow_everyone = self._config["allow.everyone.if.no.acl.found"]
        self.acls = AclChanges(store, self.audit)
        self.authorizer = AclAuthorizer(
            store.index, super_users, allow_everyone=allow_everyone, audit=self.audit
        )
        if not (super_users or allow_everyone or len(store.index)):
            logger.warning(
                "authorizer denies every request: super.users is empty, and no ACL exists;"
                " stop the broker and run muster acls add --data-dir"
            )

    def apply_quotas(self, server: Server, fetch_sessions: FetchSessions) -> None:
        """Applies the quotas to the connections and responses of a server."""
        server.limit_rates(ListenerRates(self._config, self._time))
        Measuring(self.quotas.quotas, server, fetch_sessions)

    def protect(self, listener: Listener) -> None:
        """Requires a login on a listener if the listener's security protocol has SASL.

        Raises CannotListen if the signing keys of tokens can't be read.
        """
        if not listener.endpoint.has_sasl:
            return
        from broker.authentication.login_protocol import LoginProtocol
        from broker.authentication.settings import listener_sasl

        assert self.users is not None
        logins = self.logins
        try:
            sasl = listener_sasl(self._config, listener.name, self.users, self.tokens, self._time)
        except BadConfig as error:
            raise CannotListen(str(error)) from None
        logins.offered += [(listener.name, mechanism) for mechanism in sasl.offered]
        listener.before_login = lambda connection: LoginProtocol(logins, sasl, connection)

    async def start(self, background: Background) -> None:
        """Starts the check for changed certificate files, and the removal of expired tokens."""
        await self.certificates.start(background)
        await self.overrides.start()
        if self.tokens is not None:
            self.tokens.start(background)

    def stop(self) -> None:
        """Stops the background work of `start`, and logs the denials that have not been logged
        yet."""
        self.certificates.stop()
        if self.tokens is not None:
            self.tokens.stop()
        self.audit.stop()
