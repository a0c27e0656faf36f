"""The texts of verdict REFUSED: the clients that cannot join a group, the reason, and the required
change."""

from __future__ import annotations

from verdicts.commands import command
from verdicts.facts import SHARE, STREAMS, GroupFacts, RefusedFacts
from verdicts.findings import Mark
from verdicts.spelling import counted, plain_host, since, verb

NEW_PROTOCOL = "unsupported request: the client uses group.protocol=consumer"
"""The reason with which the coordinator rejects a client that uses the protocol of KIP-848."""


def refused(mark: Mark, facts: GroupFacts) -> tuple[str, str, str | None]:
    """Returns the sentence, the advice and the command for clients whose JoinGroup is rejected."""
    last = mark.refused[0]
    times = sum([each.times for each in mark.refused])
    where = f" on {plain_host(last.host)}" if last.host else ""
    who = f"client {last.client!r}" if last.client else "a client without a client id"
    who += where
    if len(mark.refused) > 1:
        who = f"{counted(len(mark.refused), 'client')}, the last of them {who},"
    if last.why == NEW_PROTOCOL:
        have = verb(len(mark.refused), "has", "have")
        sentence = f"{who} {have} not been served{since(mark.since_ms)}: {last.why}"
        return sentence, "set group.protocol=classic in the client", None
    sentence = (
        f"{who} {verb(len(mark.refused), 'has', 'have')} been refused {counted(times, 'time')}"
        f"{since(mark.since_ms)} with {last.error}: {last.why}"
    )
    return sentence, _advice(last, facts), command("groups why", facts.group)


def _advice(last: RefusedFacts, facts: GroupFacts) -> str:
    """Returns advice for the operator: the change that lets the client join. The advice may depend
    on the type of the group."""
    if last.error == "INCONSISTENT_GROUP_PROTOCOL" and facts.protocol_type in _OTHER_PROTOCOLS:
        return _OTHER_PROTOCOLS[facts.protocol_type]
    if last.error == "GROUP_MAX_SIZE_REACHED":
        if "max.message.bytes" in last.why:
            return _CHANGES["UNKNOWN_SERVER_ERROR"]
        if facts.protocol_type in _OTHER_PROTOCOLS:
            return (
                f"stop members that are not needed, or raise group.{facts.protocol_type}.max.size"
            )
    return _CHANGES.get(last.error, "fix the client's JoinGroup request, then restart the client")


_OTHER_PROTOCOLS = {
    STREAMS: (
        "give the client its own group.id: the group is a streams group, which consumers can't"
        " join; if the client is an instance of the streams application, set"
        " group.protocol=streams in its properties"
    ),
    SHARE: (
        "give the client its own group.id: the group is a share group, which only share consumers"
        " (KafkaShareConsumer) can join"
    ),
}
"""Advice for a client whose protocol differs from that of the group, by the group's protocol
type."""
_CHANGES = {
    "INCONSISTENT_GROUP_PROTOCOL": (
        "give all members a common assignor: list the new and the old assignor in"
        " partition.assignment.strategy of every member, and only then remove the old assignor;"
        " another application needs its own group.id"
    ),
    "INVALID_SESSION_TIMEOUT": (
        "change session.timeout.ms of the client, or group.min.session.timeout.ms and"
        " group.max.session.timeout.ms of the broker"
    ),
    "GROUP_MAX_SIZE_REACHED": "stop members that are not needed, or raise group.max.size",
    "UNSUPPORTED_VERSION": (
        "remove group.instance.id from the client, or upgrade the brokers that are older than"
        " Kafka 2.3"
    ),
    "UNKNOWN_SERVER_ERROR": (
        "raise max.message.bytes of __consumer_offsets, or reduce the group's members or topics"
    ),
}
"""Advice for each error that a rejected client receives."""
