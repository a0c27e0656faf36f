"""What a reader is not to see, taken out of what is shown of something that he may see.

A group that one may describe has offsets in topics that one may not, and sentences about them; a
transaction has partitions of them and groups that wait. Rows about them go, names in lists go, and
in sentences a word stands in place of a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from broker.web.readers import Reader

HIDDEN: Final = "(hidden)"
_TOPIC, _GROUP, _ID = "topic", "group", "id"
_KIND_OF: Final[Mapping[str, str]] = {
    "topic": _TOPIC,
    "topics": _TOPIC,
    "group": _GROUP,
    "groups": _GROUP,
    "id": _ID,
    "transactional_id": _ID,
}
"""Field -> whose names it has."""
_KIND_OF_TYPE: Final[Mapping[str, str]] = {
    "Topic": _TOPIC,
    "Group": _GROUP,
    "TransactionalId": _ID,
}
"""What the ``name`` beside a ``resource_type`` is of."""
_BY_TOPIC: Final = "partitions"
"""A field that may be an object with topics for its fields' names."""


def redacted(
    reader: Reader, view: Any, topics: Iterable[str] = (), groups: Iterable[str] = ()
) -> Any:
    """A view without what the reader may not see; ``topics`` and ``groups`` may be named in it."""
    if reader.sees_everything:
        return view
    named: dict[str, set[str]] = {_TOPIC: set(topics), _GROUP: set(groups), _ID: set()}
    for kind, name in _names(view):
        named[kind].add(name)
    sees: dict[str, Callable[[str], bool]] = {
        _TOPIC: reader.sees_topic,
        _GROUP: reader.sees_group,
        _ID: reader.sees_transactional_id,
    }
    hidden = {
        kind: frozenset(name for name in names if not sees[kind](name))
        for kind, names in named.items()
    }
    if not any(hidden.values()):
        return view
    words = _words(chain.from_iterable(hidden.values()))
    return _without(view, "", hidden, words)


def _names(view: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Every name in a view, with its kind."""
    if isinstance(view, dict):
        kind, name = _resource(view)
        if kind:
            yield kind, name
        for key, value in view.items():
            if field == _BY_TOPIC:
                yield _TOPIC, key
            yield from _names(value, key)
    elif isinstance(view, list):
        for each in view:
            yield from _names(each, field)
    elif isinstance(view, str) and field in _KIND_OF:
        yield _KIND_OF[field], view


def _resource(view: dict[str, Any]) -> tuple[str, str]:
    """The resource that a row is about, such as a denial; "" for none."""
    kind, name = _KIND_OF_TYPE.get(view.get("resource_type", ""), ""), view.get("name")
    return (kind, name) if isinstance(name, str) else ("", "")


def _words(names: Iterable[str]) -> re.Pattern[str]:
    """A name that stands by itself in a sentence, or with the number of a partition."""
    one_of = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.-])(?:{one_of})(?=(?:[-:]\d[\d,-]*)?(?![\w-]|\.\w))")


Hidden = Mapping[str, frozenset[str]]


def _without(view: Any, field: str, hidden: Hidden, words: re.Pattern[str]) -> Any:
    if isinstance(view, dict):
        kind, name = _resource(view)
        is_hidden = bool(kind) and name in hidden[kind]
        named_so = {"name": None, "resource": HIDDEN} if is_hidden else {}
        shown = {
            key: _without(value, key, hidden, words)
            for key, value in view.items()
            if not (field == _BY_TOPIC and key in hidden[_TOPIC])
        }
        return {**shown, **named_so}
    if isinstance(view, list):
        return [
            _without(each, field, hidden, words) for each in view if not _is_of(each, field, hidden)
        ]
    if not isinstance(view, str):
        return view
    if field in _KIND_OF:
        return None if view in hidden[_KIND_OF[field]] else view
    # States, verdicts and the names of clients are one word, and stay as they are.
    return words.sub(HIDDEN, view) if " " in view else view


def _is_of(each: Any, field: str, hidden: Hidden) -> bool:
    """Whether a row, or a name in a list, is of what is hidden; a holder without its id stays."""
    if isinstance(each, dict):
        return each.get("topic") in hidden[_TOPIC] or each.get("group") in hidden[_GROUP]
    return isinstance(each, str) and field in _KIND_OF and each in hidden[_KIND_OF[field]]
