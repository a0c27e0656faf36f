"""Which groups' readers wait for which transaction, as the looks at groups find it.

Fetch names no group. A group whose committed offset stands at the last stable one, with records
behind it, has read what it may: it waits for the transaction that begins there. That is seen at
each look of the judge, every few seconds, and the journal of transactions keeps who waited how
long.
"""

from __future__ import annotations

from broker.cores.transactions.runtime import TransactionRuntime
from broker.time import Time
from journal.texts import Source
from transactions.journal import Journal
from transactions.journal_entries import Reader, Story
from transactions.transaction import Transaction
from verdicts.facts import GroupFacts, HoldFacts, PartitionFacts


class BlockedGroups:
    """See the module."""

    def __init__(self, transactions: TransactionRuntime, journal: Journal, time: Time) -> None:
        self._transactions = transactions
        self._journal = journal
        self._time = time

    def see(self, facts: GroupFacts) -> None:
        """Takes the facts about a group."""
        if not facts.members and facts.protocol_type:
            return  # nobody is there who could wait
        for each in facts.partitions:
            if each.hold is not None and each.hold.transactional_id is not None:
                self._wait(facts, each, each.hold, each.hold.transactional_id)

    def _wait(
        self, facts: GroupFacts, each: PartitionFacts, hold: HoldFacts, transactional_id: str
    ) -> None:
        view = self._transactions.view_of(transactional_id)
        known = None if view is None else view.get(transactional_id)
        if known is None or not known.is_open:
            return
        member = facts.member(each.owner)
        reader = Reader(
            facts.group,
            each.topic,
            each.partition,
            (member.client or "") if member is not None else "",
            (member.host or "") if member is not None else "",
            max(hold.since_ms, each.stands_since_ms or 0),
        )
        now = self._time.now()
        self._journal.wait(transactional_id, story_of(known), reader, now)


def story_of(known: Transaction) -> Story:
    """What the core knows of an open transaction of which the journal has nothing."""
    story = Story(0, known.producer_id, known.producer_epoch, known.client, known.start_ms)
    story.source = Source.LOG
    story.touch(known.partitions, "")
    return story
