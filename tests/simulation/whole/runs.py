"""Ways to run simulated worlds in tests: one to its rest, several until one finds a planted
fault, or one seed repeatedly."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import pytest

from protocol.records.corrupt import CorruptRecords
from tests.simulation.whole.agenda import Agenda

Record = Callable[[str, object], None]
COLLECTS_AT = 50_000
"""The number of additional objects at which Python collects garbage in a world."""


PLAYED_S_MAX = 900
"""Time limit in seconds of all worlds of a test on a busy machine."""


class AnyWorld(Protocol):
    """A simulated world, of one broker or of many."""

    kind: str
    seed: int
    agenda: Agenda

    @property
    def seconds(self) -> float:
        """How much time has passed."""

    def run(self, seconds: float) -> None:
        """Let so much time pass."""

    def rest(self) -> None:
        """All failures end: everything promised is there soon."""

    def end(self) -> None:
        """No more time passes."""

    def fingerprint(self) -> str:
        """A digest of all responses, and of every byte on the disks."""


WorldT = TypeVar("WorldT", bound=AnyWorld)


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Collect garbage rarely: a world has many live objects that refer to each other, and at
    Python's own threshold a fifth of the time goes into garbage collection.

    The garbage of earlier worlds, some 16 MB each, is collected first.
    """
    gc.collect()
    at, *older = gc.get_threshold()
    gc.set_threshold(COLLECTS_AT, *older)
    try:
        yield
    finally:
        gc.set_threshold(at, *older)


def again(world: AnyWorld, seconds: int) -> str:
    """The command that runs a world again; it ends the message of every failure."""
    return f"again with: make simulate SEED={world.seed} SECONDS={seconds}"


@collected_rarely()
def run(world: WorldT, seconds: int, record_property: Record) -> WorldT:
    """Run one world to its rest; a failure names its seed."""
    began_s = time.process_time()
    try:
        world.run(seconds)
        world.rest()
    except Exception as error:
        raise AssertionError(
            f"after {world.seconds:.3f} s a law is broken; {again(world, seconds)}"
        ) from error
    finally:
        world.end()
    cpu_s = time.process_time() - began_s
    record_property(world.kind, (world.seed, world.agenda.happened, world.seconds, cpu_s))
    return world


@collected_rarely()
def find_fault(new_world: Callable[[int], AnyWorld], seeds: Collection[int], seconds: int) -> None:
    """Run worlds until one fails a check; fail if none does."""
    for seed in seeds:
        world = new_world(seed)
        try:
            world.run(seconds)
            world.rest()
        except (AssertionError, CorruptRecords) as found:
            print(f"seed {seed}: {found}")
            return
        finally:
            world.end()
    pytest.fail(f"{len(seeds)} worlds of {seconds} s found nothing wrong")


@collected_rarely()
def fingerprint(world: AnyWorld, seconds: int) -> str:
    """The digest of a world after a run."""
    world.run(seconds)
    world.end()
    return world.fingerprint()


def fingerprint_elsewhere(module: str, seed: int) -> str:
    """The last output line of ``module`` for a seed, in a process with different string hashes."""
    elsewhere = subprocess.run(
        [sys.executable, "-m", module, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    return elsewhere.stdout.split()[-1]
