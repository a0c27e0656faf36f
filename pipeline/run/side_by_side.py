"""Tasks side by side, a few at a time, each after those that it needs.

The caller's thread says what begins and hears of Ctrl-C; others do the work. When one fails, or the
caller is interrupted, nothing more begins, and what is in flight has ended before that is told:
nobody closes an engine under a thread that asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from pipeline import clock


@dataclass(frozen=True)
class Task:
    """One thing to do."""

    name: str
    needs: Collection[str]
    """Names of the tasks that end before it begins; names of no task do not matter."""
    work: Callable[[], object]
    what: str = ""
    """What it is for, as the user knows it."""


def side_by_side(
    tasks: Sequence[Task],
    at_once: int,
    begin: Callable[[Task], None],
    interrupt: Callable[[], None],
) -> None:
    """Do all tasks; they come in an order in which they can be done one by one.

    ``begin`` is called in this thread before each. ``interrupt`` asks what is in flight to end.
    Raised is what the first that fails raises.
    """
    if at_once == 1:  # in this thread, so that Ctrl-C reaches the work itself
        for task in tasks:
            begin(task)
            task.work()
        return
    ended = SimpleQueue[tuple[Task, BaseException | None]]()

    def do(task: Task) -> None:
        try:
            task.work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the run is
            ended.put((task, error))
        else:
            ended.put((task, None))

    waiting = list(tasks)
    undone = {task.name for task in tasks}
    with clock.threads(at_once) as threads:
        try:
            while undone:
                free = at_once - (len(undone) - len(waiting))
                for task in [each for each in waiting if undone.isdisjoint(each.needs)][:free]:
                    begin(task)
                    waiting.remove(task)
                    threads.submit(do, task)
                task, error = ended.get()
                if error is not None:
                    raise error
                undone.remove(task.name)
        except BaseException:
            interrupt()
            raise
