"""Starts a Spark session for one command and stops it when the command ends.

Java inherits the file descriptors 1 and 2. While Java starts, they refer to a log file, so that the
terminal shows only the command's output. An error names the log file; without an error the file is
deleted. With `--verbose`, Spark writes to the terminal.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cli import clock
from cli.errors import USAGE, CommandError, Interrupts
from cli.pipeline.extra import CONNECT, LIGHT, SPARK, needs, sentences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOPPED_WITHIN_S = 20.0
LOCAL = "local[*]"
DONE_SO_FAR = "finished tables are kept, and no table is half-written"


def settings_of(conf: Sequence[str] | None) -> dict[str, str]:
    """Returns the parsed Spark settings, which have the form ``spark.NAME=VALUE``."""
    found = {}
    for text in conf or ():
        name, equals, value = text.partition("=")
        if not (equals and name.startswith("spark.")):
            raise CommandError(f"--conf {text}: write it as spark.NAME=VALUE", USAGE)
        found[name] = value
    return found


@contextmanager
def spark_session(
    master: str,
    settings: Mapping[str, str],
    *,
    verbose: bool,
    brief: bool = False,
) -> Iterator[SparkSession]:
    """Yields a session that is stopped when the block ends. Errors become CommandErrors.

    ``brief`` means that there is little work; Java then starts with faster options. If this process
    already has a session, that session is used and not stopped.
    """
    needs(*LIGHT, *SPARK, *(CONNECT if master.startswith("sc://") else ()))
    from pyspark.sql import SparkSession

    from pipeline.session import open_session

    joined = SparkSession.getActiveSession() is not None
    log = None if verbose or joined else _log_file()
    kept = False
    try:
        with sentences(log, DONE_SO_FAR), _logged(log):
            with _away(log):
                session = open_session(master, brief=brief, settings=settings)
            if not joined:
                # PySpark's own handler would call Java again while another call is in progress.
                signal.signal(signal.SIGINT, Interrupts.raise_one)
            try:
                yield session
            finally:
                if not joined:
                    _stop(session)
    except CommandError as error:
        kept = str(log) in str(error)
        raise
    finally:
        if log is not None and not kept:
            log.unlink(missing_ok=True)


def _stop(session: SparkSession) -> None:
    """Stops the session and its Java process, within STOPPED_WITHIN_S seconds.

    A separate thread uses its own connection to Java, because Ctrl-C may have interrupted a call on
    the main thread's connection. A Java process that does not stop in time ends together with this
    Python process. PySpark's warning about such a Java process is hidden.
    """
    from py4j.protocol import Py4JError

    # The filter is never removed, because the thread may outlive this call.
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)

    def stop() -> None:
        with suppress(Py4JError, OSError, RuntimeError):  # Java may have exited already
            session.stop()

    ending = clock.start_thread(stop)
    with suppress(KeyboardInterrupt):
        ending.join(STOPPED_WITHIN_S)


def _log_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="muster-pipeline-", suffix=".log")
    os.close(descriptor)
    return Path(name)


@contextmanager
def _logged(log: Path | None) -> Iterator[None]:
    """Writes the log records of PySpark also to the file ``log``."""
    if log is None:
        yield
        return
    handler = logging.FileHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _away(log: Path | None) -> Iterator[None]:
    """Redirects the file descriptors 1 and 2, which new processes inherit, to the file ``log``
    until the context ends. Does nothing if ``log`` is None."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in zip((1, 2), kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)
