"""Matches the names and patterns (such as 'test-*') in arguments against existing names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple


class Chosen(NamedTuple):
    """The names that matched, without duplicates, and the arguments that matched nothing."""

    names: list[str]
    missing: list[str]


def is_pattern(text: str) -> bool:
    """Returns True if ``text`` contains ``*``, ``?`` or ``[``, as shell patterns do."""
    return any(sign in text for sign in "*?[")


def nearest(missing: Sequence[str], known: Collection[str]) -> str | None:
    """Returns the known name that is most similar to the first missing name; None if no name is
    similar."""
    plain = [name for name in missing if not is_pattern(name)]
    return next(iter(get_close_matches(plain[0], known, 1, 0.75)), None) if plain else None


def spelled(missing: Sequence[str], noun: str) -> str:
    """Returns missing names and patterns as text, such as ``group a, b and groups like x*``."""
    plain = ", ".join(name for name in missing if not is_pattern(name))
    patterns = ", ".join(name for name in missing if is_pattern(name))
    parts = [f"{noun} {plain}" if plain else "", f"{noun}s like {patterns}" if patterns else ""]
    return " and ".join(filter(None, parts))


def chosen(wanted: Sequence[str], known: Collection[str], hidden: Collection[str] = ()) -> Chosen:
    """Returns the known names that match. A pattern does not match the names in ``hidden``. An
    argument that equals a known name matches only this name, even if it contains ``*``."""
    names: dict[str, None] = {}
    missing = []
    for text in wanted:
        if text in known:
            found = [text]
        elif is_pattern(text):
            found = sorted(n for n in known if n not in hidden and fnmatchcase(n, text))
        else:
            found = []
        names.update(dict.fromkeys(found))
        if not found:
            missing.append(text)
    return Chosen(list(names), missing)
