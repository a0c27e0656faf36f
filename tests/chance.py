"""A random generator for tests. A failed test shows its seed, and the variable SEED sets the
seed."""

from __future__ import annotations

import os
import random
import secrets


def chance() -> random.Random:
    """Returns a generator with a new seed, or with the seed in the variable SEED."""
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"SEED={seed}")
    return random.Random(seed)
