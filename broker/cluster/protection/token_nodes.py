"""Delegation tokens of a cluster in ZooKeeper, stored and followed as Kafka's brokers do.

Each token has a node. After each change or removal, a notification node informs the other brokers.
A token's password is computed from its id and a secret key, so all brokers of a cluster need the
same key. Source: Kafka 3.9 ``DelegationTokenManagerZk``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import structlog

from broker.cluster.protection.followed_nodes import FollowedNodes, Spawn
from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    BadVersion,
    NodeExists,
    NoNode,
    ZooKeeper,
    children_of,
    slices,
)
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from protocol.znodes import tokens as nodes
from protocol.znodes.fields import BadNode
from protocol.znodes.tokens import TokenNode
from security.principal import Principal
from security.tokens import Token

logger = structlog.get_logger(__name__)


class Followers(Protocol):
    """An object that receives changes of tokens."""

    def ids(self) -> list[str]:
        """Returns the ids of all tokens that this object has received and that were not removed."""

    async def update(self, token_id: str, token: Token | None) -> None:
        """Receives the new state of a token; None if the token was removed."""


class ZooKeeperTokens:
    """The delegation tokens in ZooKeeper. Only the event loop's thread may use this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        time: Time,
        spawn: Spawn,
        errors: InternalErrors,
        tokens: Followers,
    ) -> None:
        """``tokens`` receives each change of a token."""
        self._zookeeper = zookeeper
        self._tokens = tokens
        self._nodes = FollowedNodes(
            zookeeper,
            time,
            spawn,
            errors,
            "delegation tokens",
            (nodes.TOKENS,),
            (nodes.CHANGES,),
            self._read_all,
            self._handle,
        )

    async def open(self) -> None:
        """Reads all tokens, and starts to follow their changes. Raises ZooKeeperError."""
        await self._nodes.open()

    def stop(self) -> None:
        self._nodes.stop()

    # -- reading

    async def _handle(self, path: str, data: bytes) -> None:
        token_id = nodes.decode_change(path, data)
        if not self._nodes.unread:  # otherwise a read of all nodes follows
            await self._follow(token_id)

    async def _read_all(self) -> None:
        gone = {*self._tokens.ids()}
        for some in slices(await children_of(self._zookeeper, nodes.TOKENS)):
            gone.difference_update(some)
            for token_id in some:
                await self._follow(token_id)
        for token_id in gone:
            await self._tokens.update(token_id, None)

    async def _follow(self, token_id: str) -> None:
        try:
            token = await self.get(token_id)
        except BadNode as error:
            logger.error("delegation token can't be read, not accepted", reason=str(error))
            token = None
        await self._tokens.update(token_id, token)

    async def get(self, token_id: str) -> Token | None:
        """Returns a token from ZooKeeper; None if the token does not exist. Raises ZooKeeperError
        and BadNode."""
        token, _ = await self._kept(token_id)
        return token

    async def _kept(self, token_id: str) -> tuple[Token | None, int]:
        """Returns a token and the version of its node. If the token does not exist, returns None
        and ANY_VERSION."""
        path = nodes.path(token_id)
        try:
            data, stat = await self._zookeeper.get(path)
        except NoNode:
            return None, ANY_VERSION
        found = nodes.decode_token(path, data)
        if found.token_id != token_id:
            raise BadNode(path, "contains the id of another token")
        return _token(found), stat.version

    # -- changes

    async def put(self, token: Token, before: Token | None) -> bool:
        """Implements `TokenStore.keep`: writes a new token or, if ``before`` is given, replaces the
        token ``before``. Returns False if ZooKeeper no longer has the token ``before``. Raises
        ZooKeeperError and BadNode.

        Kafka's brokers do not check ``before``. So on Kafka, a renewal at one broker undoes a
        concurrent expiry or removal at another broker.
        """
        path, data = nodes.path(token.token_id), nodes.encode_token(_node(token))
        if before is None:
            with suppress(NodeExists):  # an earlier attempt of this call made it: ids are unique
                await self._zookeeper.create(path, data)
        else:
            kept, version = await self._kept(token.token_id)
            if kept != token:  # otherwise an earlier attempt was applied
                if kept != before:
                    return False
                try:
                    await self._zookeeper.set(path, data, version)
                except (BadVersion, NoNode):
                    return False
        await self._notify_brokers(token)
        return True

    async def delete(self, token: Token) -> None:
        """Removes a token. Raises ZooKeeperError."""
        with suppress(NoNode):  # an earlier attempt may have deleted it: still write the notice
            await self._zookeeper.delete(nodes.path(token.token_id))
        await self._notify_brokers(token)

    async def _notify_brokers(self, token: Token) -> None:
        await self._zookeeper.create(nodes.CHANGE, token.token_id.encode(), sequence=True)


def _node(token: Token) -> TokenNode:
    return TokenNode(
        token.token_id,
        str(token.owner),
        str(token.requester),
        tuple(map(str, token.renewers)),
        token.issued_ms,
        token.ends_ms,
        token.expires_ms,
    )


def _token(node: TokenNode) -> Token:
    return Token(
        node.token_id,
        _principal(node.owner),
        _principal(node.requester),
        tuple(map(_principal, node.renewers)),
        node.issued_ms,
        node.ends_ms,
        node.expires_ms,
    )


def _principal(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)
