"""Runs simulations in tests: one simulation until it is at rest, several until one detects a
planted fault, or one seed several times."""

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
"""The number of new objects after which Python starts a garbage collection during a simulation."""


PLAYED_S_MAX = 900
"""The time limit in seconds for all simulations of one test, long enough for a busy machine."""


class AnyWorld(Protocol):
    """The interface of a simulation of one or of several brokers."""

    kind: str
    seed: int
    agenda: Agenda

    @property
    def seconds(self) -> float:
        """Returns the virtual seconds since the start of the simulation."""

    def run(self, seconds: float) -> None: ...

    def rest(self) -> None:
        """Ends all faults. Asserts that within a bounded time no work remains: for example, each
        group is stable."""

    def end(self) -> None: ...

    def fingerprint(self) -> str:
        """Returns a digest of all responses and of all bytes on the disks."""


WorldT = TypeVar("WorldT", bound=AnyWorld)


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Makes garbage collections rare in the block.

    A simulation has many live objects that refer to each other. With Python's default threshold,
    garbage collection would take a fifth of the time. The garbage of earlier simulations, about 16
    MB each, is collected first.
    """
    gc.collect()
    at, *older = gc.get_threshold()
    gc.set_threshold(COLLECTS_AT, *older)
    try:
        yield
    finally:
        gc.set_threshold(at, *older)


def again(world: AnyWorld, seconds: int) -> str:
    """Returns the command that repeats a simulation, for the message of a failure."""
    return f"again with: make simulate SEED={world.seed} SECONDS={seconds}"


@collected_rarely()
def run(world: WorldT, seconds: int, record_property: Record) -> WorldT:
    """Runs one simulation until the world is at rest. The error of a failed simulation contains its
    seed."""
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
    """Runs simulations with ``seeds`` until a check fails. Raises an error if no check fails."""
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
    """Returns the digest of a simulation after a run of ``seconds``."""
    world.run(seconds)
    world.end()
    return world.fingerprint()


def fingerprint_elsewhere(module: str, seed: int) -> str:
    """Runs ``module`` with a seed in a process with different string hashes. Returns the last line
    of its output."""
    elsewhere = subprocess.run(
        [sys.executable, "-m", module, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    return elsewhere.stdout.split()[-1]
