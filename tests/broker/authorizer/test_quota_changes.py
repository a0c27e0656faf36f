"""Tests the quota file: quotas survive a restart, and a failed write does not change quotas."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from broker.authorizer.quota_changes import FILE, QuotaFile
from broker.broker import BadDirectory
from security.quotas.entities import Entity
from tests.broker.serving import asked, serving


async def test_quotas_survive_a_restart_in_a_file_that_only_its_owner_may_read(
    tmp_path: Path,
) -> None:
    entities = [Entity("a b*"), Entity("a b*", None), Entity(client_id="c"), Entity(ip="10.0.0.1")]
    async with serving(tmp_path) as broker:
        alter = broker.secured.quotas.alter
        await alter({entity: {"producer_byte_rate": 5.0} for entity in entities[:3]})
        await alter({entities[3]: {"connection_creation_rate": 2.0}})
        await alter({entities[2]: {"request_percentage": 0.5}})
        await alter({entities[0]: {"producer_byte_rate": None}})
        kept = {**broker.secured.quotas.values}
        assert list(kept) == entities[1:]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    async with serving(tmp_path) as broker:
        assert broker.secured.quotas.values == kept
        assert broker.secured.quotas.quotas.bound_clients
        assert broker.server.address_rates is not None


@pytest.mark.parametrize(
    "entry",
    [
        {"entity": {"user": "a"}, "values": {"producer_byte_rate": 0}},
        {"entity": {"user": "a"}, "values": {"nonsense": 1}},
        {"entity": {}, "values": {"producer_byte_rate": 1}},
        {"values": {}},
        "text",
    ],
)
async def test_start_fails_when_quota_file_has_an_invalid_entry(
    entry: object, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_text(json.dumps({"version": 1, "quotas": [entry]}))
    with pytest.raises(BadDirectory, match="an entry is not a quota"):
        async with serving(tmp_path):
            pass


async def test_quota_change_does_not_take_effect_when_its_write_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        quotas = broker.secured.quotas

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(broker.fs, "create_private", full)
        failed = await quotas.alter({Entity("a"): {"producer_byte_rate": 5.0}})
        assert failed == {Entity("a"): "The disk reports: No space left on device."}
        assert quotas.values == {}
        assert not quotas.quotas.bound_clients


async def test_alter_client_quotas_of_many_entities_writes_the_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = []
    put = QuotaFile._put
    monkeypatch.setattr(QuotaFile, "_put", lambda *of: writes.append(of) or put(*of))
    ops = [{"key": "producer_byte_rate", "value": 5.0, "remove": False}]
    entries = [
        {"entity": [{"entity_type": "user", "entity_name": f"u{number}"}], "ops": ops}
        for number in range(300)
    ]
    async with serving(tmp_path) as broker:
        asked_for = {"entries": entries, "validate_only": False}
        answer = await asked(broker, lambda wire: wire.call("AlterClientQuotas", 1, asked_for))
        assert {each["error_code"] for each in answer["entries"]} == {0}
        assert len(broker.secured.quotas.values) == 300
    assert len(writes) == 1
