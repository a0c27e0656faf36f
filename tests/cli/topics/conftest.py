"""Fixtures of the tests of topic commands."""

from __future__ import annotations

import pytest

from tests.brokers import Broker


@pytest.fixture
def bootstrap(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the shared broker, which MUSTER_BOOTSTRAP has during the test."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    return broker.bootstrap
