"""Tests that a truncated or damaged request gets a response or closes the connection, without an
internal error."""

from __future__ import annotations

from pathlib import Path
from random import Random

from structlog.testing import capture_logs

from tests.broker.apis.authorization.asking import guarded_broker
from tests.broker.every_request import EVERY, asked
from tests.wire import Wire

CUTS = 2
"""The number of positions at which each request is truncated or damaged."""


async def test_truncated_or_damaged_request_causes_no_internal_error(tmp_path: Path) -> None:
    chance = Random(19)

    def talk(wire: Wire) -> None:
        port, user = wire.socket.getpeername()[1], wire.client_id
        connection = Wire(port, user)
        for api, version in EVERY:
            body = api.encode_request(version, asked(api, version))
            for _ in range(CUTS):
                if not body:
                    continue
                place = chance.randrange(len(body))
                nonsense = bytearray(body)
                nonsense[place] ^= chance.randrange(1, 256)
                for each in (body[:place], bytes(nonsense)):
                    connection.send_body(api.name, version, each)
                    try:
                        if api.name != "Produce":
                            connection.receive()
                            continue
                    except Exception:  # noqa: BLE001 - closed or undecodable: both are answers
                        pass
                    connection.close()
                    connection = Wire(port, user)
        connection.close()

    with capture_logs() as lines:
        async with guarded_broker(tmp_path, "alice: READ GROUP *", "alice: READ TOPIC *") as asking:
            for user in ("stranger", "alice"):
                await asking.talk(user, talk)
            answered = asking.broker.server.answered()
    assert answered > len(EVERY)
    assert [each for each in lines if each["event"].startswith("connection closed: not a Kafka")]
    assert [each for each in lines if each["event"] == "request failed: internal error"] == []
