"""A Spark session for one command: quiet, and ended with the command.

Spark and its Java write to the descriptors 1 and 2 that they were started with. Those are a file
while Java starts, so that the terminal has the output of the command alone; the file is named when
something fails, and goes otherwise. `--verbose` leaves Spark its terminal.
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
from cli.errors import USAGE, CommandError
from cli.pipeline.extra import CONNECT, LIGHT, SPARK, needs, sentences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOPPED_WITHIN_S = 20.0
LOCAL = "local[*]"
DONE_SO_FAR = "finished tables are kept, and none is half-written"


def settings_of(conf: Sequence[str] | None) -> dict[str, str]:
    """Spark's settings from ``KEY=VALUE``."""
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
    """A session that ends with the block; a `CommandError` for whatever Spark or a job raises.

    ``brief`` says that there is little to do: Java starts in another way for that.

    A session that this process has already is joined, and stays.
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
                # PySpark's own handler asks Java again in the middle of an answer
                signal.signal(signal.SIGINT, signal.default_int_handler)
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
    """End the session and its Java, whose last output nobody needs.

    A thread of its own has a connection of its own: an interrupt leaves the main thread's in the
    middle of an answer. Java that does not end in time ends with this process, and so does one that
    could not stop Spark, of which PySpark warns.
    """
    from py4j.protocol import Py4JError

    # for good: the thread may outlive this call
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)

    def stop() -> None:
        with suppress(Py4JError, OSError, RuntimeError):  # Java may be gone already
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
    """Have what Spark's Python side logs go to the file too."""
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
    """Have what is started in the block write to the file instead of the terminal."""
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
