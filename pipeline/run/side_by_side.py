"""Runs tasks in parallel, a few at a time; a task begins after the tasks that it needs have ended.

The caller's thread reports which task begins, and receives Ctrl-C; other threads run the tasks. If
a task fails, or the caller is interrupted, no further task begins, and the error is raised only
after the running tasks have ended. So an engine is never closed while a thread uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from pipeline import clock


@dataclass(frozen=True)
class Task:
    """A task with its function and the tasks that it needs."""

    name: str
    needs: Collection[str]
    """The names of tasks that must end before this task begins; names without a task are ignored.
    """
    work: Callable[[], object]
    what: str = ""
    """The purpose of the task, for the user."""


def side_by_side(
    tasks: Sequence[Task],
    at_once: int,
    begin: Callable[[Task], None],
    interrupt: Callable[[], None],
) -> None:
    """Run all tasks; each must come after the tasks that it needs.

    ``begin`` is called in the caller's thread before each task. ``interrupt`` makes running tasks
    end. The error of the first failed task is raised.
    """
    if at_once == 1:  # in this thread, so that Ctrl-C interrupts the task
        for task in tasks:
            begin(task)
            task.work()
        return
    ended = SimpleQueue[tuple[Task, BaseException | None]]()

    def do(task: Task) -> None:
        try:
            task.work()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
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
