"""Checks which groups match the names and patterns in options. In a pattern, ``*`` means any
characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.engines.dialect import Dialect


def where_named(d: Dialect, groups: Sequence[str]) -> str:
    """Return the SQL condition that the row's `group_id` matches one of ``groups``, which are names
    or patterns."""
    names = [group for group in groups if "*" not in group]
    found = [f"group_id IN ({', '.join(map(d.text, names))})"] if names else []
    for pattern in sorted(set(groups) - set(names)):
        like = re.sub(r"([!%_])", r"!\1", pattern).replace("*", "%")
        found.append(f"group_id LIKE {d.text(like)} ESCAPE '!'")
    return f"coalesce({' OR '.join(found) or 'false'}, false)"


def means(pattern: str, name: str) -> bool:
    return re.fullmatch(regex(pattern), name) is not None


def regex(pattern: str) -> str:
    """Convert a pattern with ``*`` to a regular expression for Java and Python."""
    return ".*".join(re.sub(r"([^\w\s])", r"\\\1", part) for part in pattern.split("*"))
