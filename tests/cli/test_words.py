"""If a user enters a command of another Kafka tool, the error names the corresponding `muster`
command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.errors import USAGE
from cli.main import _every_command
from cli.words import AFTER, ANYWHERE, TOOLS, instead
from tests.cli.running import run

PAGE = (Path(__file__).parents[2] / "docs" / "use" / "command-line.md").read_text()
COMMANDS = _every_command()
SENTENCES = [
    *ANYWHERE.values(),
    *(told for words in AFTER.values() for told in words.values()),
    *(told for options in TOOLS.values() for told in options.values()),
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_muster_command_suggested_for_a_command_of_another_tool_exists(sentence: str) -> None:
    nouns = {name.split()[0] for name in COMMANDS} | {"COMMAND"}
    for named in re.findall(r"`muster ([^`]+)`", sentence):
        noun, *more = named.split()
        assert noun in nouns or noun.startswith("--"), named
        below = [name.split()[1] for name in COMMANDS if name.startswith(f"{noun} ")]
        if below and more and more[0][0] != "-":
            assert more[0] in below, named


def test_no_muster_command_is_listed_as_a_command_of_another_tool() -> None:
    after = {f"{noun} {word}" for noun, words in AFTER.items() for word in words}

    assert not after & set(COMMANDS)
    assert not ANYWHERE.keys() & {name.split()[0] for name in COMMANDS}


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("topics alter orders -p 6", "`muster topics grow` adds partitions, `muster configs set`"),
        ("groups alter", "`muster groups reset` moves offsets"),
        ("configs alter", "`muster configs set`"),
        ("alter", "`muster topics grow` adds partitions, `muster configs set` changes settings,"),
        ("fix", "`muster groups why` shows problems of a group"),
        ("groups fix billing", "`muster groups reset` moves offsets"),
        ("offline", "offline partitions (without a leader)"),
        ("offsets backup", "`muster backup create` saves topics, settings and offsets"),
        ("lag", "`muster groups lag`, `muster pipeline lag`"),
        ("rm", "`muster topics delete`, `muster groups delete` and `muster offsets delete`"),
        ("kafka-consumer-groups.sh --describe --group g", "`muster groups describe GROUP`"),
        ("kafka-consumer-groups --describe --members", "`muster groups members GROUP`"),
        ("kafka-topics --list", "`muster topics list`"),
        ("kafka-configs --alter --entity-type users", "`muster users` changes passwords"),
        ("kafka-configs --alter --client billing", "`muster quotas`"),
        ("kafka-configs --describe --entity-type ips", "`muster quotas`"),
        ("kafka-configs --alter --entity-type topics", "`muster configs set`"),
        ("kafka-delegation-tokens --create", "use Apache Kafka's tool"),
        ("consumer-groups --reset-offsets", "`muster groups reset`"),
        ("kafka-console-consumer --topic t", "`muster consume`"),
        ("kafka-dump-log.bat --files x", "`muster logs dump`"),
    ],
)
def test_error_about_a_command_of_another_tool_names_the_muster_command(
    line: str, told: str
) -> None:
    done = run(*line.split())

    assert done.code == USAGE
    assert done.out == ""
    assert done.err.startswith("muster: `muster ")
    assert told in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "near"),
    [("groups descibe", "describe"), ("topic list", "topics"), ("grups", "groups")],
)
def test_error_about_a_mistyped_command_suggests_a_command(line: str, near: str) -> None:
    done = run(*line.split())

    assert done.code == USAGE
    assert f"Did you mean '{near}'" in done.err


def test_error_about_a_command_that_resembles_no_command_suggests_no_command() -> None:
    assert instead("groups", "xyzzy", [], COMMANDS) is None
    assert instead("", "kafka-xyzzy", [], COMMANDS) is None
    assert "No such command 'xyzzy'; see muster --help" in run("xyzzy").err


def test_command_line_page_lists_every_kafka_tool() -> None:
    rows = dict(re.findall(r"^\| `kafka-([a-z-]+)` \| (.*) \|$", PAGE, re.MULTILINE))

    assert rows == {tool: _row(options) for tool, options in TOOLS.items()}


def _row(options: dict[str, str]) -> str:
    more = [f"`{option}`: {told}" for option, told in options.items() if option]
    return "; ".join(more or [options[""]])


@pytest.mark.parametrize("word", ["alter", "fix", "offline", "backup"])
def test_command_line_page_and_help_contain_the_terms_that_kafkas_tools_use(word: str) -> None:
    helps = [run(*noun.split(), "--help").out for noun in ("", "topics", "groups", "configs")]

    assert re.search(rf"\b{word}\b", PAGE, re.IGNORECASE)
    assert any(re.search(rf"\b{word}\b", text, re.IGNORECASE) for text in helps)
