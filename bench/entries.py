"""Writes an `acls.json` for measurements: the ACLs that a load needs, and ACLs of other users.

    .venv/bin/python -m bench.entries FILE [--entries 1000]

The load is not authenticated, so its principal is ``User:ANONYMOUS``, which may do everything to
topics, groups, transactional ids and the cluster. The other ACLs allow 100 users to read topics and
groups, by name or prefix.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

LOAD, ANYBODY = "User:ANONYMOUS", "User:*"


def entry(kind: str, name: str, pattern: str, principal: str, operation: str) -> dict[str, str]:
    """Returns an ACL that allows the operation from any host."""
    return {
        "resourceType": kind,
        "name": name,
        "patternType": pattern,
        "principal": principal,
        "permissionType": "Allow",
        "operation": operation,
        "host": "*",
    }


def entries(count: int, load: str = LOAD) -> list[dict[str, str]]:
    """Returns ``count`` ACLs: the ACLs that the load needs, and ACLs of other users."""
    found = [
        entry(kind, "*", "LITERAL", load, "All")
        for kind in ("Topic", "Group", "TransactionalId", "Cluster")
    ]
    found[-1]["name"] = "kafka-cluster"
    for number in range(count - len(found)):
        kind = ("Topic", "Group")[number % 2]
        pattern = ("LITERAL", "PREFIXED")[number // 2 % 2]
        name = f"team-{number % 100}-{number}"
        found.append(entry(kind, name, pattern, f"User:user-{number % 100}", "Read"))
    return found


def write(path: Path, found: list[dict[str, str]]) -> None:
    """Writes ACLs to a file in the format of `acls.json`."""
    text = json.dumps({"version": 1, "acls": found})
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--entries", type=int, default=1000)
    given = options.parse_args()
    write(given.file, entries(given.entries))


if __name__ == "__main__":
    main()
