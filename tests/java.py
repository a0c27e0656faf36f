"""The path of Java, and the jars of the Kafka releases with which tests run.

Each `tests/data/maven/NAME/pom.xml` defines a set of jars. Maven downloads a set once, and
tests/cached.py stores it. If Java or Maven is missing, a test is skipped and prints the command
that installs it. With CI=true, the test fails.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from tests.absent import absent
from tests.cached import cached
from tests.tool_jvm import HOST, ToolJvm

POMS = Path(__file__).parent / "data" / "maven"
INSTALL = "apt-get install -y default-jdk-headless maven"

RELEASES = ("4.3.1", "4.4.0")
"""The tested releases of Kafka 4. The Makefile runs the test tier `campaign` in several parts: one
part uses the first release, the other parts use the second."""
RELEASE = os.environ.get("KAFKA_RELEASE") or RELEASES[0]
KAFKA_NEW = f"kafka-{RELEASE}"
"""The name of the jars of the Kafka 4 release that this run uses."""
KAFKA_LAST_TO_SERVE_OLD_CLIENTS = "kafka-3.9.2"
KAFKA_OLD = "kafka-0.10.2.2"


def test_id(value: object) -> str | None:
    """Returns the id of a test parameter that ends with the Kafka 4 release in use: `kafka-new` in
    place of `kafka-4.4.0`. Thus a test has the same name, and is in the same slice of the campaign,
    with every release. Returns None for any other parameter."""
    is_new = isinstance(value, str) and value.endswith(RELEASE)
    return f"{str(value).removesuffix(RELEASE)}new" if is_new else None


# Short-lived tools: with the first compiler and one collector thread a start takes half the CPU.
# The JVM writes its own warnings to standard error, apart from the output of a tool.
FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx256m",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def java() -> str:
    """Returns the path of `java` in JAVA_HOME, or in PATH if JAVA_HOME is not set."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        absent(f"this test runs Apache Kafka's Java tools and found no Java: {INSTALL}")
    return found


@functools.cache
def jars(name: str) -> tuple[Path, ...]:
    """Returns the jars of `tests/data/maven/NAME`. Downloads them with Maven if they are
    missing."""
    pom = POMS / name / "pom.xml"
    return tuple(sorted(cached(name, pom, lambda folder: _bring(pom, folder)).glob("*.jar")))


def config_command(name: str = KAFKA_NEW) -> str:
    """Returns the main class of `kafka-configs`, which 4.4 moved to another package."""
    moved = name == "kafka-4.4.0"
    return "org.apache.kafka.tools.ConfigCommand" if moved else "kafka.admin.ConfigCommand"


def bring_all() -> None:
    """Downloads all jars, so that no test with a time limit has to wait for a download."""
    if shutil.which("mvn"):
        for pom in sorted(POMS.glob("*/pom.xml")):
            jars(pom.parent.name)


def _bring(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        absent(f"the jars of {pom.parent.name} are not in {folder.parent} and no Maven: {INSTALL}")
    done = subprocess.run(
        [
            maven,
            "-q",
            "-B",
            "-f",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"Maven could not bring the jars of {pom}:\n{done.stdout[-3000:]}")


def source(
    name: str, program: Path, *arguments: str, properties: Mapping[str, str] | None = None
) -> list[str]:
    """Returns the command line that compiles and runs a Java program of one file with the jars of
    ``name``."""
    given = _given(properties)
    return [java(), *FLAGS, LOGGING, *given, "-cp", _classpath(name), str(program), *arguments]


def command(
    name: str, main_class: str, *arguments: str, properties: Mapping[str, str] | None = None
) -> list[str]:
    """Returns the command line that runs ``main_class`` with the jars of ``name``.

    Log lines of level WARN and above go to standard error. ``properties`` are Java system
    properties.
    """
    logging = (
        f"-Dlog4j.configuration=file:{POMS / KAFKA_OLD / 'log4j.properties'}"
        if name == KAFKA_OLD
        else LOGGING
    )
    archive = _archive(name, main_class)
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    if archive in _PARTIAL:
        shared = [f"-XX:ArchiveClassesAtExit={_PARTIAL[archive]}"]
    return [
        java(),
        *FLAGS,
        *shared,
        logging,
        *_given(properties),
        "-cp",
        _classpath(name),
        main_class,
        *arguments,
    ]


def _given(properties: Mapping[str, str] | None) -> list[str]:
    return [f"-D{key}={value}" for key, value in (properties or {}).items()]


def _classpath(name: str) -> str:
    # 3.9.2 has two SLF4J bindings; slf4j-simple logs to standard error without a configuration
    # file.
    return ":".join(
        str(jar)
        for jar in jars(name)
        if not (name != KAFKA_OLD and jar.name.startswith(("slf4j-reload4j", "slf4j-log4j12")))
    )


def _archive(name: str, main_class: str) -> Path:
    """Returns the path of the class data archive (AppCDS) for ``main_class``.

    The archive reduces the CPU time of a start from 1.7 s to 0.5 s. The JVM ignores an archive that
    does not match its classes.
    """
    made_by = hashlib.sha256(os.path.realpath(java()).encode()).hexdigest()[:8]
    return jars(name)[0].parent / f"{main_class}-{made_by}.jsa"


def archived(name: str, main_class: str) -> bool:
    """Returns True if a class data archive for ``main_class`` exists."""
    return _archive(name, main_class).exists()


_PARTIAL: dict[Path, Path] = {}
"""For each class data archive, the temporary file to which a JVM writes it. The file is renamed
when the JVM has ended."""


@contextmanager
def archiving(name: str, main_class: str) -> Iterator[None]:
    """If the class data archive of the program does not exist, a JVM that runs the program writes
    it. The JVM must start and end in the `with` block."""
    archive = _archive(name, main_class)
    if archive.exists():
        yield
        return
    partial = archive.with_name(f"{archive.name}.{os.getpid()}")
    _PARTIAL[archive] = partial
    try:
        yield
        if partial.exists():
            partial.rename(archive)
    finally:
        _PARTIAL.pop(archive, None)
        partial.unlink(missing_ok=True)  # left by a killed JVM


def run(
    name: str,
    main_class: str,
    *arguments: str,
    text_in: str = "",
    timeout_s: float = 180.0,
    own_jvm: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a tool until it ends. The caller checks the exit code.

    The tools of one release share a JVM of this test process (tests/tool_jvm.py). The JVM keeps the
    working directory and the environment of its first run, so paths in arguments must be absolute.
    ``own_jvm`` starts a separate JVM, for a tool that leaves threads running. Each tool of 0.10.2.2
    gets a separate JVM too, because it calls System.exit.
    """
    if own_jvm or name == KAFKA_OLD:
        return _run_alone(name, main_class, *arguments, text_in=text_in, timeout_s=timeout_s)
    idle = _IDLE[name]
    jvm = idle.pop() if idle else ToolJvm(source(name, HOST))
    try:
        return jvm.run(main_class, *arguments, text_in=text_in, timeout_s=timeout_s)
    finally:
        if jvm.usable:
            idle.append(jvm)


_IDLE: defaultdict[str, list[ToolJvm]] = defaultdict(list)
"""The JVMs that run no tool at present, by the name of their jars."""


@atexit.register
def _end_idle() -> None:
    for jvm in chain.from_iterable(_IDLE.values()):
        jvm.kill()


def _run_alone(
    name: str, main_class: str, *arguments: str, text_in: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    with archiving(name, main_class):
        return subprocess.run(
            command(name, main_class, *arguments),
            input=text_in,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


if __name__ == "__main__":
    bring_all()
