"""What was asked for, granted or refused, each when nothing else of its partition is written."""

from __future__ import annotations

from controller import elections_asked, isr_changes, reassignments
from controller.change import Change
from controller.partition import Partition
from controller.wishes import IsrWish, LeaderWish, MoveWish, Wish
from controller.work import Work


def next_granted(work: Work, partition: Partition) -> Change | None:
    """The first wish that needs a write; those before it are answered. None: no wish can go on."""
    wishes = partition.wishes
    while wishes:
        if isinstance(wishes[0], MoveWish) and not reassignments.may_begin(partition):
            return None
        wish = wishes.popleft()
        if isinstance(wish, IsrWish):
            change = isr_changes.checked(work, partition, wish)
        elif isinstance(wish, LeaderWish):
            change = elections_asked.checked(work, partition, wish)
        else:
            change = reassignments.checked(work, partition, wish)
        if change is not None:
            return change
    return None


def granted(work: Work, partition: Partition, wish: Wish) -> None:
    """What a wish asked for is written."""
    if isinstance(wish, IsrWish):
        isr_changes.granted(work, partition, wish)
    elif isinstance(wish, LeaderWish):
        elections_asked.granted(work, partition, wish)
    else:
        reassignments.begin(work, partition, wish)


def moved(work: Work, partition: Partition, change: Change) -> None:
    """A step of a reassignment is written."""
    reassignments.moved(work, partition, change)


def refuse_all(work: Work, partition: Partition) -> None:
    """The partition is gone, or is being deleted."""
    while partition.wishes:
        wish = partition.wishes.popleft()
        if isinstance(wish, IsrWish):
            isr_changes.refuse_gone(work, wish)
        elif isinstance(wish, LeaderWish):
            elections_asked.refuse_gone(work, partition, wish)
        else:
            reassignments.refuse_gone(work, partition, wish)
