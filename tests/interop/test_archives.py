"""The class data archives (CDS) that make the start of Java programs faster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests import java

pytestmark = pytest.mark.interop


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "any.jsa"
    monkeypatch.setattr(java, "_archive", lambda name, main_class: place)
    return place


def partial_of(line: list[str]) -> Path:
    """Returns the value of `-XX:ArchiveClassesAtExit` in the command line of a JVM: the path of a
    temporary class data archive, which the JVM writes when it exits."""
    return Path(next(word.split("=")[1] for word in line if "ArchiveClassesAtExit" in word))


def test_class_archive_is_used_after_the_jvm_that_wrote_it_has_exited(archive: Path) -> None:
    with java.archiving(java.KAFKA_NEW, "Any"):
        partial_of(java.command(java.KAFKA_NEW, "Any")).touch()
    assert archive.exists()
    assert f"-XX:SharedArchiveFile={archive}" in java.command(java.KAFKA_NEW, "Any")


def test_incomplete_java_class_archive_is_removed_when_its_jvm_was_killed(archive: Path) -> None:
    with suppress(TimeoutError), java.archiving(java.KAFKA_NEW, "Any"):
        partial = partial_of(java.command(java.KAFKA_NEW, "Any"))
        partial.touch()
        raise TimeoutError
    assert not archive.exists()
    assert not partial.exists()
    assert not any("jsa" in word for word in java.command(java.KAFKA_NEW, "Any"))
