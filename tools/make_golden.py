"""Write the outcomes of the golden conversations anew; the diff is what gets reviewed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.coordinator.conversation import run_text  # noqa: E402


def main() -> int:
    """Run every conversation of tests/golden; print those that changed."""
    for path in sorted((ROOT / "tests" / "golden").glob("*.txt")):
        before = path.read_text()
        after, _ = run_text(before)
        if after != before:
            path.write_text(after)
            print(f"{path.relative_to(ROOT)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
