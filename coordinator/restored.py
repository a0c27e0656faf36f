"""What the journal of a run begins with: entries that earlier runs wrote down, and the log's own.

The log holds the last generations of each group, and not why they were formed. Those of which
nothing was written down become rebalances without a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.events import LOADED_ID_CHARACTERS, Cause, LoadedGeneration
from coordinator.group_journal import GroupJournal
from coordinator.journal_entries import (
    Entry,
    Flapping,
    Lost,
    MovedBack,
    Note,
    Rebalance,
    Rejections,
)
from journal.texts import Source, cut

WHY_OF_THE_LOG = "only the log holds this generation, and not why it was formed"


def restore(journal: GroupJournal, entry: Entry) -> None:
    """Take over an entry that an earlier run wrote down; a later form of one replaces it."""
    if isinstance(entry, Rebalance):
        _restore_rebalance(journal, _ended(entry))
    elif isinstance(entry, Note):
        journal.add_note(entry._replace(source=Source.KEPT))
    elif isinstance(entry, MovedBack):
        journal.add_moved_back(entry._replace(source=Source.KEPT))
    elif isinstance(entry, Lost):
        if journal.losses and journal.losses[-1].number == entry.number:
            journal.grow(-journal.losses.pop().size())
        journal.add_loss(entry._replace(source=Source.KEPT))
    elif isinstance(entry, Rejections):
        if entry.last is not None:
            journal.take_rejections(entry.key)
            journal.keep_rejections(replace(entry, source=Source.KEPT))
    elif isinstance(entry, Flapping):
        known_flapper = journal.changed.pop(entry.member_id, None)
        journal.grow(entry.size() - (0 if known_flapper is None else known_flapper.size()))
        journal.changed[entry.member_id] = replace(entry, source=Source.KEPT)
    else:
        size = journal.returns.bytes
        journal.returns.restore(replace(entry, is_kept=True))
        journal.grow(journal.returns.bytes - size)


def _restore_rebalance(journal: GroupJournal, entry: Rebalance) -> None:
    rebalances = journal.rebalances
    if rebalances and rebalances[-1].number >= entry.number:
        others = [each for each in rebalances if each.number != entry.number]
        journal.replace_rebalances(sorted([*others, entry], key=lambda each: each.number))
    else:
        journal.append(entry)


def _ended(entry: Rebalance) -> Rebalance:
    """The entry of a rebalance that goes on no more, whatever it said."""
    entry = replace(entry, source=Source.KEPT, began_mono_ms=0, sync_began_mono_ms=0)
    if entry.phase != "ended":
        entry.phase, entry.outcome = "ended", "stopped"
    return entry


# ----------------------------------------------------------------------------------------- the log


def with_generations(
    known: list[Rebalance], generations: Sequence[LoadedGeneration], loaded_ms: int
) -> list[Rebalance]:
    """The rebalances that are known, and one for each generation of which none of them is.

    They are in the order of their times. A rebalance that was written down as running, and of which
    the log holds what it led to, did end.
    """
    there = {(each.generation_id, _cut(each.leader)) for each in known}
    missing = [each for each in generations if (each.generation_id, each.leader) not in there]
    made = [_of_the_log(each, loaded_ms) for each in missing if not _ends(known, each)]
    if not made:
        return known
    return _numbered(sorted([*known, *made], key=_place))


def _place(entry: Rebalance) -> tuple[int, int]:
    """By time, and within a millisecond by generation."""
    generation_id = max(entry.generation_id, entry.generation_before)
    return entry.ended_ms or entry.began_ms, generation_id


def _ends(known: list[Rebalance], generation: LoadedGeneration) -> bool:
    """Take over what a rebalance led to whose end was not written down, if there is such a one."""
    for each in known:
        if (
            each.source is Source.KEPT
            and each.outcome == "stopped"
            and each.generation_before == generation.generation_id - 1
        ):
            made = _of_the_log(generation, each.began_ms)
            each.outcome, each.ended_ms = made.outcome, made.ended_ms
            each.generation_id, each.members = made.generation_id, made.members
            each.protocol_name, each.leader = made.protocol_name, made.leader
            return True
    return False


def _cut(leader: str | None) -> str | None:
    """As the load cuts it."""
    return leader and cut(leader, LOADED_ID_CHARACTERS)


def _of_the_log(generation: LoadedGeneration, loaded_ms: int) -> Rebalance:
    at_ms = generation.state_timestamp_ms
    if at_ms < 0:
        at_ms = loaded_ms
    entry = Rebalance(
        0, at_ms, 0, Cause.UNKNOWN, WHY_OF_THE_LOG, "", generation.generation_id - 1, (), at_ms
    )
    entry.phase, entry.ended_ms = "ended", at_ms
    entry.outcome = "assigned" if generation.members else "nobody left"
    entry.generation_id = generation.generation_id
    entry.protocol_name, entry.leader = generation.protocol_name, generation.leader
    entry.members = generation.members
    entry.source = Source.LOG
    return entry


def _numbered(merged: list[Rebalance]) -> list[Rebalance]:
    """With numbers that rise; those of entries that have one rise with them where they must."""
    number = 0
    for each in merged:
        number = each.number = max(each.number, number + 1)
    return merged
