"""The golden conversations say what they said when they were last reviewed.

After a change of behaviour: ``make golden``, and review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replication.conversation import run_text

GOLDEN = Path(__file__).parent.parent / "golden" / "replication"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.txt")))
def test_a_conversation_goes_as_it_was_reviewed(name: str) -> None:
    text = (GOLDEN / name).read_text()
    assert run_text(text)[0] == text
