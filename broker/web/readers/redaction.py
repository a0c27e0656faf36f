"""Removes data from a view if the reader may not see it.

A reader may be allowed to see a group, but not all topics in which the group has offsets. The same
is true of a transaction: it may include hidden topics and block hidden groups. Rows about hidden
topics and groups are removed, their names are removed from lists, and `HIDDEN` replaces their names
in sentences.

A sentence is read word by word, and the right to see a name is checked only when the name occurs. A
group may have thousands of topics, but its sentences name only a few.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from broker.web.readers.reader import Reader

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
"""By field name: the kind of the names in the field, such as names of topics."""
_KIND_OF_TYPE: Final[Mapping[str, str]] = {
    "Topic": _TOPIC,
    "Group": _GROUP,
    "TransactionalId": _ID,
}
"""For an object with the fields ``resource_type`` and ``name``: the kind of the name, by the value
of ``resource_type``."""
_BY_TOPIC: Final = "partitions"
"""The field that may contain an object whose keys are topics."""
_WORD: Final = re.compile(r"[\w.-]+")
"""Matches a word in a sentence. Every topic name is one word; most group ids and transactional ids
are one word."""
_BY_ITSELF: Final = re.compile(r"(?:[-:]\d[\d,-]*)?(?![\w-]|\.\w)")
"""Matches the text that may follow a whole name in a sentence: optional partition numbers, and then
the end of the word."""
_HERE: Final = "\0"
"""A placeholder for hidden names while a text is searched for names. Afterwards `HIDDEN` replaces
the placeholder. `HIDDEN` can't be used from the start, because the search could find names in its
words."""

Row = dict[str, Any]


def redacted(
    reader: Reader, view: Any, topics: Iterable[str] = (), groups: Iterable[str] = ()
) -> Any:
    """Returns ``view``, a JSON value for the HTTP page, without the data that the reader may not
    see. ``topics`` and ``groups`` are names that may occur in the texts of ``view``."""
    return Redaction(reader, topics, groups).of(view)


class Redaction:
    """Removes from several views the data that one reader may not see. For each name, it checks
    only once whether the reader may see the name. Therefore use one object only for views that are
    shown at about the same time, such as the rows of one group."""

    def __init__(
        self, reader: Reader, topics: Iterable[str] = (), groups: Iterable[str] = ()
    ) -> None:
        """``topics`` and ``groups`` are names that sentences of a response may contain. The names
        in the response's own fields need not be passed."""
        self._hidden = None if reader.sees_everything else _Hidden(reader, topics, groups)

    def of(self, view: Any) -> Any:
        hidden = self._hidden
        if hidden is None:
            return view
        for kind, name in _names(view):
            hidden.add(kind, name)
        return _without(view, "", hidden)

    def rows(self, rows: Iterator[Row | None]) -> Iterator[Row | None]:
        """Yields rows without the data that the reader may not see. Yields None for a hidden
        row."""
        hidden = self._hidden
        for row in rows:
            if hidden is not None and row is not None and _is_of(row, "", hidden):
                yield None
            else:
                yield self.of(row)


class _Hidden:
    """Finds the names in an HTTP response that the reader may not see."""

    def __init__(self, reader: Reader, topics: Iterable[str], groups: Iterable[str]) -> None:
        self._named = {_TOPIC: set(topics), _GROUP: set(groups), _ID: set[str]()}
        self._all = (self._named[_TOPIC] | self._named[_GROUP]) - {""}
        self._lengths = sorted(set(map(len, self._all)))
        self._phrases = sorted(filter(_is_phrase, self._named[_GROUP]), key=len, reverse=True)
        """The group ids and transactional ids that consist of several words. The longest one is
        first."""
        self._sees: Mapping[str, Callable[[str], bool]] = {
            _TOPIC: reader.sees_topic,
            _GROUP: reader.sees_group,
            _ID: reader.sees_transactional_id,
        }
        self._known: dict[tuple[str, str], bool] = {}

    def add(self, kind: str, name: str) -> None:
        self._named[kind].add(name)
        if name in self._all or not name:
            return
        self._all.add(name)
        at = bisect_left(self._lengths, len(name))
        if self._lengths[at : at + 1] != [len(name)]:
            self._lengths.insert(at, len(name))
        if kind != _TOPIC and _is_phrase(name):
            self._phrases.append(name)
            self._phrases.sort(key=len, reverse=True)

    def hides(self, kind: str, name: object) -> bool:
        if not isinstance(name, str):
            return False
        hidden = self._known.get((kind, name))
        if hidden is None:
            hidden = self._known[kind, name] = not self._sees[kind](name)
        return hidden

    def from_sentence(self, text: str) -> str:
        """Returns the sentence with `HIDDEN` in place of each hidden name. A name counts only if it
        is a whole word or if a partition number follows it."""
        for name in self._phrases:
            if name in text and self._hides_any(name):
                text = _without_phrase(text, name)
        return _WORD.sub(self._shown, text).replace(_HERE, HIDDEN)

    def _shown(self, found: re.Match[str]) -> str:
        """Returns the matched word. If the word begins with a hidden name, a placeholder replaces
        the longest such name."""
        word, end = found.group(), 0
        for length in self._lengths:
            if length > len(word):
                break
            name = word[:length]
            if (
                name in self._all
                and _BY_ITSELF.match(found.string, found.start() + length)
                and self._hides_any(name)
            ):
                end = length
        return f"{_HERE}{word[end:]}" if end else word

    def _hides_any(self, name: str) -> bool:
        return any(name in names and self.hides(kind, name) for kind, names in self._named.items())


def _is_phrase(name: str) -> bool:
    """Returns True if a group id or transactional id has more than one word. Topic names always
    have one word."""
    return bool(name) and _WORD.fullmatch(name) is None


def _without_phrase(text: str, name: str) -> str:
    pieces, done = [], 0
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (at and _WORD.match(text[at - 1])) and _BY_ITSELF.match(text, end):
            pieces.append(text[done:at])
            done = end
        else:
            end = at + 1
        at = text.find(name, end)
    return _HERE.join([*pieces, text[done:]])


def _names(view: Any, field: str = "") -> Iterator[tuple[str, str]]:
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
    """Returns the kind and name of the resource in a row, for example of a denial. Returns "" if
    the row has no resource."""
    kind, name = _KIND_OF_TYPE.get(view.get("resource_type", ""), ""), view.get("name")
    return (kind, name) if isinstance(name, str) else ("", "")


def _without(view: Any, field: str, hidden: _Hidden) -> Any:
    if isinstance(view, dict):
        kind, name = _resource(view)
        named_so = {"name": None, "resource": HIDDEN} if kind and hidden.hides(kind, name) else {}
        shown = {
            key: _without(value, key, hidden)
            for key, value in view.items()
            if not (field == _BY_TOPIC and hidden.hides(_TOPIC, key))
        }
        return {**shown, **named_so}
    if isinstance(view, list):
        return [_without(each, field, hidden) for each in view if not _is_of(each, field, hidden)]
    if not isinstance(view, str):
        return view
    if field in _KIND_OF:
        return None if hidden.hides(_KIND_OF[field], view) else view
    # States, verdicts and the names of clients are one word, and stay unchanged.
    return hidden.from_sentence(view) if " " in view else view


def _is_of(each: Any, field: str, hidden: _Hidden) -> bool:
    """Returns True if ``each`` must be hidden. If ``each`` is a row, it is hidden because its topic
    or group is hidden. Otherwise it is a name in the list ``field``, and it is hidden if the reader
    may not see this name. A row with a hidden transactional id is shown without the id."""
    if isinstance(each, dict):
        return hidden.hides(_TOPIC, each.get("topic")) or hidden.hides(_GROUP, each.get("group"))
    return field in _KIND_OF and hidden.hides(_KIND_OF[field], each)
