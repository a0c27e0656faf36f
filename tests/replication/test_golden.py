"""Each file in tests/golden/replication has events of a partition with the expected outcomes of its
leader. The current outcomes must equal the expected outcomes. After a change of behavior, run
``make golden`` and review the diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replication.conversation import run_text

GOLDEN = Path(__file__).parent.parent / "golden" / "replication"


@pytest.mark.proves("clusters 4", "golden/replication/shrink.txt", "golden/replication/expand.txt")
@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.txt")))
def test_calls_of_a_golden_file_have_their_recorded_outcomes(name: str) -> None:
    text = (GOLDEN / name).read_text()
    assert run_text(text)[0] == text
