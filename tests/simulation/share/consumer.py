"""Members of share groups: they join, fetch, acknowledge, renew, crash and leave.

A member has one connection. It sends wrong acknowledgements, keeps records beyond their acquisition
lock, closes and reopens its share session, and ends with or without leaving the group. A `Ghost`
sends late copies of its requests on another connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, NONE, UNKNOWN_MEMBER_ID
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.simulation.share.ledger import (
    ACCEPT,
    FINAL_EPOCH,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Asked,
)
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import CONNECTS_AGAIN_NS, Client, Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.share.world import ShareWorld
    from tests.simulation.whole.network import Wire

Place = tuple[bytes, int]
Acks = dict[Place, list[tuple[int, int, list[int]]]]
BEAT_NS = 1 * S
_TYPES = (ACCEPT,) * 12 + (RELEASE,) * 4 + (REJECT,)
_REJOIN = (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND)


class SharingClient(Client):
    """A client that reports its requests to the `ShareLedger`, which checks all deliveries."""

    world: ShareWorld

    def __init__(self, world: ShareWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(world, name, host, chance)
        self.on_wire: dict[tuple[str, str], None] = {}
        """The members, as (group id, member id), that have sent requests on the client's current
        connection."""

    def share(self, request: WireRequest) -> None:
        """Reports a request of a member to the `ShareLedger`, and sends the request."""
        asked = self.world.ledger_now().sends(request)
        self.on_wire[asked.member] = None
        self.send(request, asked)

    def leaves(self, sent: Sent, frame: bytes) -> None:
        if isinstance(sent.about, Asked):
            answer = sent.answer_in(frame)
            self.world.ledger_now().answers(sent.request, sent.about, answer)

    def drop_connection(self) -> None:
        wire = self.wire
        super().drop_connection()
        if wire is not None:
            self._may_end_sessions(wire)

    def _lost(self) -> None:
        if self.wire is not None:
            self._may_end_sessions(self.wire)
        super()._lost()

    def _may_end_sessions(self, wire: Wire) -> None:
        for member in self.on_wire:
            self.world.closing(wire, member)
        self.on_wire = {}


class ShareConsumer(SharingClient):
    """A member of a share group. After a crash it returns with the same or with another member
    id."""

    def __init__(
        self,
        world: ShareWorld,
        name: str,
        host: str,
        chance: Random,
        group_id: str,
        topics: list[str],
    ) -> None:
        super().__init__(world, name, host, chance)
        self.group_id = group_id
        self.topics = topics
        self.births = 0
        self._is_reopened = False
        """True if the member has opened a new share session since the faults ended. An earlier
        session may have wrong partitions, because a late copy of a request may have changed it."""
        self._begin()

    def _begin(self, *, anew: bool = True) -> None:
        """Starts a new process of the member, without the state of an earlier process."""
        self.births += anew
        self.member_id = f"{self.name}-{self.births}"
        self.member_epoch = 0
        self.session_epoch = 0
        self.assigned: list[Place] = []
        self.in_session: set[Place] = set()
        self.held: dict[Place, dict[int, bool]] = {}
        """The acquired offsets of each partition. The value of an offset is True if the consumer
        received its record, and False if the log has no record at this offset (a gap)."""
        self._beat_at_ns = 0
        self._says_all = True
        """True if the next heartbeat must contain all fields, so that its response contains the
        assignment. As in Kafka's client, this is the case after a lost response."""

    def lost(self) -> None:
        self._says_all = True

    # -- requests

    def act(self) -> None:
        now_ns, chance = self.world.agenda.now_ns, self.chance
        if self.calm and not self._is_reopened:
            self._is_reopened = True
            self._forget_session()
        if not self.calm and self._strays(chance.random()):
            return
        if now_ns >= self._beat_at_ns:
            self._beat(self.member_epoch)
        elif not (self.member_epoch and self.assigned):
            self.think_after(100 * MS)
        elif not self.session_epoch:
            self._fetch({})
        else:
            self._work(1.0 if self.calm else chance.random())

    def _strays(self, dice: float) -> bool:
        """Crashes, disconnects, leaves or pauses with a small probability. Returns True if one of
        these happened."""
        if dice < 0.008:
            self.drop_connection()
            self._begin(anew=self.chance.random() < 0.7)
            self.world.happened["member crashes"] += 1
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
        elif dice < 0.018:
            self.drop_connection()
            if self.chance.random() < 0.8:
                self._forget_session()
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
        elif dice < 0.022 and self.member_epoch:
            self._beat(FINAL_EPOCH)
        elif dice < 0.032:
            self.world.happened["member sleeps"] += 1
            self.think_after(self.chance.choice((500, 2_000, 5_000, 9_000)) * MS)
        else:
            return False
        return True

    def _forget_session(self) -> None:
        self.session_epoch = 0
        self.in_session = set()
        self.held = {}

    def _beat(self, epoch: int) -> None:
        self._beat_at_ns = self.world.agenda.now_ns + BEAT_NS
        value = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "rack_id": None,
            "subscribed_topic_names": self.topics if not epoch or self._says_all else None,
        }
        self._ask(WireRequest("ShareGroupHeartbeat", 1, value))

    def _work(self, dice: float) -> None:
        acks = self._some_acks() if dice < 0.94 else self._wrong_acks()
        if self.calm:
            acks = self._acks_of(self.held, lambda _: ACCEPT)
        if dice < 0.02:
            self.world.happened["session closed"] += 1
            self._close(acks)
        elif dice < 0.1 and self.held:
            self._renew()
        elif dice < 0.45 and acks:
            self._acknowledge(acks, self.session_epoch)
        else:
            self._fetch(acks)

    def _close(self, acks: Acks) -> None:
        if self.chance.random() < 0.5:
            self._acknowledge(acks, FINAL_EPOCH)
        else:
            self._fetch(acks, FINAL_EPOCH)

    def _renew(self) -> None:
        chosen = {
            place: {offset: held[offset] for offset in held if self.chance.random() < 0.6}
            for place, held in self.held.items()
        }
        acks = self._acks_of(chosen, lambda _: RENEW)
        self._acknowledge(acks, self.session_epoch, is_renew=True)

    def _acknowledge(self, acks: Acks, epoch: int, *, is_renew: bool = False) -> None:
        value = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": epoch,
            "topics": _topics((), acks),
            "is_renew_ack": is_renew,
        }
        self._ask(WireRequest("ShareAcknowledge", 2 if is_renew else self._version(), value))

    def _version(self) -> int:
        return self.chance.randint(1, 2)

    def _fetch(self, acks: Acks, epoch: int | None = None) -> None:
        chance = self.chance
        added = [place for place in self.assigned if place not in self.in_session]
        forgotten = [place for place in sorted(self.in_session) if place not in self.assigned]
        self.in_session = set(self.assigned)
        value = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch if epoch is None else epoch,
            "max_wait_ms": chance.choice((0, 0, 100, 500, 3_000)),
            "min_bytes": chance.choice((1, 1, 1, 500)),
            "max_bytes": chance.choice((1, 400, 1 << 20)),
            "max_records": chance.choice((1, 5, 20, 500)),
            "batch_size": chance.choice((1, 5, 500)),
            "share_acquire_mode": chance.randint(0, 1),
            "is_renew_ack": False,
            "topics": _topics(added, acks),
            "forgotten_topics_data": [
                {"topic_id": topic_id, "partitions": [index]} for topic_id, index in forgotten
            ],
        }
        self._ask(WireRequest("ShareFetch", self._version(), value))

    def _ask(self, request: WireRequest) -> None:
        self.share(request)
        self.world.may_be_doubled(request)

    # -- acknowledgements

    def _some_acks(self) -> Acks:
        """Returns acknowledgements of some of the acquired records."""
        share = self.chance.choice((0.0, 0.3, 0.9, 1.0, 1.0))
        chosen = {
            place: {offset: held[offset] for offset in held if self.chance.random() < share}
            for place, held in self.held.items()
        }
        return self._acks_of(chosen, lambda _: self.chance.choice(_TYPES))

    def _acks_of(self, chosen: dict[Place, dict[int, bool]], type_of: Any) -> Acks:
        acks: Acks = {}
        for place, offsets in chosen.items():
            for offset, is_record in sorted(offsets.items()):
                type_ = type_of(offset)
                if not is_record and type_ != RENEW:
                    type_ = GAP
                batches = acks.setdefault(place, [])
                if batches and batches[-1][1] == offset - 1 and self.chance.random() < 0.8:
                    first, _, types = batches[-1]
                    batches[-1] = first, offset, [*types, type_]
                else:
                    batches.append((offset, offset, [type_]))
        for batches in acks.values():
            for index, (first, last, types) in enumerate(batches):
                if len(set(types)) == 1:
                    batches[index] = first, last, types[:1]
        return acks

    def _wrong_acks(self) -> Acks:
        """Returns acknowledgements that the broker may refuse as a whole. They name a record of
        another member, a record twice, or a record after the last acquired record."""
        self.world.happened["wrong acknowledgement"] += 1
        place = self.chance.choice(self.assigned)
        type_ = self.chance.choice((ACCEPT, RELEASE))
        others = self.world.held_by_others(self.group_id, self.member_id, place)
        if others and self.chance.random() < 0.5:
            other = self.chance.choice(others)
            return {place: [(other, other, [type_])]}
        acks = self._some_acks()
        for batches in acks.values():
            first, last, _ = self.chance.choice(batches)
            other = self.chance.choice((last, last + 1, last + 3, last + 10_000, max(first - 1, 0)))
            batches.append((other, other, [type_]))
            if self.chance.random() < 0.7:
                batches.sort(key=lambda each: each[0])
        return acks

    # -- responses

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        code = answer["error_code"]
        if sent.request.name == "ShareGroupHeartbeat":
            self._hear_beat(sent, answer)
        elif code != NONE:
            self.world.happened[f"{sent.request.name} {code}"] += 1
            self._forget_session()
        else:
            self._hear_share(sent, answer)
        self.think_after(self.chance.choice((1, 5, 50, 300)) * MS)

    def _hear_beat(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = answer["error_code"]
        if code in _REJOIN or (code == NONE and sent.request.value["member_epoch"] < 0):
            self.member_epoch, self.assigned, self._beat_at_ns = 0, [], 0
            return
        if code != NONE:
            self._says_all = True
            self._beat_at_ns = self.world.agenda.now_ns + 100 * MS
            return
        self.member_epoch, self._says_all = answer["member_epoch"], False
        if answer["assignment"] is not None:
            self.assigned = [
                (each["topic_id"], index)
                for each in answer["assignment"]["topic_partitions"]
                for index in each["partitions"]
            ]

    def _hear_share(self, sent: Sent, answer: dict[str, Any]) -> None:
        value = sent.request.value
        if value["share_session_epoch"] == FINAL_EPOCH:
            self._forget_session()
            return
        self.session_epoch = value["share_session_epoch"] + 1
        if not value["is_renew_ack"]:
            for topic in value["topics"]:
                for partition in topic["partitions"]:
                    held = self.held.get((topic["topic_id"], partition["partition_index"]), {})
                    for batch in partition["acknowledgement_batches"]:
                        for offset in range(batch["first_offset"], batch["last_offset"] + 1):
                            held.pop(offset, None)
        for topic in answer["responses"] if sent.request.name == "ShareFetch" else ():
            for entry in topic["partitions"]:
                self._take(topic["topic_id"], entry)
        self.held = {place: held for place, held in self.held.items() if held}

    def _take(self, topic_id: bytes, entry: dict[str, Any]) -> None:
        found: dict[int, bytes] = {}
        data = entry["records"] or b""
        for header, _ in iter_stored(data, partial=True):
            if not header.is_control:
                for record in records_of(data, header):
                    found[record.offset] = record.value or b""
        held = self.held.setdefault((topic_id, entry["partition_index"]), {})
        for each in entry["acquired_records"]:
            for offset in range(each["first_offset"], each["last_offset"] + 1):
                held[offset] = offset in found
                if offset in found:
                    self.world.got(topic_id, entry["partition_index"], offset, found[offset])


class Ghost(SharingClient):
    """Sends copies of members' requests later, on its own connection."""

    def __init__(self, world: ShareWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(world, name, host, chance)
        self.copies: list[WireRequest] = []

    def act(self) -> None:
        dice = self.chance.random()
        if self.calm and self.on_wire:
            self.drop_connection()  # its sessions must end
        elif dice < 0.05 and not self.calm:
            self.drop_connection()
        elif self.copies and not self.calm:
            self.world.happened["doubled"] += 1
            self.share(self.copies.pop(self.chance.randrange(len(self.copies))))
            return
        self.think_after(self.chance.choice((1, 10, 100, 500)) * MS)

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.think_after(self.chance.choice((1, 20, 400)) * MS)


def _topics(added: Iterable[Place], acks: Acks) -> list[dict[str, Any]]:
    topics: dict[bytes, list[dict[str, Any]]] = {}
    for place in dict.fromkeys((*added, *acks)):
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
            for first, last, types in acks.get(place, ())
        ]
        entry = {"partition_index": place[1], "acknowledgement_batches": batches}
        topics.setdefault(place[0], []).append(entry)
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()]
