"""What the tests of the topic commands share."""

from __future__ import annotations

import pytest

from tests.brokers import Broker


@pytest.fixture
def bootstrap(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    """Commands speak to the shared broker."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    return broker.bootstrap
