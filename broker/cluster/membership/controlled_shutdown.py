"""Controlled shutdown: a stopping broker asks the controller to move its leaderships to other
brokers.

The broker sends ControlledShutdown until the controller answers that the broker leads no partition,
or until the retries are used up. Then the broker stops in any case. The broker serves requests
during this time, since leaders are replaced one by one. If the stopping broker is the controller,
it sends the request to its own listener.

Without ZooKeeper the controller can't move leaderships, and each attempt would wait for
`controller.socket.timeout.ms`. Therefore the broker also checks whether ZooKeeper responds, and
stops if ZooKeeper does not respond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from broker.cluster.membership.registration import NO_EPOCH
from broker.cluster.peers.controller_peer import ControllerPeer
from broker.cluster.peers.fitting import fitting
from broker.cluster.peers.peer import PeerLost
from broker.cluster.zookeeper.zookeeper import (
    SessionExpired,
    ZooKeeper,
    ZooKeeperError,
    in_time,
)
from broker.config.config import Config
from broker.time import Time
from protocol.errors import NAMES, NONE
from protocol.messages.controlled_shutdown import API
from protocol.znodes.cluster import CONTROLLER

logger = structlog.get_logger(__name__)

LOOK_S = 1.0
"""The interval in seconds at which the broker checks whether ZooKeeper still responds."""
SHOWN = 5
"""A log line names at most this number of the partitions that this broker still leads."""


class ShutdownSettings(NamedTuple):
    """The values of the settings ``controlled.shutdown.*``."""

    is_enabled: bool
    attempts: int
    backoff_ms: int


def shutdown_settings(config: Config) -> ShutdownSettings:
    return ShutdownSettings(
        config["controlled.shutdown.enable"],
        config["controlled.shutdown.max.retries"],
        config["controlled.shutdown.retry.backoff.ms"],
    )


async def hand_over(
    settings: ShutdownSettings,
    node_id: int,
    broker_epoch: Callable[[], int],
    controller: ControllerPeer,
    zookeeper: ZooKeeper,
    time: Time,
) -> bool:
    """Sends ControlledShutdown until this broker leads no partition, the retries are used up, or
    ZooKeeper is down.

    Returns True if this broker leads no partition.
    """
    if not settings.is_enabled:
        return False
    asking = asyncio.ensure_future(_asked(settings, node_id, broker_epoch, controller, time))
    looking = asyncio.ensure_future(_until_away(zookeeper, time))
    try:
        await asyncio.wait((asking, looking), return_when=asyncio.FIRST_COMPLETED)
    finally:
        looking.cancel()
        if not asking.done():
            asking.cancel()
    if asking.done():
        return asking.result()
    logger.warning(
        "stopping without controlled shutdown: ZooKeeper does not answer",
        effect="the partitions of this broker have no leader until ZooKeeper is back",
    )
    return False


async def _until_away(zookeeper: ZooKeeper, time: Time) -> None:
    """Sends requests to ZooKeeper repeatedly. Returns when ZooKeeper does not respond to one of
    them in time."""
    while True:
        await time.sleep(LOOK_S)
        try:
            await in_time(time, zookeeper.exists(CONTROLLER))
        except SessionExpired:
            continue  # ZooKeeper has answered
        except ZooKeeperError:
            return


async def _asked(
    settings: ShutdownSettings,
    node_id: int,
    broker_epoch: Callable[[], int],
    controller: ControllerPeer,
    time: Time,
) -> bool:
    for attempt in range(settings.attempts):
        if attempt:
            await time.sleep(settings.backoff_ms / 1000)
        epoch = broker_epoch()
        if epoch == NO_EPOCH:
            return True  # the broker is not registered: the controller has elected other leaders
        left = await _ask(node_id, epoch, controller)
        if not left:
            logger.info("controlled shutdown succeeded")
            return True
        logger.warning(
            "controlled shutdown failed",
            reason=left,
            attempts_left=settings.attempts - attempt - 1,
        )
    logger.warning("stopping without controlled shutdown: partitions may have no leader")
    return False


async def _ask(node_id: int, epoch: int, controller: ControllerPeer) -> str:
    """Sends one ControlledShutdown. Returns "" if this broker can stop, otherwise the reason why it
    can't."""
    value = {"broker_id": node_id, "broker_epoch": epoch}
    try:
        version = await controller.version_of(API)
        answer = await controller.call(API, version, fitting(API.request, version, value))
    except PeerLost as lost:
        return str(lost)
    error_code = answer["error_code"]
    if error_code != NONE:
        controller.look_again()
        return f"the controller returned {NAMES.get(error_code, error_code)}"
    left = answer["remaining_partitions"]
    names = [f"{each['topic_name']}-{each['partition_index']}" for each in left]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"no other live broker in the ISR of {', '.join(names[:SHOWN])}{more}" if names else ""
