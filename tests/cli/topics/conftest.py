from __future__ import annotations

import pytest

from tests.brokers import Broker


@pytest.fixture
def bootstrap(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets MUSTER_BOOTSTRAP to the address of the shared broker, and returns the address."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    return broker.bootstrap
