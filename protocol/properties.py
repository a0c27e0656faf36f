"""Java's properties format, as far as server.properties, meta.properties and files of clients need
it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SPLIT = re.compile(r"(?<!\\)(?:\\\\)*(?:[ \t\f]*[=:]|[ \t\f])[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Returns the pairs of a properties file. A repeated key has its last value.

    ``key=value``, ``key: value`` and ``key value`` are pairs. ``#`` and ``!`` begin a comment. A
    backslash at the end of a line joins it with the next line. Source:
    ``java.util.Properties.load``.
    """
    pairs: dict[str, str] = {}
    for line in _logical_lines(text):
        found = _SPLIT.search(line)
        if found is None:
            key, value = line, ""
        else:
            key, value = line[: found.start()], line[found.end() :]
            # Escaped backslashes in the match belong to the key.
            key += line[found.start() : found.end()].rstrip(" \t\f=:")
        pairs[_unescape(key)] = _unescape(value)
    return pairs


def render(pairs: Mapping[str, str]) -> str:
    """Returns the text of a properties file, from which `parse` returns the same pairs."""
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in text.splitlines():
        stripped = line.lstrip(" \t\f")
        if not joined and (not stripped or stripped[0] in "#!"):
            continue
        joined += stripped
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    what = found[1]
    if len(what) == 5:
        return chr(int(what[1:], 16))
    return _LETTERS.get(what, what)
