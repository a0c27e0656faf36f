"""The ACLs, credentials, tokens and quotas of a broker in a cluster, which are stored in ZooKeeper.

The broker reads all of them before it answers any request. Then it watches for changes by other
brokers, as the other brokers watch for its changes.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from broker.authentication import token_file, user_file
from broker.authentication.tokens import CannotKeep as CannotKeepToken
from broker.authentication.tokens import Tokens
from broker.authentication.user_file import fresh_secret
from broker.authentication.users import Credentials, Users
from broker.authentication.users import Edit as UserEdit
from broker.authorizer import acl_store, quota_changes
from broker.authorizer.quota_changes import Changed as QuotasChanged
from broker.authorizer.quota_changes import Edit as QuotaEdit
from broker.authorizer.quota_changes import Entities
from broker.cluster.protection.acl_nodes import ZooKeeperAcls
from broker.cluster.protection.followed_nodes import Spawn
from broker.cluster.protection.token_nodes import ZooKeeperTokens
from broker.cluster.topics.client_configs import ClientConfigs
from broker.cluster.zookeeper.zookeeper import (
    NodeExists,
    SessionExpired,
    ZooKeeper,
    ZooKeeperError,
    in_time,
    slices,
)
from broker.config.authorizer_rules import has_authorizer
from broker.config.config import Config
from broker.config.token_settings import has_tokens
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.startup_parts import CannotJoin, StartupParts
from protocol.slotted import slotted
from protocol.znodes import configs
from protocol.znodes.configs import ClientEntity, entity_of
from protocol.znodes.fields import BadNode
from security.credentials import (
    BY_NAME,
    ScramCredential,
    ScramMechanism,
    credential_text,
    parse_credential,
)
from security.quotas.entities import (
    ABSENT,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    OF_CLIENTS,
    PRODUCER_BYTE_RATE,
    Entity,
    address_of,
    wrong_quota,
)
from security.tokens import Token

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker

logger = structlog.get_logger(__name__)

SECRET_NODE: Final = "/muster_login_secret"
"""The path of a node with the key from which decoys (credentials of unknown users) are computed.
The key is the same on every broker.

Kafka does not use this node. A client that can read it can also read the credentials.
"""
_QUOTAS: Final = (*OF_CLIENTS, CONNECTION_CREATION_RATE)
_WHOLE: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE)
Result = TypeVar("Result")


class ClusterUsers:
    """Stores SCRAM credentials in the ZooKeeper nodes of users. Implements `UserStore`."""

    def __init__(self, clients: ClientConfigs, time: Time) -> None:
        self._clients = clients
        self._time = time
        clients.expect(BY_NAME)

    def users(self, secret: bytes) -> Users:
        """Returns all users. The returned object also applies later changes in ZooKeeper."""
        known = {
            name: credentials
            for entity, settings in self._clients.settings.items()
            if (name := _user_of(entity)) is not None
            and (credentials := _credentials(entity, settings))
        }
        users = Users(self, known, secret)

        def changed(entity: ClientEntity, settings: Mapping[str, str]) -> None:
            name = _user_of(entity)
            if name is not None:
                users.update(name, _credentials(entity, settings))

        self._clients.follow(changed)
        return users

    async def alter(self, edits: Mapping[str, UserEdit]) -> Mapping[str, Credentials | str]:
        """Implements `UserStore.alter`. The result includes changes by other brokers that this
        broker had not read yet."""
        altered: dict[str, Credentials | str] = {}
        for name, edit in edits.items():
            texts = {
                mechanism.mechanism: None if made is None else credential_text(made)
                for mechanism, made in edit.items()
            }
            try:
                entity = entity_of([(configs.USERS, name)])
                await in_time(self._time, self._clients.alter(entity, texts))
            except (ZooKeeperError, BadNode) as error:
                altered[name] = str(error)
            else:
                altered[name] = _credentials(entity, self._clients.settings.get(entity, {}))
        return altered


class ClusterQuotas:
    """Stores quotas in the ZooKeeper nodes of users, clients and IP addresses. Implements
    `QuotaStore`."""

    def __init__(self, clients: ClientConfigs, time: Time) -> None:
        self._clients = clients
        self._time = time
        clients.expect(_QUOTAS)

    def read(self) -> Entities:
        found = {}
        for entity, settings in self._clients.settings.items():
            quotas = _quotas(entity, settings)
            if quotas:
                found[_quota_entity(entity)] = quotas
        return found

    def follow(self, changed: QuotasChanged) -> None:

        def follow(entity: ClientEntity, settings: Mapping[str, str]) -> None:
            changed({_quota_entity(entity): _quotas(entity, settings)})

        self._clients.follow(follow)

    async def alter(self, edits: Mapping[Entity, QuotaEdit]) -> Mapping[Entity, str]:
        failed: dict[Entity, str] = {}
        for some in slices(edits.items()):
            reasons = await asyncio.gather(*[self._alter(*each) for each in some])
            for (entity, _), reason in zip(some, reasons, strict=True):
                if reason is not None:
                    failed[entity] = reason
        return failed

    async def _alter(self, entity: Entity, edit: QuotaEdit) -> str | None:
        """Stores the quotas of an entity. Returns None, or the reason if this failed.

        The node of a user also has credentials, which do not change.
        """
        texts = {
            key: None if value is None else _text(key, value)
            for key, value in edit.items()
            if key in _QUOTAS
        }
        try:
            await in_time(self._time, self._clients.alter(_client_entity(entity), texts))
        except (ZooKeeperError, BadNode) as error:
            return str(error)
        return None


class ClusterTokens:
    """Stores delegation tokens in ZooKeeper nodes. Implements `TokenStore`."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        config: Config,
        time: Time,
        spawn: Spawn,
        errors: InternalErrors,
    ) -> None:
        self._time = time
        self.tokens = Tokens(config, time)
        """All tokens in memory. Later changes in ZooKeeper are applied to this object."""
        self.tokens.keep_in(self)
        self.nodes = ZooKeeperTokens(zookeeper, time, spawn, errors, self.tokens)

    async def read(self, token_id: str) -> Token | None:
        return await self._done(self.nodes.get(token_id))

    async def keep(self, token: Token, before: Token | None) -> bool:
        return await self._done(self.nodes.put(token, before))

    async def remove(self, token: Token) -> None:
        await self._done(self.nodes.delete(token))

    async def _done(self, work: Awaitable[Result]) -> Result:
        try:
            return await in_time(self._time, work)
        except (ZooKeeperError, BadNode) as error:
            raise CannotKeepToken(str(error)) from None


@slotted(frozen=True)
class ClusterStores:
    """The stores of one broker in a cluster."""

    acls: ZooKeeperAcls | None
    """The store of ACLs; None without an authorizer."""
    users: Users
    quotas: ClusterQuotas
    tokens: ClusterTokens | None
    """The store of delegation tokens; None without a secret key for tokens."""

    def stop(self) -> None:
        """Stops watching ACLs and tokens. `ClusterConfigs.stop` stops watching users and quotas."""
        if self.acls is not None:
            self.acls.stop()
        if self.tokens is not None:
            self.tokens.nodes.stop()


async def open_stores(startup: StartupParts, member: ClusterBroker) -> ClusterStores:
    """Makes the stores, and reads their contents from ZooKeeper. Raises CannotJoin."""
    zookeeper, clients, time = member.joined.zookeeper, member.clients, startup.time
    await time.in_thread(_warn_of_files, startup)
    users, quotas = ClusterUsers(clients, time), ClusterQuotas(clients, time)
    spawn, errors = startup.background.spawn, startup.errors
    try:
        acls = None
        if has_authorizer(startup.config):
            acls = ZooKeeperAcls(
                zookeeper,
                time,
                spawn,
                errors,
                startup.slicer,
                has_prefixes=member.settings.spoken.has_prefixed_acls,
            )
            await acls.open()
        tokens = None
        if has_tokens(startup.config):
            tokens = ClusterTokens(zookeeper, startup.config, time, spawn, errors)
            await tokens.nodes.open()
        await _until_done(clients.read_all)
        secret = fresh_secret(time)
        if _has_scram(startup.config):
            secret = await _until_done(lambda: _shared_secret(zookeeper, secret))
    except ZooKeeperError as error:
        raise CannotJoin(
            f"the cluster's ACLs, users and quotas can't be read from ZooKeeper: {error}"
        ) from None
    return ClusterStores(acls, users.users(secret), quotas, tokens)


def _warn_of_files(startup: StartupParts) -> None:
    """Logs a warning about files in the data directory that a standalone broker wrote, since they
    have no effect in a cluster."""
    for name in (acl_store.FILE, quota_changes.FILE, user_file.NAME, token_file.NAME):
        path = os.path.join(startup.directory, name)
        if startup.fs.exists(path):
            logger.warning(
                "file ignored: in a cluster its contents are in ZooKeeper,"
                " see docs/operate/cluster.md",
                path=path,
            )


async def _until_done(work: Callable[[], Awaitable[Result]]) -> Result:
    while True:
        with suppress(SessionExpired):  # the work took too long; it is repeated in the new session
            return await work()


async def _shared_secret(zookeeper: ZooKeeper, fresh: bytes) -> bytes:
    with suppress(NodeExists):
        await zookeeper.create(SECRET_NODE, b64encode(fresh))
    data, _ = await zookeeper.get(SECRET_NODE)
    try:
        return b64decode(data, validate=True)
    except ValueError:
        raise ZooKeeperError(f"ZooKeeper node {SECRET_NODE} is damaged: delete the node") from None


def _has_scram(config: Config) -> bool:
    return any(
        mechanism in config.of_listener(each.name)["sasl.enabled.mechanisms"].split(",")
        for each in config.listeners
        if each.has_sasl
        for mechanism in BY_NAME
    )


def _user_of(entity: ClientEntity) -> str | None:
    """Returns the name of the user if the entity is a user; None for other entities, which have no
    credentials."""
    kind, name = entity.parts[0]
    return name if kind == configs.USERS and len(entity.parts) == 1 else None


def _credentials(entity: ClientEntity, settings: Mapping[str, str]) -> Credentials:
    found: dict[ScramMechanism, ScramCredential] = {}
    for name, mechanism in BY_NAME.items():
        if name in settings:
            try:
                found[mechanism] = parse_credential(settings[name])
            except ValueError as error:
                logger.error(
                    "credential can't be parsed, not accepted",
                    entity=entity.words,
                    mechanism=name,
                    reason=str(error),
                )
    return found


def _quota_entity(entity: ClientEntity) -> Entity:
    parts = dict(entity.parts)
    address = parts.get(configs.IPS, ABSENT)
    if address:
        with suppress(ValueError):
            address = address_of(address)
    return Entity(parts.get(configs.USERS, ABSENT), parts.get(configs.CLIENTS, ABSENT), address)


def _client_entity(entity: Entity) -> ClientEntity:
    kinds = (configs.USERS, configs.CLIENTS, configs.IPS)
    named = zip(kinds, entity, strict=True)
    return entity_of((kind, name) for kind, name in named if name != ABSENT)


def _quotas(entity: ClientEntity, settings: Mapping[str, str]) -> dict[str, float]:
    """Returns the valid quotas in an entity's settings. Logs the invalid ones."""
    whose, found = _quota_entity(entity), {}
    for key in _QUOTAS:
        if key not in settings:
            continue
        try:
            value = float(settings[key])
            wrong = wrong_quota(whose, key, value)
        except ValueError:
            wrong = f"{key}={settings[key][:50]!r} is not a number"
        if wrong is None:
            found[key] = value
        else:
            logger.error("quota can't be parsed, ignored", entity=entity.words, reason=wrong)
    return found


def _text(key: str, value: float) -> str:
    """Formats a quota as Kafka does. Rates of bytes and of connections are whole numbers."""
    return str(int(value)) if key in _WHOLE else repr(float(value))
