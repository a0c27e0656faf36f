"""The tests that docs/testing.md names for the sentences of transactions are there, for each."""

from __future__ import annotations

import re

from tests.brokers import CHECKOUT

PAGE = (CHECKOUT / "docs" / "testing.md").read_text()
SECTION = PAGE.split("## The sentences of transactions\n")[1].split("\n## ")[0]
NAMED = re.compile(r"`([a-z0-9_/]+\.(?:py|txt))(?:::(test_\w+))?`")
SENTENCES = 32


def test_what_the_table_names_is_there() -> None:
    named = NAMED.findall(SECTION)
    assert len(named) > SENTENCES
    gone = []
    for path, test in named:
        file = CHECKOUT / "tests" / path
        if not file.exists() or (test and f"def {test}(" not in file.read_text()):
            gone.append(f"{path}::{test}")
    assert gone == []


def test_each_sentence_has_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", SECTION, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, SENTENCES + 1))
    assert all(NAMED.search(tests) for _, tests in rows)


def test_the_sentences_that_tests_name_are_in_the_table() -> None:
    used = set()
    for file in (CHECKOUT / "tests").rglob("*.py"):
        used |= {int(number) for number in re.findall(r"Sentence (\d+)", file.read_text())}
    assert used
    assert used <= set(range(1, SENTENCES + 1))
