"""The ports and the directory of a cluster. `muster dev cluster` reserves both before it starts a
process: if two clusters start together, one of them fails with an error that names the other."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cli.errors import CommandError

LOCAL = "127.0.0.1"
_NAME = "\0muster-dev-port-{}"
"""The name, in Linux's abstract namespace, of the Unix socket that reserves a port. Such a name is
not in a file system. The system removes it when the process ends, and each network namespace has
its own names, as it has its own ports."""


@contextmanager
def reserved_ports(ports: Sequence[int]) -> Iterator[None]:
    """Reserves the cluster's ports until the block ends. Raises CommandError if another program
    uses one of the ports, or if another `muster dev cluster` has reserved it."""
    with ExitStack() as reserved:
        for port in ports:
            if sys.platform == "linux":
                reserved.enter_context(_reserved(port, ports))
            _must_be_free(port, ports)
        yield


@contextmanager
def _reserved(port: int, ports: Sequence[int]) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as holder:
        try:
            holder.bind(_NAME.format(port))
        except OSError:
            why = "another `muster dev cluster` uses it: stop that cluster, or"
            raise _not_available(port, why, ports) from None
        yield


def _must_be_free(port: int, ports: Sequence[int]) -> None:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOCAL, port))
    except OSError as error:
        raise _not_available(port, f"{error.strerror}:", ports) from error


def _not_available(port: int, why: str, ports: Sequence[int]) -> CommandError:
    return CommandError(
        f"can't use port {port}: {why} choose another first port with --port; the cluster needs"
        f" ports {ports[0]} to {ports[-1]}"
    )


@contextmanager
def reserved_directory(folder: Path) -> Iterator[None]:
    """Creates the directory of a cluster that keeps data, and locks it until the block ends. Raises
    CommandError if another cluster has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                f"can't keep data in {folder}: another `muster dev cluster` keeps its data there:"
                " stop that cluster, or choose another directory with --dir"
            ) from None
        yield
    finally:
        os.close(descriptor)
