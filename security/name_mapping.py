"""``ssl.principal.mapping.rules``: from the subject of a client's certificate to a user's name.

    RULE:^CN=(.*?),OU=Services.*$/$1/L, RULE:^CN=(.*?),.*$/$1/, DEFAULT

The first rule whose pattern matches the whole name makes the user's name; DEFAULT takes the name
as it is. Who matches no rule is nobody, and is not let in. Source: KIP-371, Kafka 3.9
``SslPrincipalMapper``. Patterns are RE2's, which is Java's dialect without look-around,
back-references and possessive quantifiers: no name takes long to match.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re2

NAME_CHARS_MAX = 4096
"""Of a distinguished name; a longer one matches no rule."""

_PART = r"(?:\\.|[^\\/])*"
_RULE = re.compile(
    rf"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE = re.compile(r"\\(.)|\$(\d)(\d*)", re.DOTALL)


class _Rule(NamedTuple):
    pattern: re2._Regexp | None
    """None: DEFAULT."""
    replacement: str
    case: str

    def map(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = _replaced(self.pattern, name, self.replacement)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class MappingRules:
    """The rules of one listener, in their order."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._rules = rules

    def map(self, distinguished_name: str) -> str | None:
        """The user's name, or None where no rule matches. The name as Java writes it (RFC 2253)."""
        if len(distinguished_name) > NAME_CHARS_MAX:
            return None
        mapped = (rule.map(distinguished_name) for rule in self._rules)
        return next((name for name in mapped if name is not None), None)


def parse_mapping_rules(text: str) -> MappingRules:
    """The rules of the setting. ValueError, as a sentence, for what is none."""
    rules: list[_Rule] = []
    position = 0
    while text[position:].strip():
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(
                f"at {text[position : position + 40]!r} comes neither DEFAULT nor"
                " RULE:pattern/replacement/ with L or U behind it, and a comma before the next"
            )
        position = found.end()
        if found["default"]:
            rules.append(_Rule(None, "", ""))
            continue
        import re2  # most listeners have no pattern, and a start without one does not wait for it

        pattern = found["pattern"].replace(r"\/", "/")
        try:
            compiled = re2.compile(pattern)
        except re2.error as error:
            said = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
            raise ValueError(f"the pattern {pattern!r} can't be used: {said}") from None
        rules.append(_Rule(compiled, found["replacement"].replace(r"\/", "/"), found["case"]))
    return MappingRules(rules or [_Rule(None, "", "")])


def _replaced(pattern: re2._Regexp, name: str, replacement: str) -> str:
    """All matches replaced, as Java's ``replaceAll`` does it."""

    def expanded(found: re2._Match) -> str:
        def reference(part: re.Match[str]) -> str:
            if part[1] is not None:
                return str(part[1])
            group, rest = int(part[2]), part[3]
            if group > pattern.groups:
                return part[0]
            # As many digits as still name a group, as Java reads them.
            while rest and group * 10 + int(rest[0]) <= pattern.groups:
                group, rest = group * 10 + int(rest[0]), rest[1:]
            return (found[group] or "") + rest

        return _REFERENCE.sub(reference, replacement)

    return str(pattern.sub(expanded, name))
