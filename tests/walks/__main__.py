"""Prints the functions that handle a request: `python -m tests.walks OffsetCommit`.

Without a name it prints the number of functions and files for each request.
"""

from __future__ import annotations

import sys

from tests.walks.requests import WALKS, walk


def main(names: list[str]) -> int:
    """Prints, for each request in ``names``, the functions that handle it. If ``names`` is empty,
    prints the number of functions and files for every request. Returns the exit code."""
    unknown = [name for name in names if name not in WALKS]
    if unknown:
        print(f"unknown walk: {unknown[0]}; there are {', '.join(WALKS)}", file=sys.stderr)
        return 2
    for name in names:
        recorded = walk(name)
        print(f"{WALKS[name][0]}: {recorded.functions} functions in {recorded.files} files\n")
        print(recorded.page())
    if not names:
        for name, (title, _, _) in WALKS.items():
            recorded = walk(name)
            print(f"{title:46} {recorded.functions:4} functions {recorded.files:3} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
