"""Files with credentials and ACLs are written atomically and are private. An older Muster refuses
the files of a newer Muster."""

from __future__ import annotations

import errno
import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from broker.secured_file import SecuredFile
from broker.topics.registry import BadDirectory
from log.files.filesystem import OsFileSystem
from tests.simulated_files import SimulatedFiles

PATH = "/data/users.json"
VALUE = {"users": {"alice": {"SCRAM-SHA-256": "text"}, "bob": {}}, "acls": [{"a": 1}, "é"], "n": 3}


def simulated() -> SimulatedFiles:
    fs = SimulatedFiles()
    fs.make_directory("/data")
    return fs


def test_security_file_returns_the_content_that_was_written() -> None:
    fs = simulated()
    file = SecuredFile(fs, PATH, 1)
    assert file.read() is None
    file.write(VALUE)
    assert SecuredFile(fs, PATH, 2).read() == VALUE
    many = {"acls": [{"entry": number} for number in range(1201)], "empty": [], "none": {}}
    file.write(many)
    assert file.read() == many
    assert json.loads(fs.written(PATH))["version"] == 1
    assert fs.written(PATH).count(b"\n") > 1200, "one line for each entry"


def test_security_file_and_its_temporary_file_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []

    class Files(OsFileSystem):
        def rename(self, old: str, new: str, file: Any = None) -> None:
            modes.append(stat.S_IMODE(Path(old).stat().st_mode))
            super().rename(old, new, file)

    path = tmp_path / "users.json"
    path.write_text('{"version": 1}')
    path.chmod(0o644)
    SecuredFile(Files(), str(path), 1).write(VALUE)
    assert modes == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["users.json"]


def test_partly_written_temporary_security_file_is_replaced() -> None:
    fs = simulated()
    fs.put(f"{PATH}.tmp", b"half")
    SecuredFile(fs, PATH, 1).write(VALUE)
    assert fs.list("/data") == ["users.json"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '{"version": 3, "users": "secret"}',
            "/data/users.json has version 3, but this Muster reads version 2:"
            " start the newer Muster that wrote it",
        ),
        ('{"secret": ', "/data/users.json is damaged: the content is not JSON"),
        ('["secret"]', "/data/users.json is damaged: the version is missing"),
        ('{"version": "secret"}', "/data/users.json is damaged: the version is missing"),
    ],
)
def test_error_of_a_newer_or_damaged_security_file_omits_its_content(
    text: str, sentence: str
) -> None:
    fs = simulated()
    fs.put(PATH, text.encode())
    with pytest.raises(BadDirectory) as refused:
        SecuredFile(fs, PATH, 2).read()
    assert str(refused.value) == sentence


@pytest.mark.parametrize("operation", ["write", "fsync", "rename"])
def test_failed_write_of_a_security_file_keeps_the_old_content(operation: str) -> None:
    fs = simulated()
    file = SecuredFile(fs, PATH, 1)
    file.write(VALUE)
    fs.fail(operation, "", code=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        file.write({"users": {}})
    assert file.read() == VALUE
    assert fs.list("/data") == ["users.json"]


@pytest.mark.parametrize("seed", range(5))
def test_written_security_file_is_complete_after_a_power_loss(seed: int) -> None:
    fs = simulated()
    fs.fsync_directory("/")
    file = SecuredFile(fs, PATH, 1)
    file.write(VALUE)
    file.write({"users": {"carol": {}}})
    fs.lose_power(random.Random(seed))
    assert file.read() == {"users": {"carol": {}}}
