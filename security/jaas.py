"""Parses ``sasl.jaas.config``: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="broker" password="secret" user_broker="secret" user_alice="hers";

Source: Kafka 3.9 ``JaasConfig``, whose tokens are the tokens of Java's ``StreamTokenizer``. Error
messages do not contain values, because options are mostly passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
      | "(?P<quoted>(?:[^"\\\n]|\\.)*)"
      | (?P<word>[A-Za-z_$\-.\u00a0-\uffff][\w$\-.\u00a0-\uffff]*)
      | (?P<sign>[=;])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not a valid login module. The message shows no values."""


class LoginModule(NamedTuple):
    """One login module. Its options contain secrets, so only the names of options may be shown."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, {sorted(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Returns the login module in a value of ``sasl.jaas.config``. Raises JaasError."""
    words = _Words(text)
    module = words.word("the name of a login module")
    flag = words.word(f"the flag ({', '.join(FLAGS)})")
    if flag.lower() not in FLAGS:
        raise JaasError(f"{flag!r:.20} after {module} is not one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    while (name := words.next()) != (";", "sign"):
        if name is None or name[1] == "sign":
            raise JaasError(f"expected a semicolon after the options of {module}")
        if words.next() != ("=", "sign"):
            raise JaasError(f"expected = and a value after the option {name[0]}")
        options[name[0]] = words.word(f"the quoted value of the option {name[0]}")
    if words.next() is not None:
        raise JaasError("only one login module is allowed: remove the text after the semicolon")
    return LoginModule(module, options)


class _Words:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)

    def next(self) -> tuple[str, str] | None:
        return next(self._tokens, None)

    def word(self, what: str) -> str:
        token = self.next()
        if token is None or token[1] == "sign":
            raise JaasError(f"{what} is missing")
        return token[0]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(
                f"unexpected character at position {position + 1}: put values in quotes"
            )
        position = found.end()
        kind = found.lastgroup
        assert kind is not None
        if kind == "quoted":
            yield _ESCAPE.sub(_unescaped, found["quoted"]), kind
        elif kind != "blank":
            yield found[kind], kind


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)
