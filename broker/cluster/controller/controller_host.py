"""Runs the elections of a controller, and the controller itself while this broker is elected.

A broker that wins an election has a `Term`, with a core (`controller.Controller`), channels and
watches. The term ends with the ZooKeeper session, or with the first write that fails because a
newer controller has another epoch. Results of the term's reads and writes that arrive later are
dropped. Only the event loop's thread may use this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import structlog

from broker.cluster.controller.controller_term import HostServices, Observe, Term
from broker.cluster.controller.election import Elected, controller_of, elect
from broker.cluster.controller.feature_changes import change_levels
from broker.cluster.zookeeper.zookeeper import Closed, Connection, NoNode, SessionExpired
from broker.topics.feature_updates import FeatureUpdate, RefusedUpdate
from broker.topics.ticket import deliver
from controller.calls import Call
from controller.controller import refusal
from protocol.errors import NOT_CONTROLLER
from protocol.znodes import cluster
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

AGAIN_S = 1.0
"""The delay in seconds after a term has ended or an election has failed. After this delay the
broker takes part in the next election."""


class ControllerHost:
    """Takes part in elections, and runs the controller while this broker is elected."""

    def __init__(self, services: HostServices, observe: Observe) -> None:
        self._services = services
        self._observe = observe
        self._term: Term | None = None
        self._electing = False
        self._again = False
        """True if the node ``/controller`` may have changed after it was read, so that it must be
        read again."""
        self._stopped = False
        self._logged_error = ""
        """The last logged error about a ZooKeeper node that can't be parsed."""

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller."""
        return self._term is not None

    @property
    def term(self) -> Term | None:
        """This broker's term as controller; None while another broker is the controller."""
        return self._term

    def start(self) -> None:
        """Starts to take part in elections."""
        self._services.zookeeper.on_session(self._session_changed)
        self._look()

    def stop(self) -> None:
        """Stops taking part in elections. Another broker is elected when this broker's ZooKeeper
        session ends.

        This broker does not resign earlier: the next controller would not know that this broker is
        about to stop, and would elect it as leader of partitions.
        """
        self._stopped = True
        self._resign("this broker is stopping")

    def submit(self, call: Call) -> None:
        """Passes a call to the controller. If this broker is not the controller, refuses the
        call."""
        if self._term is None:
            deliver(call.ticket, refusal(call), self._services.errors)
        else:
            self._term.handle(call)

    async def change_levels(self, updates: Sequence[FeatureUpdate], validate_only: bool) -> None:
        """Changes the finalized feature levels of the cluster, if this broker is the controller.

        Raises RefusedUpdate, ZooKeeperError, and BadNode if a node does not parse.
        """
        if self._term is None:
            raise RefusedUpdate(NOT_CONTROLLER, "This broker is not the controller.")
        zookeeper, spoken = self._services.zookeeper, self._services.channels.spoken
        fence = self._term.writes.fence
        await change_levels(zookeeper, spoken, fence, updates, validate_only=validate_only)

    def settings_changed(self, topic: str) -> None:
        """Notifies the controller that ``unclean.leader.election.enable`` of a topic has changed,
        or of this broker if ``topic`` is ""."""
        if self._term is not None:
            self._term.settings_changed(topic)

    # -- elections

    def _session_changed(self, connection: Connection) -> None:
        if connection is Connection.EXPIRED:
            self._resign("ZooKeeper session expired")
        elif connection is Connection.CONNECTED:
            self._look()

    def _look(self) -> None:
        """Reads which broker is the controller. If the cluster has no controller, tries to become
        the controller."""
        self._again = True
        if not self._electing and not self._stopped:
            self._electing = True
            self._services.spawn(self._elect(), "election")

    async def _elect(self) -> None:
        zookeeper, time = self._services.zookeeper, self._services.time
        broker_id = self._services.channels.node_id
        try:
            while self._again and not self._stopped:
                self._again = False
                with suppress(SessionExpired, Closed):  # repeated in the next session
                    await zookeeper.exists(cluster.CONTROLLER, self._look)
                    if self._term is not None:
                        if await controller_of(zookeeper) != broker_id:
                            self._resign("another broker is the controller")
                            self._again = True
                        continue
                    await self._give_up()
                    elected = await elect(zookeeper, broker_id, time.now().wall_ms)
                    if elected is not None and not self._stopped:
                        await self._begin(elected)
        except BadNode as error:
            if str(error) != self._logged_error:
                self._logged_error = str(error)
                logger.error(
                    "ZooKeeper node of the controller can't be parsed, no election until the"
                    " node is corrected",
                    reason=str(error),
                )
            time.real.call_later(AGAIN_S, self._look)
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._services.errors.caught("election", error)
            time.real.call_later(AGAIN_S, self._look)
        finally:
            self._electing = False

    async def _begin(self, elected: Elected) -> None:
        logger.info("became controller", epoch=elected.epoch)
        term = Term(self._services, elected, self._observe, self._ended)
        self._term = term
        try:
            await term.begin()
        except (SessionExpired, Closed):
            raise
        except Exception:
            self._resign("the state of the cluster could not be read from ZooKeeper")
            raise

    async def _give_up(self) -> None:
        """Deletes the node ``/controller`` if this broker created it in an earlier term, in the
        same ZooKeeper session. Otherwise the next election could not begin."""
        zookeeper = self._services.zookeeper
        there = await zookeeper.exists(cluster.CONTROLLER)
        if there is not None and there.ephemeral_owner == zookeeper.session:
            with suppress(NoNode):
                await zookeeper.delete(cluster.CONTROLLER, there.version)

    def _ended(self, term: Term, reason: str) -> None:
        if term is self._term:
            self._resign(reason)
            self._services.time.real.call_later(AGAIN_S, self._look)

    def _resign(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            logger.info("resigned as controller", reason=reason)
            term.end()
