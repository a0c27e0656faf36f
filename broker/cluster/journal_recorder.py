"""Writes to the journal the cluster events that this broker observes but does not cause.

The controller and the leaders report their own events. This module adds changed leaders, changes of
the controller, the state of the ZooKeeper session, and this broker's registration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from broker.cluster.journal import ClusterJournal
from broker.cluster.membership.registration import BrokerRegistration
from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.zookeeper.zookeeper import Connection, ZooKeeper
from broker.cores.journal_keeper import JournalKeeper
from broker.loop.internal_errors import InternalErrors
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import Role
from journal.happened import NOBODY, Kind
from replication.events import (
    ControllerChanged,
    Event,
    LeaderReported,
    Registered,
    Session,
    SessionChanged,
)


class JournalRecorder:
    """Records cluster events in the journal. Only the event loop's thread may use this class."""

    def __init__(
        self,
        node_id: int,
        keeper: JournalKeeper[ClusterJournal],
        cache: MetadataCache,
        errors: InternalErrors,
    ) -> None:
        self._node_id = node_id
        self._keeper = keeper
        self._cache = cache
        self._errors = errors
        self._controller = NOBODY, -1
        """The broker id of the controller that last sent metadata to this broker, and its
        controller epoch."""
        self._session: Session | None = None

    def start(self, zookeeper: ZooKeeper, registration: BrokerRegistration) -> None:
        """Starts to record changes of the session and of the registration."""
        self.session_changed(zookeeper.connection)
        zookeeper.on_session(self.session_changed)
        registration.when_registered(self.registered)

    def observe(self, event: Event) -> None:
        """Records an event that a leader reports, such as a change of the ISR."""
        with self._errors.reporting(type(event).__name__):
            self._keeper.observe(event)

    def beside(self, hooks: ReplicaHooks) -> ReplicaHooks:
        """Returns hooks that wrap ``hooks``. Each of them first records an event in the journal,
        and then calls the wrapped hook."""

        def role_given(hook: Callable[[Replica, int], None], replica: Replica, epoch: int) -> None:
            with self._errors.reporting("role change"):
                self.role_given(replica)
            hook(replica, epoch)

        def on_learnt(learnt: Learnt) -> None:
            with self._errors.reporting("controller metadata"):
                self.controller_seen()
            hooks.on_learnt(learnt)

        return replace(
            hooks,
            on_leader=partial(role_given, hooks.on_leader),
            on_follower=partial(role_given, hooks.on_follower),
            on_learnt=on_learnt,
        )

    def role_given(self, replica: Replica) -> None:
        """Records the leader of a partition, after the controller has assigned a role to this
        broker's replica."""
        state = replica.state
        if state is None or replica.role not in (Role.LEADER, Role.FOLLOWER):
            return
        last = self._keeper.journal.last(replica.name, Kind.LEADER)
        before = NOBODY if last is None else last.leader
        self._keeper.observe(
            LeaderReported(
                replica.topic,
                replica.index,
                state.leader,
                before,
                state.leader_epoch,
                state.isr,
                state.controller_epoch,
                self._cache.is_alive(before),
            )
        )

    def controller_seen(self) -> None:
        """Records a change of the controller; called after metadata has arrived."""
        controller = self._cache.controller_id, self._cache.controller_epoch
        if controller != self._controller:
            self._controller = controller
            self._keeper.observe(ControllerChanged(*controller))

    def session_changed(self, connection: Connection) -> None:
        """Adds a journal entry: the ZooKeeper session is open, lost or expired."""
        before = self._session
        match connection:
            case Connection.SUSPENDED:
                self._session = Session.LOST
            case Connection.EXPIRED:
                self._session = Session.EXPIRED
            case Connection.CONNECTED:
                self._session = Session.BACK if before is Session.LOST else Session.BEGUN
        if self._session is not before:
            with self._errors.reporting("session change"):
                self._keeper.observe(SessionChanged(self._session))

    def registered(self, epoch: int) -> None:
        with self._errors.reporting("registered"):
            self._keeper.observe(Registered(self._node_id, epoch))
