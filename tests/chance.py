"""A random generator whose seed a failed test shows, and which SEED sets."""

from __future__ import annotations

import os
import random
import secrets


def chance() -> random.Random:
    """Returns a generator with a new seed, or with the environment's."""
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"SEED={seed}")
    return random.Random(seed)
