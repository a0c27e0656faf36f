"""What happened in the broker, asked for."""

from __future__ import annotations

from musterd.testing.faults import Verbs
from musterd.testing.views import Committed, Group, JournalEvent, Member, Record, SeenRequest
from musterd.testing.waiting import Waiting


class HappenedVerbs(Verbs):
    """The verbs of `Muster` that look."""

    def groups(self) -> list[Group]:
        """All groups."""
        return [Group.of(each) for each in self._ask("GET", "/test/groups")["groups"]]

    def group(self, group: str) -> Group | None:
        """One group; None if there is none of this name."""
        told = self._ask("GET", "/test/groups", group=group)["groups"]
        return Group.of(told[0]) if told else None

    def members(self, group: str) -> list[Member]:
        """The members of a group, with what they were given."""
        told = self._ask("GET", "/test/members", group=group)["members"]
        return [Member.of(each) for each in told]

    def committed(self, group: str) -> Committed:
        """What a group has committed: (topic, partition) to `Offset`."""
        return Committed.of(group, self._ask("GET", "/test/committed", group=group))

    def journal(self, group: str) -> list[JournalEvent]:
        """Why a group rebalanced, the oldest first: what `muster groups why` tells."""
        told = self._ask("GET", "/test/journal", group=group)["events"]
        return [JournalEvent.of(each) for each in told]

    def requests(
        self, *, client_id: str | None = None, api: str | None = None
    ) -> list[SeenRequest]:
        """The requests that came, in order, decoded, with their answers.

        All of them, or those of a client, or of an API by Kafka's name. The broker keeps the last
        20,000, and 64 MiB of them at most.

        >>> with Muster() as broker:
        ...     produce(broker, "orders", "one")
        ...     broker.requests(api="Produce")[0].error is None
        True
        """
        found: list[SeenRequest] = []
        since = 0
        while True:
            page = self._ask("GET", "/test/requests", client_id=client_id, api=api, since=since)
            if not page["requests"]:
                return found
            found += map(SeenRequest.of, page["requests"])
            since = page["next"]

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """The records of a topic, or of one of its partitions, in the order of the log."""
        told = self._ask("GET", "/test/records", topic=topic, partition=partition)["records"]
        return [Record.of(topic, each) for each in told]

    def wait_for(self, group: str, timeout_s: float = 10.0) -> Waiting:
        """Wait until something holds of a group: `broker.wait_for("billing").stable(members=3)`.

        What does not come in `timeout_s` seconds is a `WaitedInVain` that says what was there.
        """
        return Waiting(self, group, timeout_s)
