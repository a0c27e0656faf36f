"""The settings of `muster serve --test`: its defaults, and the settings that it rejects."""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.config import Config, WrongUse
from broker.config.config_table import Value
from broker.config.http_settings import is_loopback, is_protected
from broker.config.listeners import parse_host_and_port

DEFAULTS: Mapping[str, Value] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "http.listener": "127.0.0.1:0",
    "http.unprotected.allowed": True,  # `check` restricts HTTP to loopback
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
"""The default settings; every other source of settings overrides them."""


def check(config: Config) -> None:
    """Raises WrongUse for settings that a broker in test mode does not support; the message is one
    sentence."""
    if config.is_in_cluster:
        raise WrongUse("--test: a broker for tests is standalone; remove zookeeper.connect")
    for each in config.listeners:
        if not is_loopback(each.host):
            raise WrongUse(f"--test: the listener {each.address} is not on loopback; {_LOOPBACK}")
    where = config["http.listener"]
    if where == "off":
        raise WrongUse("--test: /test needs HTTP; set http.listener to an address, not off")
    if not is_loopback(parse_host_and_port(where)[0]):
        raise WrongUse(f"--test: the HTTP address {where} is not on loopback; {_LOOPBACK}")
    if is_protected(config) or config["http.security.protocol"] != "PLAINTEXT":
        raise WrongUse(
            "--test can't be combined with http.authentication, http.metrics.token or"
            " http.security.protocol, because /test has neither a login nor TLS; remove these"
            " settings"
        )


_LOOPBACK = "a broker for tests is not protected; use 127.0.0.1, ::1 or localhost"
