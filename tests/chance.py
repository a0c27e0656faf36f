"""A random generator for tests. The output of a failed test shows the seed. The environment
variable SEED repeats a run."""

from __future__ import annotations

import os
import random
import secrets


def chance() -> random.Random:
    """Returns a random generator with the seed in the environment variable SEED, or with a new
    seed."""
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"SEED={seed}")
    return random.Random(seed)
