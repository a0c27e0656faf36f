"""How tests run simulated worlds: one to its rest, several until one finds a planted fault, or one
seed again and again."""

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
"""How many objects more than before there are when Python looks for garbage in a world."""


PLAYED_S_MAX = 900
"""So long all worlds of a test may be played on a busy machine."""


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
        """Nothing fails any more: all that was promised is there soon."""

    def end(self) -> None:
        """Nobody lets more time pass."""

    def fingerprint(self) -> str:
        """A digest of all answers, and of every byte on the disks."""


WorldT = TypeVar("WorldT", bound=AnyWorld)


@contextmanager
def collected_rarely() -> Iterator[None]:
    """A world is full of objects that refer to each other and live on: at Python's own threshold
    every fifth second goes into looking for garbage among them.

    What earlier worlds have left, some 16 MB each, is thrown away first.
    """
    gc.collect()
    at, *older = gc.get_threshold()
    gc.set_threshold(COLLECTS_AT, *older)
    try:
        yield
    finally:
        gc.set_threshold(at, *older)


def again(world: AnyWorld, seconds: int) -> str:
    """What plays a world once more; it ends the message of every failure."""
    return f"again with: make simulate SEED={world.seed} SECONDS={seconds}"


@collected_rarely()
def run(world: WorldT, seconds: int, record_property: Record) -> WorldT:
    """One world, and its rest; a broken law says which seed broke it."""
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
    """Runs worlds until one breaks a law; fails where none does."""
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
    """What a world leaves behind."""
    world.run(seconds)
    world.end()
    return world.fingerprint()


def fingerprint_elsewhere(module: str, seed: int) -> str:
    """What ``module`` prints last for a seed, in a process whose strings hash differently."""
    elsewhere = subprocess.run(
        [sys.executable, "-m", module, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    return elsewhere.stdout.split()[-1]
