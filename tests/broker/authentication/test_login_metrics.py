from __future__ import annotations

from pathlib import Path

from broker.metrics.exposition import render
from tests.broker.authentication.letting_in import broker_with_logins, connect, log_in


async def test_logins_are_counted_by_mechanism_and_result_without_user_names(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client, other, stranger = [await connect(broker) for _ in range(3)]
        await log_in(client)
        await log_in(other, "alice", "wrong")
        stranger.send_raw(b"\0")
        text = b"".join([part async for part in render(broker.sources)]).decode()

    def value(mechanism: str, result: str) -> str:
        labels = f'listener="SASL_PLAINTEXT",mechanism="{mechanism}",result="{result}"'
        return next(
            line.split()[1]
            for line in text.splitlines()
            if line.startswith(f"muster_authentication_total{{{labels}}}")
        )

    assert [value("PLAIN", each) for each in ("success", "failure", "expired")] == [
        "1.0",
        "1.0",
        "0.0",
    ]
    assert value("SCRAM-SHA-512", "reauthentication_failure") == "0.0"
    assert "\nmuster_connections_before_login 1.0\n" in text
    assert "alice" not in text
