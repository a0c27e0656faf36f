"""Names as people write them: as they are, or as a pattern, such as 'test-*'."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple


class Chosen(NamedTuple):
    """What patterns chose, in order and once each, and those that chose nothing."""

    names: list[str]
    missing: list[str]


def is_pattern(text: str) -> bool:
    """Whether ``text`` stands for many names: ``*``, ``?`` and ``[ab]`` as in a shell."""
    return any(sign in text for sign in "*?[")


def nearest(missing: Sequence[str], known: Collection[str]) -> str | None:
    """The known name that is most like the first missing one, where one is."""
    plain = [name for name in missing if not is_pattern(name)]
    return next(iter(get_close_matches(plain[0], known, 1, 0.75)), None) if plain else None


def spelled(missing: Sequence[str], noun: str) -> str:
    """What is not there, for an error: ``group a, b and groups like x*``."""
    plain = ", ".join(name for name in missing if not is_pattern(name))
    patterns = ", ".join(name for name in missing if is_pattern(name))
    parts = [f"{noun} {plain}" if plain else "", f"{noun}s like {patterns}" if patterns else ""]
    return " and ".join(filter(None, parts))


def chosen(wanted: Sequence[str], known: Collection[str], hidden: Collection[str] = ()) -> Chosen:
    """The known names that are wanted; a pattern chooses none that is ``hidden``.

    A name that is there is taken as it is, whatever signs it has.
    """
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
