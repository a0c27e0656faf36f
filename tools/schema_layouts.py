"""Reads the layouts in Kafka's schemas, and describes the changes between versions, for
``make_messages.py``.

A layout is the list of fields of one version.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

Layout = list[list[Any]]


class Entry(NamedTuple):
    """A field of a layout."""

    name: str
    type: Any
    tag: int | None


def entries(layout: Layout) -> Iterator[Entry]:
    """Yields the fields of a struct in one version. Tagged fields are last."""
    for name, type_ in layout:
        if name == "_tagged_fields":
            for tag, (tagged_name, tagged_type) in type_["tags"].items():
                yield Entry(tagged_name, tagged_type, int(tag))
        else:
            yield Entry(name, type_, None)


def is_flexible(layout: Layout) -> bool:
    """Returns True if the struct ends with tagged fields."""
    return any(name == "_tagged_fields" for name, _ in layout)


def element_of(type_: Any) -> Any:
    """Returns the element type of an array type, or None for any other type."""
    if isinstance(type_, dict):
        return type_.get("array", type_.get("compactArray"))
    return None


def base_of(type_: Any) -> str:
    """Returns a type without its compactness and nullability, such as STRING or array of struct."""
    if isinstance(type_, list):
        return "struct"
    if isinstance(type_, dict):
        return f"array of {base_of(element_of(type_))}"
    return re.sub("COMPACT_|NULLABLE_", "", type_)


def paths(layout: Layout, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields the dotted path and the type of every field in a layout. The type does not show
    whether the field is compact."""
    for entry in entries(layout):
        nullable = isinstance(entry.type, dict) and entry.type["nullable"]
        nullable = nullable or (isinstance(entry.type, str) and "NULLABLE" in entry.type)
        said = base_of(entry.type) + (" or null" if nullable else "")
        yield prefix + entry.name, said.replace("RECORDS or null", "RECORDS")
        inner = entry.type if isinstance(entry.type, list) else element_of(entry.type)
        if isinstance(inner, list):
            yield from paths(inner, f"{prefix}{entry.name}.")


def changes(old: Layout, new: Layout) -> list[str]:
    """Returns the fields that were added, removed or changed from ``old`` to ``new``, as text."""
    before, after = dict(paths(old)), dict(paths(new))
    added = [path for path in after if path not in before]
    gone = [path for path in before if path not in after]
    both = [path for path in after if path in before and before[path] != after[path]]
    words = []
    for text, listed in (("adds", added), ("drops", gone), ("changes", both)):
        # The fields inside an added or removed struct are not listed.
        outer = [p for p in listed if not any(p.startswith(f"{other}.") for other in listed)]
        if outer:
            words.append(f"{text} {', '.join(outer)}")
    return words


def history(versions: dict[int, dict[str, Any]], parts: list[str]) -> str:
    """Returns one comment line for each version, with its changes."""
    lines = []
    for version, now in versions.items():
        words = []
        before = versions.get(version - 1)
        if before is None:
            words.append("the first known")
        else:
            for part in parts:
                prefix = f"{part} " if len(parts) > 1 else ""
                words += [prefix + word for word in changes(before[part], now[part])]
            if is_flexible(now[parts[0]]) and not is_flexible(before[parts[0]]):
                words.append("flexible")
        said = "; ".join(words) or "the same on the wire"
        lines += textwrap.wrap(
            f"# v{version}: {said}", 98, subsequent_indent="#     ", break_long_words=False
        )
    return "\n".join(lines)
