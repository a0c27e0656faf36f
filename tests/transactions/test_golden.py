"""Each file in tests/golden/transactions has calls to a shard of transactional ids with their
expected outcomes. The current outcomes must equal the expected outcomes. After a change of
behavior, run ``make golden`` and review the diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transactions.conversation import run_text

GOLDEN = Path(__file__).parent.parent / "golden" / "transactions"


@pytest.mark.proves("transactions 12", "golden/transactions/exhaustion.txt")
@pytest.mark.proves("transactions 24", "golden/transactions/expiry.txt")
@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.txt")))
def test_calls_of_a_golden_file_have_their_recorded_outcomes(name: str) -> None:
    text = (GOLDEN / name).read_text()
    assert run_text(text)[0] == text
