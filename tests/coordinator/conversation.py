"""The language of the files in tests/golden. A line that begins with ``> `` is a call to a shard.
The indented lines after it are the outcome of the call.

docs/internals/coordinator.md describes the language. After each call, the test checks the
invariants, and compares the shard with a second shard that is loaded from the same log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from coordinator.calls import (
    Call,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.classic.sweeps import EVERY_LOG_OFFSET
from coordinator.config import GroupConfig
from coordinator.outcome import JoinReply, Outcome, Reply
from coordinator.refusal import loading_error, refusal
from coordinator.shard import GroupShard
from offsets.runs import OwnBatch, Run
from protocol.consumer_protocol import encode_subscription
from protocol.now import Now
from tests import golden_text
from tests.coordinator.invariants import check_against_log, check_shard, reloaded
from tests.coordinator.render import group_line, render_outcome
from tests.golden_text import Words, partitions_of, words_of

WALL_MS = 1_000_000
"""The time of the wall clock in ms when the monotonic clock is 0."""

_DEFAULTS = {"initial_rebalance_delay_ms": 0}


@dataclass
class Seen:
    """One call: its request (a row of the error table), the state of the group (a column of this
    table), and the answer."""

    request: str
    state: str
    answer: str


@dataclass
class Speaker:
    """A client in a conversation: its member id, generation and connection."""

    name: str
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None
    said: dict[str, str] = field(default_factory=dict)
    """The options of the client's last JoinGroup. They are the default options of its next
    JoinGroup."""
    connections: int = 1
    """The number of the client's current connection. It starts at 1."""

    @property
    def connection(self) -> str:
        return f"{self.name}#{self.connections}"


_OPTIONS = re.compile(
    "group|member|instance|client|host|session|rebalance|type|protocols|v|reason|generation|name"
    "|assign|retention|stamp|states|types|epoch|producer"
)


class Conversation:
    """Runs the calls of one golden file (a conversation) on a shard, and keeps the log of the
    shard."""

    def __init__(self, config: dict[str, int]) -> None:
        self.config = GroupConfig(**{**_DEFAULTS, **config})
        self.shard = GroupShard(self.config)
        self.mode = "live"
        self.mono_ms = 0
        self.wall_offset_ms = WALL_MS
        self.log: list[tuple[int, Run | OwnBatch]] = []
        self.next_offset = 0
        self.speakers: dict[str, Speaker] = {}
        self.fresh_ids = 0
        self.tickets: dict[str, int] = {}
        self.open: dict[str, Speaker | None] = {}
        self.seen: list[Seen] = []
        self.shard.loaded(self.now)

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, self.mono_ms + self.wall_offset_ms)

    # ------------------------------------------------------------------------------ one line

    def say(self, line: str) -> list[str]:
        verb, _, rest = line.partition(" ")
        words = words_of(rest, _OPTIONS)
        special = getattr(self, "_do_" + verb.replace("-", "_"), None)
        lines = special(words) if special is not None else self._request(verb, words)
        if self.mode == "live":
            check_shard(self.shard)
            check_against_log(self.shard, self.config, self.log, self.now)
        return lines

    def _request(self, verb: str, words: Words) -> list[str]:
        make = getattr(self, "_call_" + verb.replace("-", "_"))
        group_id = words.options.get("group", "g")
        speaker, row, call = make(words, group_id)
        group = self.shard.view.groups.get(group_id)
        before = "no group" if group is None else group.state.value
        self.open[call.ticket] = speaker
        if self.mode != "live":
            before = self.mode
            error = 16 if self.mode == "not owner" else loading_error(call)
            outcome = Outcome((), ((call.ticket, refusal(call, error)),), ())
        else:
            outcome = self.shard.handle(call, self.now)
        answered = dict(outcome.replies)
        self.seen.append(Seen(row, before, answer_of(answered.get(call.ticket))))
        lines = self._take(outcome)
        if call.ticket not in answered:
            lines.insert(0, f"parked {call.ticket}")
        if self.mode == "live" and not isinstance(call, ListGroups):
            lines.append(group_line(self.shard, group_id))
        return lines

    def _take(self, outcome: Outcome) -> list[str]:
        """Appends and replays the records of an outcome, and delivers its replies to the
        clients."""
        for run in outcome.records:
            self.shard.replay(run, self.next_offset)
            self.log.append((self.next_offset, run))
            self.next_offset += len(run)
        for ticket, reply in outcome.replies:
            speaker = self.open.pop(
                ticket
            )  # fails for a ticket that was answered twice, or never issued
            if isinstance(reply, JoinReply) and speaker is not None:
                speaker.member_id = reply.member_id or speaker.member_id
                if reply.error_code == 0:
                    speaker.generation_id = reply.generation_id
        return render_outcome(outcome, self.tickets)

    def _ticket(self, name: str) -> str:
        number = len(self.tickets) + 1
        ticket = f"{name}.{number}"
        self.tickets[ticket] = number
        return ticket

    def _speaker(self, words: Words) -> Speaker:
        name = words.plain[0] if words.plain else "x"
        return self.speakers.setdefault(name, Speaker(name))

    def member_id(self, name: str) -> str:
        """Returns the member id of the client ``name``, also if the client has not received its id
        yet. Returns ``name`` if no client has this name."""
        if name in self.speakers and self.speakers[name].member_id:
            return self.speakers[name].member_id
        for group in self.shard.view.groups.values():
            for member in group.members.values():
                if member.client_id == name:
                    return member.member_id
        return name

    # ---------------------------------------------------------------------------- the requests

    def _call_join(self, words: Words, group_id: str) -> tuple[Speaker, str, Call]:
        speaker = self._speaker(words)
        kept = ("v", "session", "rebalance", "type", "protocols", "client", "host")
        speaker.said |= {key: words.options[key] for key in kept if key in words.options}
        words = Words(words.plain, speaker.said | words.options)
        version = words.number("v", 9)
        member_id = words.options.get("member", speaker.member_id)
        speaker.instance_id = words.optional("instance", speaker.instance_id)
        session_ms = words.number("session", 10_000)
        group = self.shard.view.groups.get(group_id)
        is_new = not member_id or (group is not None and member_id in group.pending)
        fresh_id = ""
        if not member_id:
            self.fresh_ids += 1
            fresh_id = str(self.fresh_ids)
        call = JoinGroup(
            self._ticket(speaker.name),
            group_id,
            member_id,
            speaker.instance_id,
            words.options.get("client", speaker.name),
            words.options.get("host", "/10.0.0.1"),
            session_ms,
            session_ms if version == 0 else words.number("rebalance", 60_000),
            words.options.get("type", "consumer"),
            protocols_of(words.options.get("protocols", "range:t")),
            words.optional("reason"),
            version >= 4,
            version >= 9,
            fresh_id,
            speaker.connection,
        )
        return speaker, "JoinGroup new" if is_new else "JoinGroup known", call

    def _call_sync(self, words: Words, group_id: str) -> tuple[Speaker, str, Call]:
        speaker = self._speaker(words)
        given = []
        for pair in filter(None, words.options.get("assign", "").split(",")):
            name, _, data = pair.partition(":")
            given.append((self.member_id(name), data.encode()))
        call = SyncGroup(
            self._ticket(speaker.name),
            group_id,
            words.number("generation", speaker.generation_id),
            words.options.get("member", speaker.member_id),
            words.optional("instance", speaker.instance_id),
            words.optional("type"),
            words.optional("name"),
            given,
            speaker.connection,
        )
        return speaker, "SyncGroup", call

    def _call_heartbeat(self, words: Words, group_id: str) -> tuple[Speaker, str, Call]:
        speaker = self._speaker(words)
        call = Heartbeat(
            self._ticket(speaker.name),
            group_id,
            words.number("generation", speaker.generation_id),
            words.options.get("member", speaker.member_id),
            words.optional("instance", speaker.instance_id),
            speaker.connection,
        )
        return speaker, "Heartbeat", call

    def _call_leave(self, words: Words, group_id: str) -> tuple[Speaker | None, str, Call]:
        leavers = []
        for name in words.plain:
            speaker = self.speakers.get(name)
            leavers.append(
                Leaver(
                    words.options.get("member", self.member_id(name)),
                    words.optional("instance", speaker.instance_id if speaker else None),
                    words.optional("reason"),
                )
            )
        return None, "LeaveGroup", LeaveGroup(self._ticket("leave"), group_id, leavers)

    def _call_commit(self, words: Words, group_id: str) -> tuple[Speaker | None, str, Call]:
        """Parses ``commit NAME t/0=5``. The name ``-`` is a commit without a member."""
        name, *rest = words.plain
        speaker = None if name == "-" else self._speaker(words)
        generation_id = words.number("generation", speaker.generation_id if speaker else -1)
        topics = topics_of(rest, words)
        call = OffsetCommit(
            self._ticket(name.replace("-", "commit")),
            group_id,
            generation_id,
            words.options.get("member", speaker.member_id if speaker else ""),
            words.optional("instance", speaker.instance_id if speaker else None),
            words.number("retention", -1),
            topics,
        )
        row = "OffsetCommit" if generation_id >= 0 else "OffsetCommit simple"
        return speaker, row, call

    def _call_txn_commit(self, words: Words, group_id: str) -> tuple[Speaker | None, str, Call]:
        """Parses ``txn-commit NAME t/0=5 producer=7``, a commit in a transaction."""
        name, *rest = words.plain
        speaker = None if name == "-" else self._speaker(words)
        generation_id = words.number("generation", speaker.generation_id if speaker else -1)
        member_id = words.options.get("member", speaker.member_id if speaker else "")
        instance_id = words.optional("instance", speaker.instance_id if speaker else None)
        call = TxnOffsetCommit(
            self._ticket(name.replace("-", "commit")),
            group_id,
            words.number("producer", 7),
            0,
            generation_id,
            member_id,
            instance_id,
            topics_of(rest, words),
        )
        named = generation_id >= 0 or member_id or instance_id is not None
        return speaker, "TxnOffsetCommit" if named else "TxnOffsetCommit unnamed", call

    def _call_end(self, words: Words, group_id: str) -> tuple[None, str, Call]:
        """Parses ``end COMMIT producer=7``, a transaction marker."""
        committed = words.plain[0] == "COMMIT"
        call = EndOffsets(self._ticket("end"), words.number("producer", 7), 0, 0, committed)
        return None, "a marker", call

    def _call_fetch(self, words: Words, group_id: str) -> tuple[None, str, Call]:
        """Parses ``fetch t/0``. ``fetch`` reads all offsets, and ``fetch stable t/0`` sets
        require_stable."""
        plain = [each for each in words.plain if each != "stable"]
        topics = partitions_of(plain) or None
        stable = len(plain) < len(words.plain)
        call = OffsetFetch(self._ticket("fetch"), group_id, topics, stable)
        return None, "OffsetFetch", call

    def _call_describe(self, words: Words, group_id: str) -> tuple[None, str, Call]:
        return None, "DescribeGroups", DescribeGroup(self._ticket("describe"), group_id)

    def _call_list(self, words: Words, group_id: str) -> tuple[None, str, Call]:
        states, types = (
            frozenset(filter(None, words.options.get(key, "").split(",")))
            for key in ("states", "types")
        )
        return None, "ListGroups", ListGroups(self._ticket("list"), states, types)

    def _call_delete(self, words: Words, group_id: str) -> tuple[None, str, Call]:
        return None, "DeleteGroups", DeleteGroup(self._ticket("delete"), group_id)

    def _call_offset_delete(self, words: Words, group_id: str) -> tuple[None, str, Call]:
        topics = partitions_of(words.plain)
        return None, "OffsetDelete", OffsetDelete(self._ticket("delete"), group_id, topics)

    # --------------------------------------------------------------------- other commands

    def _do_advance(self, words: Words) -> list[str]:
        """Advances the clock, and runs the work that is due at each deadline of the shard."""
        until_ms = self.mono_ms + int(words.plain[0])
        lines: list[str] = []
        while True:
            due_ms = self.shard.next_deadline()
            if due_ms is None or due_ms > until_ms:
                break
            self.mono_ms = max(self.mono_ms, due_ms)
            before = {
                group_id: group_line(self.shard, group_id) for group_id in self.shard.view.groups
            }
            happened = self._take(self.shard.expire(self.now, 1))
            check_shard(self.shard)
            for group_id, line in before.items():
                after = group_line(self.shard, group_id)
                if after != line:
                    happened.append(after)
            if happened:
                lines += [f"at {self.mono_ms}", *happened]
        self.mono_ms = until_ms
        return lines or ["nothing is due"]

    def _do_wall(self, words: Words) -> list[str]:
        self.wall_offset_ms += int(words.plain[0])
        return []

    def _do_disconnect(self, words: Words) -> list[str]:
        speaker = self.speakers[words.plain[0]]
        connection, speaker.connections = speaker.connection, speaker.connections + 1
        for ticket, parked in self.open.items():
            if parked is speaker:
                self.open[ticket] = None  # the reply has no recipient
        return [
            *self._take(self.shard.connection_closed(connection, self.now)),
            group_line(self.shard, words.options.get("group", "g")),
        ]

    def _do_topics_deleted(self, words: Words) -> list[str]:
        return self._take(
            self.shard.topics_deleted(dict.fromkeys(words.plain, EVERY_LOG_OFFSET), self.now)
        )

    def _do_unload(self, words: Words) -> list[str]:
        lines = self._take(self.shard.unload(int(words.plain[0])))
        assert not self.open, "every parked request is answered"
        return [*lines, *(group_line(self.shard, group_id) for group_id in self.shard.view.groups)]

    def _do_reload(self, words: Words) -> list[str]:
        """Loads a new shard from the log, as after a kill. Options of the line change its
        settings."""
        changes = dict(word.split("=") for word in words.plain)
        self.config = GroupConfig(
            **{name: getattr(self.config, name) for name in self.config.__slots__}
            | {name: int(value) for name, value in changes.items()}
        )
        self.open.clear()
        self.mode = "live"
        self.shard = reloaded(self.config, self.log, self.now)
        return [group_line(self.shard, group_id) for group_id in sorted(self.shard.view.groups)]

    def _do_loading(self, words: Words) -> list[str]:
        self.mode = "loading"
        return []

    def _do_not_owner(self, words: Words) -> list[str]:
        self.mode = "not owner"
        return []


def topics_of(offsets: list[str], words: Words) -> list[TopicOffsets]:
    """Parses ``t/0=5 t/1=6:metadata``."""
    columns: dict[str, list[tuple[int, int, str | None]]] = {}
    for word in offsets:
        where, _, what = word.partition("=")
        topic, _, partition = where.partition("/")
        offset, colon, metadata = what.partition(":")
        entry = (int(partition), int(offset), metadata if colon else None)
        columns.setdefault(topic, []).append(entry)
    stamps = words.optional("stamp")
    topics = []
    for topic, entries in columns.items():
        partitions, numbers, texts = (list(column) for column in zip(*entries, strict=True))
        topics.append(
            TopicOffsets(
                topic,
                partitions,
                numbers,
                [words.number("epoch", -1)] * len(entries),
                texts if any(texts) else None,
                None if stamps is None else [int(stamp) for stamp in stamps.split(",")],
            )
        )
    return topics


def protocols_of(text: str) -> list[tuple[str, bytes]]:
    """Parses ``range:t1+t2,sticky:t1`` as protocols with subscribed topics, and ``range:=bytes`` as
    a protocol with raw bytes."""
    protocols = []
    for part in filter(None, text.split(",")):
        name, _, said = part.partition(":")
        if said.startswith("="):
            protocols.append((name, said[1:].encode()))
        else:
            protocols.append((name, encode_subscription(said.split("+"))))
    return protocols


def answer_of(reply: Reply | None) -> str:
    """Returns the error codes of the reply, or "park" if the call is parked."""
    if reply is None:
        return "park"
    if isinstance(reply, int):
        return str(reply)
    codes = getattr(reply, "error_code", getattr(reply, "errors", None))
    if isinstance(codes, list):
        return " ".join(str(code) for code in codes)
    inner = getattr(reply, "members", None) if type(reply).__name__ == "LeaveReply" else None
    if inner:
        return f"{codes}: " + " ".join(str(code) for *_, code in inner)
    deleted = getattr(reply, "topics", None) if type(reply).__name__ == "OffsetDeleteReply" else ()
    if deleted:
        return f"{codes}: " + " ".join(str(code) for _, parts in deleted for _, code in parts)
    return str(codes)


def run_text(text: str) -> tuple[str, Conversation]:
    """Runs a conversation. Returns the text of the conversation with its current outcomes, and the
    `Conversation` object."""
    return golden_text.run_text(text, Conversation)
