"""Tests that messages which Apache Kafka wrote are decoded, and encoded to the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parent.parent.parent
GOLDEN = TOP / "tests" / "data" / "golden"
FILES = {"api.jsonl": 2190, "records.jsonl": 177, "batches.jsonl": 41}


def check_golden(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/check_golden.py", *map(str, files)]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)


def test_every_golden_vector_is_decoded_and_encoded_unchanged() -> None:
    done = check_golden(*[GOLDEN / name for name in FILES])
    assert done.stdout == f"{sum(FILES.values())} vectors, 0 bad\n"
    assert done.returncode == 0


@pytest.mark.planted("golden bytes")
@pytest.mark.parametrize("name", FILES)
def test_golden_check_reports_a_wrong_byte_or_value(name: str, tmp_path: Path) -> None:
    # The last byte stays: it can belong to records, whose bytes the golden values do not contain.
    lines = (GOLDEN / name).read_text().splitlines()
    vectors = [json.loads(line) for line in lines[:30]]
    damaged = []
    for index, vector in enumerate(vectors):
        first = int(vector["hex"][:2], 16) ^ 1
        cases: tuple[dict[str, Any], ...] = (
            {"hex": f"{first:02x}{vector['hex'][2:]}"},
            {"hex": vector["hex"] + "00"},
            {"value" if "value" in vector else "magic": {}},
        )
        damaged.append(json.dumps(vector | cases[index % 3]))
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join(damaged))
    done = check_golden(path)
    assert done.returncode == 1
    assert done.stdout.endswith("30 vectors, 30 bad\n")
    assert done.stdout.count("damaged.jsonl:") == 30


def test_checker_counts_malformed_vectors_and_reports_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(
        '{"api": "Nonsense", "type": "request", "version": 0, "hex": ""}\nnot json\n{}\n'
    )
    done = check_golden(path)
    assert done.returncode == 1
    assert done.stdout.endswith("3 vectors, 3 bad\n")
    missing = check_golden(tmp_path / "missing.jsonl")
    assert missing.returncode == 2
    assert "No such file" in missing.stderr
