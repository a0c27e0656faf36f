"""Tests that the first user, who is added while the broker is down, logs in with SCRAM and adds a
second user."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.broker.authentication.letting_in import broker_with_logins, port_of
from tests.cli.running import Ran, run


def users(words: str, *more: str, password: str = "secret") -> Ran:
    return run("users", *words.split(), *more, stdin=f"{password}\n")


@pytest.mark.proves("security 7")
async def test_scram_user_added_offline_logs_in_with_a_non_ascii_password(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    assert users("add root", "--data-dir", str(data), password="pass\u00f6rd").code == 0
    only_scram = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    async with broker_with_logins(data, only_scram) as (broker, _):
        bootstrap = f"127.0.0.1:{port_of(broker)}"
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "root",
            "sasl.password": "pass\u00f6rd",
            "bootstrap.servers": bootstrap,
        }
        metadata = await asyncio.to_thread(lambda: AdminClient(login).list_topics(timeout=20))
        assert len(metadata.brokers) == 1

        config = tmp_path / "client.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={module} required username="root" password="pass\\u00f6rd";\n'
        )
        at = ["--bootstrap", bootstrap, "--command-config", str(config)]
        added = await asyncio.to_thread(lambda: users("add alice", *at))
        assert (added.code, added.err) == (0, "")
        assert broker.secured.users is not None
        assert list(broker.secured.users.names()) == ["alice", "root"]
    kept = json.loads((data / "users.json").read_text())
    assert sorted(kept["users"]) == ["alice", "root"]
