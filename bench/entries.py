"""Writes an `acls.json` for measurements: ACLs of other users, and those that a load needs.

    .venv/bin/python -m bench.entries FILE [--entries 1000]

The load is not authenticated, so it is ``User:ANONYMOUS``; it may do everything to topics, groups
and transactional ids. The other ACLs are of 100 users, for names and prefixes of topics and groups.
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
    """An ACL that allows an operation from any host."""
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
    """``count`` ACLs."""
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
    """Write the file into the data directory of a stopped broker."""
    text = json.dumps({"version": 1, "acls": found})
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def main() -> None:
    """Write the file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--entries", type=int, default=1000)
    given = options.parse_args()
    write(given.file, entries(given.entries))


if __name__ == "__main__":
    main()
