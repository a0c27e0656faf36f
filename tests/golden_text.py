"""Golden conversations with pure cores: text files that contain calls and their expected results.

A line ``> ...`` is a call. The lines after it, indented by four spaces, are its results. Lines
``config ...`` before the first call are settings. ``make golden`` rewrites the results.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar


@dataclass
class Words:
    """The words of a line, and the options of the line in the form ``key=value``."""

    plain: list[str]
    options: dict[str, str] = field(default_factory=dict)

    def number(self, key: str, default: int) -> int:
        return int(self.options.get(key, default))

    def optional(self, key: str, default: str | None = None) -> str | None:
        return self.options.get(key, default)


def words_of(line: str, options: re.Pattern[str]) -> Words:
    """Splits a line into words. A word ``key=value`` is an option if ``options`` matches its
    key."""
    words = Words([])
    for word in shlex.split(line):
        key, equals, value = word.partition("=")
        if equals and options.fullmatch(key):
            words.options[key] = value
        else:
            words.plain.append(word)
    return words


def partitions_of(words: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Parses words such as ``t/0 t/1 u/0``. Returns each topic with its partitions."""
    topics: dict[str, list[int]] = {}
    for word in words:
        topic, _, partition = word.partition("/")
        topics.setdefault(topic, []).append(int(partition))
    return list(topics.items())


class Speaks(Protocol):
    """The interface of a core under test, which executes the calls of a conversation."""

    def say(self, line: str) -> list[str]:
        """Executes one call and returns its results as lines of text."""


SpeaksT = TypeVar("SpeaksT", bound=Speaks)


def run_text(text: str, begin: Callable[[dict[str, int]], SpeaksT]) -> tuple[str, SpeaksT]:
    """Runs the calls in ``text``. Returns the text with the current results of these calls, and the
    core that executed the calls."""
    config: dict[str, int] = {}
    conversation: SpeaksT | None = None
    written: list[str] = []
    for line in text.splitlines():
        if line.startswith("config "):
            assert conversation is None, "config lines come first"
            for setting in line.split()[1:]:
                name, _, value = setting.partition("=")
                config[name] = int(value)
            written.append(line)
        elif line.startswith("> "):
            conversation = conversation or begin(config)
            written.append(line)
            written += [f"    {said}" for said in conversation.say(line[2:])]
        elif not line.startswith("    "):
            written.append(line)
    assert conversation is not None, "a conversation has at least one call"
    return "\n".join(written) + "\n", conversation
