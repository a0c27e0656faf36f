"""The methods of `Muster` that read the broker's state and history."""

from __future__ import annotations

from musterd.testing.faults import Verbs
from musterd.testing.views import Committed, Group, JournalEvent, Member, Record, SeenRequest
from musterd.testing.waiting import Waiting


class SeenVerbs(Verbs):
    """Contains the method `requests`, which returns the requests that a broker has received."""

    def requests(
        self, *, client_id: str | None = None, api: str | None = None
    ) -> list[SeenRequest]:
        """The requests that the broker received, in order, decoded, with their responses.

        `client_id` or `api` (Kafka's name of an API) selects the requests of one client id or of
        one API. The broker keeps the last 20,000 requests, at most 64 MiB.

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


class HappenedVerbs(SeenVerbs):
    """The methods of `Muster` that read the broker's state and history."""

    def groups(self) -> list[Group]:
        """All groups, of every type."""
        return [Group.of(each) for each in self._ask("GET", "/test/groups")["groups"]]

    def group(self, group: str) -> Group | None:
        """The group with this id; None if it does not exist."""
        response = self._ask("GET", "/test/groups", group=group)["groups"]
        return Group.of(response[0]) if response else None

    def members(self, group: str) -> list[Member]:
        """The members of a group, with their assignments."""
        response = self._ask("GET", "/test/members", group=group)["members"]
        return [Member.of(each) for each in response]

    def committed(self, group: str) -> Committed:
        """The committed offsets of a group: a mapping of (topic, partition) to `Offset`."""
        return Committed.of(group, self._ask("GET", "/test/committed", group=group))

    def journal(self, group: str) -> list[JournalEvent]:
        """The events of a group with their reasons, oldest first, as `muster groups why` shows
        them."""
        response = self._ask("GET", "/test/journal", group=group)["events"]
        return [JournalEvent.of(each) for each in response]

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """The records of a topic, or of one partition, in log order."""
        response = self._ask("GET", "/test/records", topic=topic, partition=partition)["records"]
        return [Record.of(topic, each) for each in response]

    def wait_for(self, group: str, timeout_s: float = 10.0) -> Waiting:
        """Wait for a condition of a group: `broker.wait_for("billing").stable(members=3)`.

        Raises `WaitedInVain` with the group's state after `timeout_s` seconds of real time.
        """
        return Waiting(self, group, timeout_s)
