"""`muster users`: lists, adds and removes SCRAM users, in any Kafka cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli import output
from cli.data_directory import DataDir
from cli.errors import USAGE, CommandError
from cli.layout import Column, Columns
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from cli.plans import DryRun, Execute, Plan, show_json
from cli.questions import answer
from cli.users.places import AtBroker, InDirectory, Place, Salted, Users
from client.chance import fresh_number
from security.credentials import (
    BY_NAME,
    ITERATIONS_MIN,
    SALT_BITS,
    ScramMechanism,
    salt_of,
    wrong_iterations,
)
from verdicts.commands import command

app = typer.Typer(
    help="List, add and remove SCRAM users; change their passwords.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="USER", help="The user's name, such as alice.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        metavar="NAME",
        help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable; both by default.",
    ),
]
Iterations = Annotated[
    int, typer.Option("--iterations", metavar="N", help="Iterations of the hash, 4096 to 16384.")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read the password from the first line of a file, not from standard input.",
    ),
]

PASSWORD_CHARACTERS_MAX = 4096
COLUMNS: Columns = ["user", "mechanism", Column("iterations", "ITERATIONS")]


@app.command("list")
def list_users(
    data_dir: DataDir = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List SCRAM users with their mechanisms, not their passwords."""
    found = _place(bootstrap, timeout, data_dir).users()
    output.show(_rows(found), COLUMNS, "No SCRAM users", json)


@app.command()
def add(
    user: Name,
    mechanism: Mechanisms = None,
    iterations: Iterations = ITERATIONS_MIN,
    password_file: PasswordFile = None,
    data_dir: DataDir = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Add a user with a password, or add a mechanism to a user."""
    place = _place(bootstrap, timeout, data_dir, may_be_new=True)
    wanted, there = _mechanisms(mechanism), place.users(_checked(user)).get(user, {})
    if taken := [each for each in wanted if each in there]:
        changes = command("users set-password", [user])
        raise CommandError(
            f"user {user} already has {_named(taken)}; `{changes}` changes the password"
        )
    _give(place, user, mechanism, iterations, password_file)
    output.say(f"Added {_named(wanted)} to {user}" if there else f"Added user {user}")


@app.command("set-password")
def set_password(
    user: Name,
    mechanism: Mechanisms = None,
    iterations: Iterations = ITERATIONS_MIN,
    password_file: PasswordFile = None,
    data_dir: DataDir = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Change a user's password. Open connections stay open."""
    place = _place(bootstrap, timeout, data_dir)
    if not place.users(_checked(user)):
        adds = f"`{command('users add', [user])}` adds the user"
        raise CommandError(f"user {user} does not exist; {adds}")
    _give(place, user, mechanism, iterations, password_file)
    output.say(f"Changed the password of {user}")


@app.command()
def remove(
    user: Name,
    mechanism: Mechanisms = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    data_dir: DataDir = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Remove a user, or one mechanism of a user. Open connections stay open."""
    plan = Plan(dry_run, execute, json, done="removed").checked()
    place = _place(bootstrap, timeout, data_dir)
    wanted = _mechanisms(mechanism)
    there = place.users(user).get(user, {})
    found = {each: iterations for each, iterations in there.items() if each in wanted}
    if not found:
        raise CommandError(f"user {user} has no password for {_named(wanted, 'or')}")
    rows = _rows({user: found})
    if not plan.agreed(rows, COLUMNS, f"Remove {_named(list(found))} of {user}?"):
        return
    place.remove(user, list(found))
    if json:
        show_json(rows, executed=True)
    else:
        output.say(f"Removed {_named(list(found))} of {user}")


def _place(
    bootstrap: str, timeout_s: float, data_dir: Path | None, *, may_be_new: bool = False
) -> Place:
    if data_dir is not None:
        return InDirectory(data_dir, may_be_new=may_be_new)
    return AtBroker(bootstrap, timeout_s)


def _rows(users: Users) -> list[output.Row]:
    return [
        {"user": name, "mechanism": mechanism.mechanism, "iterations": iterations}
        for name, found in sorted(users.items())
        for mechanism, iterations in sorted(found.items(), key=lambda pair: pair[0].code)
    ]


def _checked(user: str) -> str:
    """Returns the name. Raises CommandError for an empty name, or for a name outside ASCII, which
    Kafka's SCRAM does not allow."""
    if not user or not user.isascii():
        raise CommandError(f"invalid user name {user!r}: SCRAM accepts ASCII only", USAGE)
    return user


def _mechanisms(names: list[str] | None) -> list[ScramMechanism]:
    wrong = [name for name in names or () if name.upper() not in BY_NAME]
    if wrong:
        raise CommandError(f"--mechanism {wrong[0]}: choose one of {', '.join(BY_NAME)}", USAGE)
    return [BY_NAME[name.upper()] for name in dict.fromkeys(names or BY_NAME)]


def _named(mechanisms: Sequence[ScramMechanism], conjunction: str = "and") -> str:
    return f" {conjunction} ".join(each.mechanism for each in mechanisms)


def _give(
    place: Place, user: str, names: list[str] | None, iterations: int, password_file: Path | None
) -> None:
    mechanisms = _mechanisms(names)
    if (wrong := wrong_iterations(iterations)) is not None:
        raise CommandError(
            f"--iterations {iterations}: {wrong.lower()}; choose 4096 to 16384", USAGE
        )
    try:
        password = _password(user, password_file).encode()
    except UnicodeError:  # the error's text contains the password
        raise CommandError(f"the password for {user} is not UTF-8", USAGE) from None
    salted = []
    for each in mechanisms:
        salt = salt_of(fresh_number(SALT_BITS))
        hashed = each.salted_password(password, salt, iterations)
        salted.append(Salted(each, iterations, salt, hashed))
    place.put(user, salted)


def _password(user: str, file: Path | None) -> str:
    """Returns the password from a file, the terminal or standard input. An option with the password
    would be visible in the process list and in the shell's history."""
    if file is not None:
        with file.open() as lines_of_it:
            lines = lines_of_it.readline(PASSWORD_CHARACTERS_MAX).splitlines()
    elif sys.stdin.isatty():
        lines = answer(
            lambda: [
                typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
            ],
            "nothing was changed; --password-file FILE reads the password from a file",
        )
    else:
        lines = sys.stdin.readline(PASSWORD_CHARACTERS_MAX).splitlines()
    if not lines or not lines[0]:
        raise CommandError(f"the password for {user} is empty", USAGE)
    return str(lines[0])
