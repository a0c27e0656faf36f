"""Error texts about empty names, about unknown verbs of `groups`, and about plans without
--execute."""

from __future__ import annotations

import pytest

from cli.errors import USAGE, CommandError
from cli.plans import Plan
from cli.words import instead
from tests.cli.running import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("groups why", "GROUP is empty; see muster groups why --help"),
        ("groups watch", "GROUP is empty; see muster groups watch --help"),
        ("topics describe", "TOPIC is empty; see muster topics describe --help"),
        ("transactions why", "ID|TOPIC:PARTITION is empty; see muster transactions why --help"),
        ("cluster why", "WHAT is empty; see muster cluster why --help"),
        ("users add", "USER is empty; see muster users add --help"),
    ],
)
def test_empty_name_of_a_topic_or_group_is_rejected(words: str, said: str) -> None:
    ran = run(*words.split(), "", "--bootstrap", "127.0.0.1:1")

    assert (ran.code, ran.out, ran.err) == (USAGE, "", f"muster: {said}\n")


@pytest.mark.parametrize("word", ["pause", "restart", "start", "stop"])
def test_error_about_unknown_command_groups_start_or_groups_stop_mentions_consumers(
    word: str,
) -> None:
    said = instead("groups", word, [], [])

    assert said is not None
    assert "consumer" in said
    assert "broker" not in said


def test_error_about_an_unconfirmed_json_plan_advises_option_execute() -> None:
    with pytest.raises(CommandError) as ended:
        Plan(dry_run=False, execute=False, json=True).goes_on("Change?")

    assert str(ended.value) == "nothing was changed: add --execute to make these changes"
