"""Formats commands that users copy, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def command(verb: str, what: str | Sequence[str], *options: str) -> str:
    """Returns a command that is quoted for a shell. If a name looks like an option, the names
    follow ``--``."""
    names = [what] if isinstance(what, str) else list(what)
    quoted = [word(name) for name in names]
    if any(name.startswith("-") for name in names):
        return " ".join(["muster", verb, *options, "--", *quoted])
    return " ".join(["muster", verb, *quoted, *options])


def word(name: str) -> str:
    """Returns a name as one shell word. Unprintable characters are escaped in bash's syntax."""
    if name.isprintable():
        return shlex.quote(name)
    return "$'" + "".join([_spelled(character) for character in name]) + "'"


def _spelled(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join([f"\\x{byte:02x}" for byte in character.encode("utf-8", "replace")])
