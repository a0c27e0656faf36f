"""Checks whether the pipeline's packages are installed, and formats the pipeline's errors."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli.errors import INTERRUPTED, REFUSED, UNREACHABLE, CommandError, Interrupts

LIGHT = ("duckdb", "pyarrow", "numpy")
SPARK = ("pyspark", "pandas")
CONNECT = ("grpc", "grpc_status")
_CHECKOUT = Path(__file__).resolve().parent.parent.parent
_LOCKED = f"run `make -C {_CHECKOUT} pipeline` to install the packages of the pipeline"
_LONGEST = 600
_ROOM = (
    "free some space, or choose another disk with --out for tables and TMPDIR for temporary files;"
    " finished tables are kept, and no table is half-written"
)
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"[\w.]+: ")
_PIPELINE_ERROR = re.compile(r"pipeline\.errors\.(?P<kind>\w+): ")


def needs(*packages: str) -> None:
    """Raises CommandError if one of ``packages`` is missing. The error text contains the command
    that installs the package."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        raise CommandError(f"this command needs {', '.join(absent)}: {_installing(absent)}")


def _is_checkout() -> bool:
    """Returns True if Python runs from the .venv of a checkout, in which package versions are
    locked."""
    return Path(sys.prefix) == _CHECKOUT / ".venv"


def _installing(absent: Sequence[str]) -> str:
    if _is_checkout():
        return _LOCKED
    extra = "pipeline" if set(absent) & {*SPARK, *CONNECT} else "light"
    return f"run pip install 'musterd[{extra}]'"


@contextmanager
def sentences(log: Path | None = None, interrupted: str = "nothing was done") -> Iterator[None]:
    """Converts errors of the pipeline and of the engines, and Ctrl-C, to CommandErrors. ``log`` is
    the file with Spark's output, which Spark's errors mention. After Ctrl-C the error text ends
    with ``interrupted``."""
    try:
        yield
    except CommandError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) or Interrupts.received:
            raise CommandError(f"interrupted, {interrupted}", INTERRUPTED) from None
        sentence = _sentence(error, log)
        if sentence is None:
            raise
        raise sentence from error
    if Interrupts.received:
        raise CommandError(f"interrupted, {interrupted}", INTERRUPTED)


def _sentence(error: Exception, log: Path | None) -> CommandError | None:
    """Returns the CommandError for an error of the pipeline or an engine; None for any other
    error."""
    from pipeline.errors import NotInstalled, PipelineError, full_disk

    if isinstance(error, NotInstalled) and _is_checkout():
        return CommandError(f"{error.what} needs {error.package}: {_LOCKED}")
    if isinstance(error, PipelineError):
        return CommandError(str(error), error.exit_code)
    full = full_disk(error) if isinstance(error, OSError) or _of_engine(error) else None
    if full is not None and not _PIPELINE_ERROR.search(str(error)):
        return CommandError(f"no space left at {full}: {_ROOM}")
    if type(error).__module__ == "_duckdb":
        return CommandError(_of_duckdb(error))
    if not _of_spark(error):
        return None
    also = f"; see {log}" if log is not None else ""
    reason = _reason(error)
    ours = _PIPELINE_ERROR.match(reason)
    code = UNREACHABLE if ours and ours["kind"] == "Unreachable" else REFUSED
    message = reason[ours.end() :] if ours else reason
    return CommandError(f"Spark failed: {message}{also}", code)


def _of_duckdb(error: Exception) -> str:
    message = " ".join(str(error).split())[:_LONGEST]
    if type(error).__name__ == "OutOfMemoryException":
        message += "; use --engine spark, or set TMPDIR to another disk"
    return f"DuckDB failed: {message}"


def _of_engine(error: Exception) -> bool:
    return type(error).__module__ == "_duckdb" or _of_spark(error)


def _of_spark(error: Exception) -> bool:
    """Returns True if Spark, or the connection to Spark, raised the error."""
    module = type(error).__module__
    return module.startswith(("pyspark.", "py4j.", "grpc")) or isinstance(error, ConnectionError)


def _reason(error: Exception) -> str:
    """Returns one line for a Spark error: its last cause, without stack traces. For a Python error
    on an executor, returns Python's message."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    _, traceback, raised = text.rpartition(_TRACEBACK)
    for line in raised.splitlines() if traceback else ():
        if _RAISED.match(line):
            return line[:_LONGEST]
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    line = causes[-1].removeprefix("Caused by: ") if causes else next(iter(text.splitlines()), "")
    return " ".join(line.split())[:_LONGEST] or type(error).__name__
