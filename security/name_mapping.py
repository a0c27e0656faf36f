"""``ssl.principal.mapping.rules``: maps the subject of a client's certificate to a user's name.

    RULE:^CN=(.*?),OU=Services.*$/$1/L, RULE:^CN=(.*?),.*$/$1/, DEFAULT

The first rule whose pattern matches the whole subject determines the user's name. DEFAULT uses the
subject unchanged. A client whose subject matches no rule is rejected. Source: KIP-371, Kafka 4.3.1
``SslPrincipalMapper``.

Patterns are those of RE2. This is Java's dialect without look-around, back-references and
possessive quantifiers, so that every match is fast. The broker does not start with a rule that Java
would interpret differently, because it could map to a wrong user. It does not start either with a
rule that would fail for every subject.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re2

NAME_CHARS_MAX = 4096
"""The maximum length of a distinguished name in characters. A longer name matches no rule."""

_BREAKS = frozenset("\r\x85\u2028\u2029")
"""Line terminators that RE2's dot matches, but Java's dot does not. A name with such a character
matches no pattern."""
_PART = r"(?:\\.|[^\\/])*"
_RULE = re.compile(
    rf"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_EMPTY = re.compile(r"\s*,")
_REFERENCE = re.compile(r"\\(.)|\$(?:(\d)(\d*)|\{(\w+)\})|(\$)", re.DOTALL)
_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class _Rule(NamedTuple):
    pattern: re2._Regexp | None
    """The pattern of a RULE; None for DEFAULT."""
    replacement: list[str | int]
    """The parts of the replacement: literal texts, and numbers of the pattern's capture groups."""
    case: str

    def map(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not _BREAKS.isdisjoint(name) or self.pattern.fullmatch(name) is None:
            return None
        mapped = str(self.pattern.sub(self._expanded, name))  # all matches, like Java
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _expanded(self, found: re2._Match) -> str:
        return "".join(
            part if isinstance(part, str) else found[part] or "" for part in self.replacement
        )


class MappingRules:
    """The rules of one listener, in order."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._rules = rules

    def map(self, distinguished_name: str) -> str | None:
        """Returns the user's name; None if no rule matches. ``distinguished_name`` is in Java's
        format (RFC 2253)."""
        if len(distinguished_name) > NAME_CHARS_MAX:
            return None
        mapped = (rule.map(distinguished_name) for rule in self._rules)
        return next((name for name in mapped if name is not None), None)


def parse_mapping_rules(text: str) -> MappingRules:
    """Parses a value of ``ssl.principal.mapping.rules``. Raises ValueError with a message for users
    if a rule is invalid."""
    rules: list[_Rule] = []
    position = 0
    while text[position:].strip():
        empty = _EMPTY.match(text, position)
        if empty is not None:  # Kafka ignores an empty rule
            position = empty.end()
            continue
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(
                f"unexpected text at {text[position : position + 40]!r}: write rules"
                " separated by commas: DEFAULT, or RULE:pattern/replacement/ with an"
                " optional L or U"
            )
        position = found.end()
        if found["default"]:
            rules.append(_Rule(None, [], ""))
            continue
        pattern = _compiled(found["pattern"].replace(r"\/", "/"))
        parts = _parts(found["replacement"].replace(r"\/", "/"), pattern)
        rules.append(_Rule(pattern, parts, found["case"]))
    if not rules:
        raise ValueError(
            "no rule is set, so every client would be rejected; to accept all names, set DEFAULT"
        )
    return MappingRules(rules)


def _compiled(pattern: str) -> re2._Regexp:
    import re2  # imported only if a listener has a pattern: it slows the start

    for found in _CLASS.finditer(pattern):
        inner = re.sub(r"\\.", "", found[0][1:])
        if "[" in inner or "&&" in inner:
            raise ValueError(
                f"the pattern {pattern!r} can't be used: only Java supports the combined"
                f" character classes in {found[0]!r}; write a single class"
            )
    try:
        return re2.compile(pattern)
    except re2.error as error:
        said = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"the pattern {pattern!r} can't be used: {said}") from None


def _parts(replacement: str, pattern: re2._Regexp) -> list[str | int]:
    """Parses a replacement in the same way as Java. Returns the literal texts and the group numbers
    in it. Raises ValueError for a replacement with which Java fails for every name."""
    parts: list[str | int] = []
    end = 0
    for found in _REFERENCE.finditer(replacement):
        parts.append(replacement[end : found.start()])
        end = found.end()
        literal, digit, digits, name, _ = found.groups()
        if literal is not None:
            parts.append(literal)
        elif digit is not None and (pattern.groups or digit == "0"):
            parts += _numbered(int(digit), digits, pattern.groups)
        elif name in pattern.groupindex:
            parts.append(pattern.groupindex[name])
        else:
            raise ValueError(
                f"the replacement {replacement!r} refers to {found[0]!r}, a group that the"
                " pattern does not have; for a dollar sign, write"
                r" \$"
            )
    return [*parts, replacement[end:]]


def _numbered(group: int, digits: str, groups: int) -> list[str | int]:
    """Parses a reference to a group, such as ``$12``. Returns the number of the group, and the
    digits after this number, which are literal text. The number has as many digits as possible:
    with 3 groups, ``$12`` is group 1 and the text ``2``. If the group does not exist, the whole
    reference is literal text."""
    if group > groups:
        return [f"${group}{digits}"]
    while digits and group * 10 + int(digits[0]) <= groups:
        group, digits = group * 10 + int(digits[0]), digits[1:]
    return [group, digits]
