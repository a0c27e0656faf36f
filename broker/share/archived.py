"""Reports the records that were archived to the journal of the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.cores.groups.runtime import GroupRuntime
from broker.loop.internal_errors import InternalErrors
from broker.share.live_partition import LivePartition
from broker.time import Time
from coordinator.share.archived import RecordsArchived
from share.partition.values import Outcome

REPORTED_MAX = 128
"""The maximum number of ranges of one change that are reported, which are the last ones: the
journal keeps no more for a group."""


class ArchivedRecords:
    """The reports of archived records; errors are caught (law 10)."""

    def __init__(
        self,
        groups: GroupRuntime,
        observe: Callable[[RecordsArchived], None],
        time: Time,
        internal_errors: InternalErrors,
    ) -> None:
        """``observe`` is called with each event."""
        self._groups = groups
        self._observe = observe
        self._time = time
        self._errors = internal_errors

    def report(self, live: LivePartition, outcomes: Sequence[Outcome]) -> None:
        """Reports the last deliveries of records that were archived."""
        now = self._time.now()
        try:
            for each in outcomes[-REPORTED_MAX:]:
                client_id, host = self._client(live.key.group_id, each.member_id)
                self._observe(
                    RecordsArchived(
                        live.key.group_id,
                        live.key.topic_id,
                        live.key.partition,
                        live.ready.state_epoch,
                        each.first_offset,
                        each.last_offset,
                        each.delivery_count,
                        each.member_id,
                        client_id,
                        host,
                        now.wall_ms - now.mono_ms + each.began_ms,
                        each.kind,
                    )
                )
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._errors.caught("observer", error, partition=live.partition.name)

    def _client(self, group_id: str, member_id: str) -> tuple[str, str]:
        """Returns the client id and the host of a member; "" if the member has left."""
        view = self._groups.view_of(group_id)
        group = None if view is None else view.share_groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None:
            return "", ""
        return member.metadata.client_id, member.metadata.client_host
