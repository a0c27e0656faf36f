"""Runs tasks in parallel, a few at a time. A task begins after the tasks that it needs have ended.

Worker threads run the tasks. The caller's thread reports each task that begins, and receives
Ctrl-C. If a task fails, or if the caller is interrupted, no further task begins. The error is
raised only after the running tasks have ended, so that no engine is closed while a thread uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from pipeline import clock


@dataclass(frozen=True)
class Task:
    """A function to run, with the names of the tasks that it needs."""

    name: str
    needs: Collection[str]
    """The names of the tasks that must end before this task begins. Names without a task are
    ignored."""
    work: Callable[[], object]
    what: str = ""
    """The name of the step that the user sees while the task runs."""


def side_by_side(
    tasks: Sequence[Task],
    at_once: int,
    begin: Callable[[Task], None],
    interrupt: Callable[[], None],
) -> None:
    """Runs all tasks, at most ``at_once`` in parallel. In ``tasks`` each task comes after the tasks
    that it needs.

    ``begin`` is called in the caller's thread before each task. ``interrupt`` makes the running
    tasks end. Raises the error of the first task that failed.
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
