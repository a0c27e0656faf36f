"""Converts transactions, and the partitions whose last stable offset they hold back, to dicts and
lists for JSON. docs/use/http-api.md describes the fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.cores.hosted_shard import LOADED
from broker.cores.transactions.runtime import HostedTransactions
from broker.metrics.lso_blockers import LsoBlocker
from broker.metrics.scan import is_led
from broker.metrics.sources import Sources
from broker.topics.partition import Partition
from broker.web.views.groups import View
from broker.web.views.transaction_words import held_back, story_sentence, waited_ms
from protocol.errors import NAMES
from transactions.calls import Client
from transactions.journal_entries import Refusals, Story, Wait
from transactions.states import State
from transactions.transaction import Transaction
from verdicts.spelling import plain_host

STEP = 200
"""The number of partitions that one step reads."""


def readable(sources: Sources) -> list[HostedTransactions]:
    """Returns the shards whose transactional ids can be read now."""
    return [each for each in sources.transactions.hosted_shards if each.phase in LOADED]


def listing_head(sources: Sources) -> View:
    """Returns the fields that state whether transactional ids may be missing from the list of
    transactions."""
    life = sources.transactions.life
    return {"loading": life.loading, "unreadable": life.unreadable()}


def transaction_row(known: Transaction) -> View:
    is_open = known.is_open
    ends_ms = known.start_ms + known.timeout_ms if known.state is State.ONGOING else None
    return {
        "id": known.transactional_id,
        "state": known.state.wire_name,
        "open": is_open,
        "since_ms": known.start_ms if is_open and known.start_ms >= 0 else None,
        "ends_ms": ends_ms,
        "timeout_ms": known.timeout_ms,
        "producer_id": known.producer_id,
        "producer_epoch": known.producer_epoch,
        "partitions": sum(len(ids) for _, ids in known.partitions) if is_open else 0,
        "last_update_ms": known.last_update_ms,
        **client_view(known.client),
    }


def client_view(client: Client, prefix: str = "") -> View:
    """Returns two fields, with the client's id and host. A value that is unknown is None."""
    return {
        f"{prefix}client": client.client_id or None,
        f"{prefix}host": plain_host(client.host) or None,
    }


def transactions(sources: Sources) -> Iterator[View]:
    for hosted in readable(sources):
        for known in list(hosted.core.view.transactions.values()):
            yield transaction_row(known)


# ------------------------------------------------------------------------------------- one id


def transaction_view(
    sources: Sources, known: Transaction | None, transactional_id: str
) -> View | None:
    """Returns a transactional id with its recorded transactions, without its partitions; None if
    the id is unknown."""
    journal = sources.transaction_journal.get(transactional_id)
    if known is None and journal is None:
        return None
    now_ms = sources.time.now().wall_ms
    row: View = {"id": transactional_id, "state": None}
    if known is not None:
        row = transaction_row(known)
    row["stories"] = stories(sources, transactional_id, known, now_ms)
    refused = [] if journal is None else list(journal.refused)
    row["refused"] = [refused_view(each) for each in refused]
    return row


def partition_rows(sources: Sources, known: Transaction | None) -> Iterator[View]:
    """Yields the partitions of an open transaction. Each row has the number of offsets that
    read_committed consumers can't read yet."""
    if known is None or not known.is_open:
        return
    for topic, ids in known.partitions:
        entry = sources.logs.topics.get(topic)
        for index in ids:
            partition = None if entry is None else entry.partition(index)
            if partition is None:
                yield {"topic": topic, "partition": index, "there": False}
            else:
                yield _partition_row(partition, topic, known)


def _partition_row(partition: Partition, topic: str, known: Transaction) -> View:
    open_ones = partition.log.producers.open_transactions
    start = open_ones.get(known.producer_id)
    stable, end = partition.last_stable_offset, partition.high_watermark
    return {
        "topic": topic,
        "partition": partition.index,
        "there": True,
        "start_offset": start,
        "last_stable_offset": stable,
        "end_offset": end,
        "held_back": end - stable,
        "holds": start is not None and next(iter(open_ones)) == known.producer_id and stable < end,
        "open_transactions": len(open_ones),
    }


def stories(
    sources: Sources, transactional_id: str, known: Transaction | None, now_ms: int
) -> list[View]:
    """Returns the recorded transactions of a transactional id, oldest first."""
    journal = sources.transaction_journal.get(transactional_id)
    found = [] if journal is None else journal.stories()
    return [story_view(story, _is_over(story, known), now_ms) for story in found]


def _is_over(story: Story, known: Transaction | None) -> bool:
    """Returns True if the journal entry ``story`` shows an ended transaction as open. This happens
    if the transaction ended while the journal did not record events."""
    is_open = known is not None and known.is_open and known.start_ms <= story.began_ms
    return not story.outcome.is_over and not is_open


def story_view(story: Story, ended_unseen: bool, now_ms: int) -> View:
    return {
        "number": story.number,
        "outcome": "unknown" if ended_unseen else story.outcome.value,
        "cause": None if story.cause is None else story.cause.value,
        "why": story.detail or None,
        "producer_id": story.producer_id,
        "producer_epoch": story.producer_epoch,
        **client_view(story.client),
        **client_view(story.ended_by, "ended_by_"),
        "ended_past": story.past or None,
        "began_ms": story.began_ms,
        "decided_ms": story.prepared_ms or None,
        "ended_ms": story.ended_ms or None,
        "touched": story.touched,
        "partitions": _by_topic(story),
        "groups": story.groups,
        "waits": [wait_view(each, now_ms) for each in story.waits.values()],
        "more_waits": story.more_waits,
        "source": story.source.value,
        "sentence": story_sentence(story, now_ms),
    }


def _by_topic(story: Story) -> list[View]:
    found: dict[str, list[int]] = {}
    for topic, partition in story.partitions:
        found.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": sorted(ids)} for topic, ids in sorted(found.items())]


def wait_view(wait: Wait, now_ms: int) -> View:
    reader = wait.reader
    return {
        "group": reader.group_id,
        "topic": reader.topic,
        "partition": reader.partition,
        "client": reader.client_id or None,
        "host": plain_host(reader.host) or None,
        "since_ms": reader.since_ms,
        "waited_ms": waited_ms(wait, now_ms),
        "over": wait.over,
    }


def refused_view(refused: Refusals) -> View:
    return {
        "error": NAMES.get(refused.error_code, str(refused.error_code)),
        "count": refused.count,
        "last_ms": refused.last_ms,
        "producer_id": refused.producer_id,
        "producer_epoch": refused.producer_epoch,
        **client_view(refused.client),
        "why": refused.detail,
        "source": refused.source.value,
    }


# --------------------------------------------------------------------------- partitions held back


def held_rows(sources: Sources) -> Iterator[View | None]:
    """Yields the partitions whose last stable offset is held back. Yields None where a slice may
    end."""
    for _ in sources.lso_blockers.refresh():
        yield None
    for name, entry in list(sources.logs.topics.items()):
        for start in range(0, len(entry.partitions), STEP):
            yield None
            for partition in entry.partitions[start : start + STEP]:
                blocker = sources.lso_blockers.of(partition) if is_led(partition) else None
                if blocker is not None:
                    yield held_view(sources, name, partition, blocker)


def held_view(sources: Sources, topic: str, partition: Partition, blocker: LsoBlocker) -> View:
    """Returns the view of one partition whose last stable offset is held back."""
    now_ms = sources.time.now().wall_ms
    waits = _waits_at(sources, topic, partition.index, blocker)
    place = f"{topic}-{partition.index}"
    stable, end = partition.last_stable_offset, partition.high_watermark
    return {
        "topic": topic,
        "partition": partition.index,
        "id": blocker.transactional_id,
        "hangs": blocker.hangs,
        "state": blocker.state,
        "producer_id": blocker.producer_id,
        "producer_epoch": blocker.producer_epoch,
        "start_offset": blocker.start_offset,
        "last_stable_offset": stable,
        "end_offset": end,
        "held_back": end - stable,
        "since_ms": blocker.since_ms,
        "ends_ms": blocker.ends_ms,
        **client_view(blocker.client),
        "waits": [wait_view(each, now_ms) for each in waits],
        "sentence": held_back(
            place, blocker, waits, now_ms, sources.markers.late(blocker.transactional_id or "")
        ),
    }


def _waits_at(sources: Sources, topic: str, partition: int, blocker: LsoBlocker) -> list[Wait]:
    if blocker.transactional_id is None:
        return []
    journal = sources.transaction_journal.get(blocker.transactional_id)
    if journal is None or journal.open is None:
        return []
    found = journal.open.waits.values()
    return [each for each in found if each.reader[1:3] == (topic, partition)]


def place_view(sources: Sources, topic: str, partition: Partition) -> View:
    """Returns the view of one partition, with the transaction that holds back its last stable
    offset, if any. The caller must first run `LsoBlockers.refresh`."""
    blocker = sources.lso_blockers.of(partition)
    view: dict[str, Any] = {"topic": topic, "partition": partition.index, "held": None}
    stable, end = partition.last_stable_offset, partition.high_watermark
    view |= {"last_stable_offset": stable, "end_offset": end}
    if blocker is None:
        view["sentence"] = f"{topic}-{partition.index} is not blocked by a transaction"
        return view
    view["held"] = held_view(sources, topic, partition, blocker)
    view["sentence"] = view["held"]["sentence"]
    return view
