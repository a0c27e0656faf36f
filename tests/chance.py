"""Chance whose seed a failed test shows, and which SEED sets."""

from __future__ import annotations

import os
import random
import secrets


def chance() -> random.Random:
    """A generator from a fresh seed, or from that of the environment."""
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"SEED={seed}")
    return random.Random(seed)
