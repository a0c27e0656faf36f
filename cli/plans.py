"""Shows the changes of a command before they are made, and decides whether to make them.

With ``--dry-run``, the command ends after it has shown the plan. With ``--execute``, it makes the
changes without a question. Without these options, a user at a terminal is asked for confirmation.
In a pipe, nothing is changed and the exit code is 2, so that no script changes or deletes anything
by mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from cli import output
from cli.errors import USAGE, CommandError
from cli.layout import Columns
from cli.names import safe
from cli.questions import answer
from cli.times import instant

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show values before and after; change nothing.")
]
Execute = Annotated[
    bool, typer.Option("--execute", "--yes", "-y", help="Make the changes without confirmation.")
]


class Plan(NamedTuple):
    """The options that decide what a command does with its changes: it only shows them, asks for
    confirmation, or makes them at once. ``done`` is the verb in messages, such as changed or
    deleted."""

    dry_run: bool
    execute: bool
    json: bool
    done: str = "changed"
    as_of_ms: int | None = None
    """The wall time in ms that an option names, such as the time of the offsets that a command
    restores; None if no option names a time."""

    def checked(self) -> Plan:
        """Returns the plan. Raises CommandError if both --dry-run and --execute are given."""
        if self.dry_run and self.execute:
            raise CommandError("choose one of --dry-run and --execute", USAGE)
        return self

    @property
    def title(self) -> str:
        """The title of the plan's table. It states that nothing has been changed yet."""
        if self.dry_run:
            return f"Nothing is {self.done} (--dry-run)"
        return f"To be {self.done}" if self.execute else f"Nothing is {self.done} yet"

    @property
    def shows_json(self) -> bool:
        """True if the plan is printed as JSON. With --execute, only the result is printed."""
        return self.json and not self.execute

    def say_as_of(self, what: str) -> None:
        """Prints the time of `as_of_ms`, so that the user can check how the command understood the
        time that the user gave."""
        if self.as_of_ms is not None:
            output.say_folded(f"{what} as of {instant(self.as_of_ms, to_the_ms=True)}")

    def agreed(self, rows: Sequence[output.Row], columns: Columns, question: str) -> bool:
        """Shows the plan as a table or as JSON, and asks for confirmation if necessary. Returns
        True if the changes are to be made."""
        if self.shows_json:
            show_json(rows, executed=False)
        elif not self.json:
            output.show_table(rows, columns, "", self.title)
        return self.goes_on(question)

    def goes_on(self, question: str) -> bool:
        """Returns True if the changes are to be made. A user at a terminal is asked ``question``.
        Raises CommandError if a question is necessary but the command does not run at a terminal.
        """
        if self.dry_run or self.execute:
            return self.execute
        if self.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CommandError(
                f"nothing was {self.done}: add --execute to make these changes", USAGE
            )
        return answer(
            lambda: typer.confirm(safe(question), default=False),
            f"nothing was {self.done}; add --execute to make these changes without asking",
        )


def show_json(rows: Sequence[output.Row], executed: bool, as_of_ms: int | None = None) -> None:
    about = {} if as_of_ms is None else {"as_of_ms": as_of_ms}
    output.show_json({"executed": executed, **about, "changes": rows})


def report(
    errors: Mapping[str, CommandError | None], noun: str, done: str, *, json: bool = False
) -> None:
    """Prints the result for each name. Raises CommandError if a name failed: the error of a single
    name, or a summary for several names."""
    failed = {name: error for name, error in errors.items() if error is not None}
    if len(errors) == 1 and failed:
        raise next(iter(failed.values()))
    for name, error in errors.items() if not json else ():
        output.say(f"Not {done}: {error}" if error else f"{done.capitalize()} {noun} {name}")
    if failed:
        some = output.counted(len(errors) - len(failed), noun)
        raise CommandError(f"{some} of {len(errors)} {done}; not {done}: {', '.join(failed)}")
