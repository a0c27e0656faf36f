"""Tests the start of a broker with an authorizer. The start requires a readable ACL file."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker import secured
from broker.authorizer.acl_store import AclFile
from broker.broker import BadDirectory, Broker
from broker.config.authorizer_rules import STANDARD
from broker.config.config import Config
from log.files.filesystem import OsFileSystem
from tests.broker.authorizer.peers import allow


def open_broker(directory: Path, **settings: str) -> None:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    beside = {"log.dirs": str(directory), "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = Broker(Config({**beside, "authorizer.class.name": STANDARD, **given}))
    try:
        broker.open()
    finally:
        broker.release()


def test_start_fails_when_acl_file_has_disappeared(tmp_path: Path) -> None:
    open_broker(tmp_path, super_users="User:a")
    file = AclFile(OsFileSystem(), str(tmp_path))
    file.write([allow("t")])
    open_broker(tmp_path, super_users="User:a")
    (tmp_path / "acls.json").unlink()
    with pytest.raises(BadDirectory, match=r"acls\.json"):
        open_broker(tmp_path, super_users="User:a")
    open_broker(tmp_path, super_users="User:a", log_recovery_missing="acls.json")


@pytest.mark.parametrize("text", ['{"version": 2, "acls": []}', '{"version": 1, "acls": [', ""])
def test_start_fails_when_acl_file_is_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / "acls.json").write_text(text)
    with pytest.raises(BadDirectory, match=r"acls\.json (has version 2|is damaged)"):
        open_broker(tmp_path, super_users="User:a")


def test_start_warns_when_the_authorizer_denies_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(secured.logger, "warning", said.append, raising=False)
    open_broker(tmp_path)
    assert len(said) == 1
    assert said[0].startswith("authorizer denies every request")
    open_broker(tmp_path, super_users="User:a")
    open_broker(tmp_path, **{"allow.everyone.if.no.acl.found": "true"})
    AclFile(OsFileSystem(), str(tmp_path)).write([allow("t")])
    open_broker(tmp_path)
    assert len(said) == 1
