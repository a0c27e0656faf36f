"""An offline command finds the data directory of a stopped broker and checks its owner."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import pytest

from broker.offline import found, held
from broker.topics.directory.missing import META_FILE, SECURED_FILES, TOPICS_FILE
from broker.topics.registry import BadDirectory
from tests.cli.running import run

ROOT, DAEMON, NAMELESS = 0, 1, 3_999_999
"""User ids. ROOT and DAEMON exist on every machine. DAEMON has no root rights. No machine has a
user NAMELESS."""


def owned(
    monkeypatch: pytest.MonkeyPatch, directory: Path, owner: int, of_broker: int | None = None
) -> None:
    """Creates a directory that seems to belong to the user ``owner``, because only root can set
    real owners. If ``of_broker`` is not None, the directory contains a file of a broker that runs
    as the user ``of_broker``."""
    directory.mkdir()
    owners = {str(directory): owner}
    if of_broker is not None:
        (directory / META_FILE).touch()
        owners[str(directory / META_FILE)] = of_broker

    def made_by(path: str) -> int:
        if path not in owners:
            raise FileNotFoundError(path)
        return owners[path]

    monkeypatch.setattr("broker.offline._made_by", made_by)


@pytest.mark.parametrize(
    ("user", "owner", "of_broker", "refused"),
    [
        (ROOT, ROOT, None, False),
        (ROOT, ROOT, ROOT, False),
        (DAEMON, DAEMON, DAEMON, False),
        (ROOT, DAEMON, None, True),
        (ROOT, DAEMON, DAEMON, True),
        (DAEMON, ROOT, None, False),  # a volume of Kubernetes that the group can write to
        (DAEMON, ROOT, DAEMON, False),
        (ROOT, ROOT, DAEMON, True),
        (DAEMON, ROOT, ROOT, True),
        (DAEMON, NAMELESS, None, True),
    ],
)
def test_offline_command_is_refused_unless_run_by_the_brokers_user(
    user: int, owner: int, of_broker: int | None, refused: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    data = tmp_path / "data"
    owned(monkeypatch, data, owner, of_broker)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if not refused:
        with held(str(data)) as fs:
            assert fs.exists(str(data / ".lock"))
        return
    with pytest.raises(BadDirectory, match="belongs to"), held(str(data)):
        pass
    assert not (data / ".lock").exists()


def test_error_of_a_refused_offline_command_names_the_user_who_must_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ROOT)
    root, daemon = (pwd.getpwuid(user).pw_name for user in (ROOT, DAEMON))
    for owner, said in (
        (
            DAEMON,
            f"belongs to {daemon}, whose broker can't read files that {root} creates: run the"
            f" command as {daemon}, for example with `runuser -u {daemon} -- muster ...`",
        ),
        (
            NAMELESS,
            f"belongs to user {NAMELESS}, whose broker can't read files that {root} creates:"
            f" run the command as that user, for example with `sudo -u '#{NAMELESS}' muster ...`",
        ),
    ):
        data = tmp_path / f"of-{owner}"
        owned(monkeypatch, data, owner)
        added = ("acls", "add", "--principal", "User:a", "--operation", "all", "--topic", "t")
        ran = run(*added, "--data-dir", str(data))
        assert (ran.code, ran.out, ran.err) == (1, "", f"muster: {data} {said}\n")
        assert not list(data.iterdir())


def test_broker_user_is_the_owner_of_the_meta_properties_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / META_FILE).touch()
    with held(str(tmp_path)):
        pass
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(BadDirectory), held(str(tmp_path)):
        pass


def test_created_data_directory_belongs_to_the_user_of_the_command(tmp_path: Path) -> None:
    with held(str(tmp_path / "new" / "data")) as fs:
        assert fs.list(str(tmp_path / "new" / "data")) == [".lock"]


@pytest.mark.parametrize("name", [META_FILE, TOPICS_FILE, ".lock", *SECURED_FILES])
def test_data_directory_is_recognized_by_any_file_of_a_broker(name: str, tmp_path: Path) -> None:
    (tmp_path / "else").touch()
    with pytest.raises(
        BadDirectory, match=re.escape(f"{tmp_path} is not a broker's data directory")
    ):
        found(str(tmp_path))
    (tmp_path / name).touch()
    assert found(str(tmp_path)).exists(str(tmp_path / name))
