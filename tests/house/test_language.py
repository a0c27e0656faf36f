"""Texts follow the section "Language" of CONTRIBUTING. The number of findings in each folder does
not exceed a limit."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.brokers import CHECKOUT
from tests.house.language import findings, in_python, words

LIMITS = Path(__file__).parent.parent / "data" / "language_limits.json"
"""The maximum number of findings, by `folder: kind` (the kind of finding). MUSTER_GOLDEN=write
lowers each maximum to the present number."""


def test_language_findings_of_each_folder_do_not_exceed_its_limit() -> None:
    limits = json.loads(LIMITS.read_text())
    found = list(findings())
    counts = Counter(f"{each.folder}: {each.kind}" for each in found)
    beyond = {key for key, count in counts.items() if count > limits.get(key, 0)}
    assert not beyond, "\n".join(
        f"{each.file}:{each.line}: {each.kind}: {each.word}"
        for each in found
        if f"{each.folder}: {each.kind}" in beyond
    )
    if os.environ.get("MUSTER_GOLDEN") == "write":
        LIMITS.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The coordinator removes the member. Who does not come is out", ["Who"]),
        ("Nobody has committed it", ["Nobody", "Nobody"]),
        ("What is a shard? A core.", []),
        ("the leader is told", ["told"]),
        ("``told`` and `is no` and {told} are code", []),
        ("it is no longer led", []),
        ("it is no broker", ["is no"]),
    ],
)
def test_language_check_finds_words_that_the_language_guide_avoids(
    text: str, expected: list[str]
) -> None:
    assert list(words(text)) == expected


def test_language_check_of_python_source_covers_docstrings_strings_comments_and_test_names() -> (
    None
):
    source = '''
"""Who docstring."""
VALUE = "it is told"  # nobody knows
def test_a_member_that_is_told_is_not() -> None: ...
'''
    kinds = {each.kind: each.line for each in in_python("broker/net/x.py", source)}
    assert kinds == {"docstring": 2, "string": 3, "comment": 3, "test name": 4}


@pytest.mark.parametrize(
    ("subject", "taken"),
    [
        ("fetch: reject a session of another principal", True),
        ("broker, cli: fold ten modules with one importer into it", True),
        ("Fetch: reject a session", False),
        ("fetch reject a session", False),
        ("fetch: Reject a session", False),
        ("fetch: " + "reject " * 10, False),
        ("Merge branch 'main'", True),
    ],
)
def test_commit_hook_checks_the_subject_line(tmp_path: Path, subject: str, taken: bool) -> None:
    message = tmp_path / "message"
    message.write_text(subject.strip() + "\n\nThe reason.\n")
    ran = subprocess.run(
        [CHECKOUT / "tools" / "hooks" / "commit-msg", message],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (ran.returncode == 0) is taken, ran.stderr
