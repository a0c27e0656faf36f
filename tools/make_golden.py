"""Rewrites the expected outcomes of the golden conversations with the current outcomes. Review the
diff afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.controller import conversation as of_controller  # noqa: E402
from tests.coordinator import conversation as of_groups  # noqa: E402
from tests.replication import conversation as of_leaders  # noqa: E402
from tests.transactions import conversation as of_transactions  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"


def main() -> int:
    """Runs all conversations of tests/golden, and prints the names of the files that changed."""
    for folder, conversation in (
        (GOLDEN, of_groups),
        (GOLDEN / "transactions", of_transactions),
        (GOLDEN / "controller", of_controller),
        (GOLDEN / "replication", of_leaders),
    ):
        for path in sorted(folder.glob("*.txt")):
            before = path.read_text()
            after, _ = conversation.run_text(before)
            if after != before:
                path.write_text(after)
                print(f"{path.relative_to(ROOT)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
