"""Tests the configuration: precedence of sources, accepted values, and derived settings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.config.config import BadConfig, Config, log_config, timestamp_bounds, topic_settings
from broker.config.config_table import BROKER, BROKER_NAME_OF_TOPIC_SETTING, TOPIC
from broker.config.config_value import BadValue, render
from broker.config.sources import load
from broker.config.variables import of_services
from log.config import LogConfig
from protocol.properties import parse

ROOT = Path(__file__).parents[3]
KAFKA = json.loads((ROOT / "tests/data/schema/configs.json").read_text())


def configured(*sets: str, **flags: str) -> Config:
    return load(None, {}, sets, flags)


# -- sources


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nlog.segment.bytes=1000\nlog.roll.ms=1\nlog.dir=/a\n")
    environment = {"MUSTER_LOG_SEGMENT_BYTES": "2000", "MUSTER_LOG_ROLL_MS": "2", "PATH": "/bin"}

    config = load(file, environment, ["log.roll.ms=3"], {"log.dir": "/b"})

    assert config["num.partitions"] == 1
    assert config["log.segment.bytes"] == 2000
    assert config["log.roll.ms"] == 3
    assert config.directories == ["/b"]
    assert config["log.retention.hours"] == 168


def test_unknown_settings_are_listed_without_an_error(tmp_path: Path) -> None:
    of_commands = {"MUSTER_BOOTSTRAP": "b", "MUSTER_HTTP": "h", "MUSTER_SOURCE": "s"}
    settings = {"MUSTER_NO_SUCH": "1", "MUSTER_HTTP_LISTENER": "127.0.0.1:1"}
    config = load(None, of_commands | settings, ["nor.this=2"], {})

    assert config.unknown == ["MUSTER_NO_SUCH", "nor.this"]
    assert config["http.listener"] == "127.0.0.1:1"


OF_A_SERVICE = {
    "MUSTER_SERVICE_HOST": "10.0.0.1",
    "MUSTER_SERVICE_PORT": "9092",
    "MUSTER_SERVICE_PORT_KAFKA": "9092",
    "MUSTER_PORT": "tcp://10.0.0.1:9092",
    "MUSTER_PORT_9092_TCP": "tcp://10.0.0.1:9092",
    "MUSTER_PORT_9092_TCP_PROTO": "tcp",
    "MUSTER_PORT_9092_TCP_PORT": "9092",
    "MUSTER_PORT_9092_TCP_ADDR": "10.0.0.1",
    "MUSTER_HTTP_SERVICE_HOST": "10.0.0.2",
    "MUSTER_SSL_PORT": "tcp://10.0.0.3:9093",
}
"""The variables that Kubernetes sets for services named muster, muster-http and muster-ssl."""


def test_service_variables_of_kubernetes_are_not_settings() -> None:
    meant = {"MUSTER_NUM_PARTITIONS": "3", "MUSTER_NUM_PARTITION": "3"}
    written = {"MUSTER_PORT_9093_TCP_PORT": "here", "MUSTER_ADVERTISED_PORT": "9092"}

    config = load(None, OF_A_SERVICE | meant | written, [], {})

    assert config["num.partitions"] == 3
    assert config.unknown == [
        "MUSTER_ADVERTISED_PORT",
        "MUSTER_NUM_PARTITION",
        "MUSTER_PORT_9093_TCP_PORT",
    ]
    assert of_services(OF_A_SERVICE | meant | written) == sorted(OF_A_SERVICE)


def test_environment_variable_muster_port_with_only_a_number_is_reported_as_unknown() -> None:
    assert load(None, {"MUSTER_PORT": "9092"}, [], {}).unknown == ["MUSTER_PORT"]


def test_error_names_a_properties_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"--config .*none can't be read: No such file"):
        load(tmp_path / "none", {}, [], {})
    with pytest.raises(BadConfig, match="--config /dev/zero is larger than 16 MiB"):
        load(Path("/dev/zero"), {}, [], {})


@pytest.mark.parametrize("pair", ["num.partitions", "=3"])
def test_set_option_without_a_name_or_a_value_is_refused(pair: str) -> None:
    with pytest.raises(BadConfig, match="write it as --set NAME=VALUE"):
        configured(pair)


def test_properties_file_is_parsed_with_the_syntax_of_java() -> None:
    text = "# one\n! two\n a = 1\nb: 2\nc 3\nlong=one,\\\n   two\nu=\\u00e4\\t\\=\nempty=\nkey\n"

    assert parse(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "long": "one,two",
        "u": "ä\t=",
        "empty": "",
        "key": "",
    }


# -- values


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("num.partitions=0", "num.partitions=0: it must be at least 1"),
        ("num.partitions=many", "num.partitions=many: it must be a whole number"),
        ("num.partitions=2147483648", "it must be at most 2147483647"),
        ("num.partitions=1_000", "num.partitions=1_000: it must be a whole number"),
        ("num.partitions=12.0", "num.partitions=12.0: it must be a whole number"),
        ("log.cleaner.min.cleanable.ratio=nan", "ratio=nan: it must be a number"),
        ("log.cleaner.min.cleanable.ratio=-1e-3", "it must be at least 0"),
        ("log.cleaner.min.cleanable.ratio=1.5", "it must be at most 1"),
        ("auto.create.topics.enable=yes", "it must be true or false"),
        ("log.message.timestamp.type=Never", "it must be one of CreateTime, LogAppendTime"),
        ("log.cleanup.policy=delete,burn", "burn: it must be one of compact, delete"),
        ("compression.gzip.level=0", "it must be at least 1, or -1"),
        ("offsets.topic.compression.codec=5", "it must be 0 (none), 1 (gzip)"),
        ("offsets.commit.required.acks=2", "it must be -1, 0 or 1"),
        ("log.dirs=/a,/b", "log.dirs has 2 directories"),
        ("listeners=here", "'here' is not NAME://HOST:PORT"),
        ("listeners=SSL://:9093", "listener SSL has the protocol SSL, which needs a certificate"),
        (
            "listener.security.protocol.map=PLAINTEXT:TLS",
            "security protocol TLS is unknown; use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ("listeners=A://:1", "A is not in listener.security.protocol.map"),
        ("listeners=PLAINTEXT://:1,PLAINTEXT://:2", "two listeners have the same name"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "clients can't connect to 0.0.0.0"),
        ("advertised.listeners=SSL://a:1", "advertised listener SSL is not in"),
        ("max.connections.per.ip.overrides=1.2.3.4", "it must be ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides=::1", "overrides=::1: : is neither an address nor a"),
        ("max.connections.per.ip.overrides=1.2.3:4", "1.2.3 is neither an address nor a host name"),
        ("max.connections.per.ip.overrides=[a]:4", "[a] is neither an address nor a host name"),
        ("max.connections.per.ip.overrides=a b:4", "a b is neither an address nor a host name"),
        ("max.connections.per.ip.overrides=a:-1", "it must be ADDRESS:NUMBER"),
        (
            "max.connections.per.ip=0",
            "without max.connections.per.ip.overrides rejects every connection",
        ),
        ("http.listener=nowhere", "is not HOST:PORT"),
        (
            "http.advertised.listener=nowhere",
            "http.advertised.listener: 'nowhere' is not HOST:PORT",
        ),
        ("http.allowed.hosts=a.example:80", "it must be a name without a port, or *"),
        ("http.allowed.hosts=a*.example", "http.allowed.hosts=a*.example: it must be a name"),
        ("log.format=yaml", "it must be one of console, json"),
    ],
)
def test_invalid_value_is_refused_with_the_reason(pair: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        configured(pair)

    assert sentence in str(refused.value)


def test_each_invalid_setting_is_reported_once_and_causes_no_further_error() -> None:
    with pytest.raises(BadConfig) as refused:
        configured(
            "num.partitions=0",
            "log.dirs=/a,/b",
            "listeners=TLS://:9093,here",
            "advertised.listeners=PLAINTEXT://a:1",
            "group.min.session.timeout.ms=many",
            "group.max.session.timeout.ms=1",
            "http.allowed.hosts=a:1,b:2",
            "ssl.provider=BC",
        )

    assert [fault.sentence.partition(":")[0] for fault in refused.value.faults] == [
        "security settings are never ignored, and Muster does not support Java plug-in classes"
        " (ssl.provider); remove the settings that you do not need",
        "num.partitions=0",
        "group.min.session.timeout.ms=many",
        "log.dirs has 2 directories, but Muster has one data directory",
        "http.allowed.hosts=a",
        "http.allowed.hosts=b",
        "listeners",
    ]
    (listeners,) = [each for each in refused.value.faults if each.names[0] == "listeners"]
    assert "TLS is not in listener.security.protocol.map" in listeners.sentence
    assert "'here' is not NAME://HOST:PORT" in listeners.sentence


def test_config_provider_reference_is_refused_when_providers_are_set() -> None:
    value = "log.dirs=${env:DATA}"
    assert configured(value).directories == ["${env:DATA}"], "as in Kafka without a provider"

    with pytest.raises(BadConfig, match=r"^log\.dirs: the value refers to a config provider"):
        configured("config.providers=env", "config.providers.env.class=org.Env", value)


@pytest.mark.parametrize(
    ("pair", "instead"),
    [
        (
            "process.roles=controller",
            "Muster neither connects to a KRaft controller nor can be one",
        ),
        ("process.roles=broker", "Muster neither connects to a KRaft controller nor can be one"),
        (
            "controller.quorum.voters=1@a:1,2@b:1",
            "Muster does not join a quorum: this broker runs standalone",
        ),
        ("config.providers=file", "Muster does not have config providers: with a value"),
        ("min.insync.replicas=2", "a partition of a standalone broker has one replica"),
        (
            "remote.log.storage.system.enable=TRUE",
            "Muster does not have tiered storage: segments stay",
        ),
        ("replica.selector.class=org.Selector", "consumers fetch from the leader, not from the"),
        (
            "metric.reporters=org.Reporter",
            "Muster does not load Java classes; its metrics are at /metrics",
        ),
    ],
)
def test_setting_without_effect_is_reported_with_the_actual_behavior(
    pair: str, instead: str
) -> None:
    ((name, said),) = configured(pair).not_followed.items()

    assert name == pair.partition("=")[0]
    assert said.startswith(instead)


@pytest.mark.parametrize(
    "pair",
    [
        "process.roles=broker,controller",
        "controller.quorum.voters=1@localhost:9093",
        "min.insync.replicas=1",
        "num.io.threads=8",
    ],
)
def test_setting_without_effect_is_not_reported_if_its_value_matches_the_behavior(
    pair: str,
) -> None:
    assert configured(pair).not_followed == {}


def test_contradictory_settings_are_refused() -> None:
    with pytest.raises(BadConfig, match=r"must not be above group\.max"):
        configured("group.min.session.timeout.ms=9", "group.max.session.timeout.ms=8")
    with pytest.raises(BadConfig, match="the same setting, but have different values"):
        configured("broker.id=1", "node.id=2")


def test_gzip_level_minus_one_is_accepted() -> None:
    assert configured("compression.gzip.level=-1")["compression.gzip.level"] == -1


def test_broker_id_and_node_id_set_the_same_id() -> None:
    assert configured().configured_id is None
    assert configured("broker.id=0").configured_id == 0
    assert configured("node.id=5").configured_id == 5


# -- listeners


@pytest.mark.parametrize(
    ("listeners", "advertised", "told"),
    [
        ("PLAINTEXT://10.0.0.1:9092", None, ["10.0.0.1:9092"]),
        ("PLAINTEXT://[::1]:9092", None, ["[::1]:9092"]),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://kafka.example:19092", ["kafka.example:19092"]),
        (
            "IN://10.0.0.1:1,OUT://0.0.0.0:2",
            "OUT://kafka.example:3",
            ["10.0.0.1:1", "kafka.example:3"],
        ),
    ],
)
def test_advertised_addresses_come_from_advertised_listeners_or_from_listeners(
    listeners: str, advertised: str | None, told: list[str]
) -> None:
    sets = [f"listeners={listeners}"]
    sets += [f"advertised.listeners={advertised}"] if advertised else []
    sets += ["listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,OUT:PLAINTEXT"]

    endpoints = configured(*sets).advertised([1, 2][: len(told)])

    assert [endpoint.address for endpoint in endpoints] == told


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_listener_on_all_addresses_is_advertised_by_host_name(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "this.example")

    (told,) = configured(f"listeners=PLAINTEXT://{host}:9092").advertised([9092])

    assert told.address == "this.example:9092"


def test_port_0_is_advertised_as_the_bound_port() -> None:
    (told,) = configured("listeners=PLAINTEXT://127.0.0.1:0").advertised([40000])

    assert told.address == "127.0.0.1:40000"


# -- topics


@pytest.mark.parametrize(
    ("sets", "setting", "value"),
    [
        ([], "retention.ms", 7 * 24 * 3_600_000),
        (["log.retention.hours=1"], "retention.ms", 3_600_000),
        (["log.retention.hours=1", "log.retention.minutes=2"], "retention.ms", 120_000),
        (["log.retention.minutes=2", "log.retention.ms=3"], "retention.ms", 3),
        (["log.retention.ms=-1"], "retention.ms", -1),
        (["log.roll.hours=1"], "segment.ms", 3_600_000),
        (["log.roll.hours=1", "log.roll.ms=5"], "segment.ms", 5),
        (["log.roll.jitter.hours=1"], "segment.jitter.ms", 3_600_000),
        (["log.flush.interval.ms=7"], "flush.ms", 7),
        (["log.flush.scheduler.interval.ms=8"], "flush.ms", 8),
        (["message.max.bytes=9"], "max.message.bytes", 9),
        (["log.cleanup.policy=compact, delete"], "cleanup.policy", "compact,delete"),
    ],
)
def test_topic_without_a_setting_has_the_value_of_the_broker_setting(
    sets: list[str], setting: str, value: object
) -> None:
    assert topic_settings(configured(*sets), {})[setting] == value


def test_topic_setting_overrides_the_broker_setting() -> None:
    settings = topic_settings(configured("log.retention.ms=3"), {"retention.ms": "4"})

    assert settings["retention.ms"] == 4


def test_log_config_without_settings_has_the_defaults_of_kafka() -> None:
    config = configured()

    assert log_config(topic_settings(config, {}), config) == LogConfig()


def test_unknown_topic_settings_are_refused() -> None:
    with pytest.raises(BadValue, match="Unknown topic config name: colour"):
        topic_settings(configured(), {"colour": "red"})


def test_log_message_timestamp_difference_max_ms_is_the_default_of_both_timestamp_bounds() -> None:
    config = configured("log.message.timestamp.difference.max.ms=5")

    assert timestamp_bounds(topic_settings(config, {})) == (5, 5)
    own = topic_settings(config, {"message.timestamp.after.max.ms": "9"})
    assert timestamp_bounds(own) == (5, 9)
    assert timestamp_bounds(topic_settings(configured(), {})) == (None, None)


# -- the tables

OUR_OWN_DEFAULTS = {"listeners", "log.dir", "group.coordinator.append.linger.ms"}
OF_KAFKA_4 = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "group.share.partition.max.record.locks": "2000",
}
"""Settings whose default must equal that of Kafka 4.3.1 instead of 3.9.2. The expected protocols
include `share`, which Kafka does not list because it always supports it."""
OUR_OWN_BOUNDS = {
    "group.coordinator.rebalance.protocols": {
        "valid": "[consumer, classic, share, streams, unknown]"
    },
    "group.share.max.size": {"type": "INT", "valid": "[1,...,1000]"},
    "group.share.record.lock.duration.ms": {"valid": "[1000,...,3600000]"},
}
"""Settings whose types or valid values differ from those of Kafka 3.9.2. That version does not know
`streams`, and its share groups were a preview."""
LONG_LISTS = {"inter.broker.protocol.version", "log.message.format.version"}


def test_broker_settings_table_has_kafkas_types_defaults_and_bounds() -> None:
    for old in KAFKA["broker (3.9.2)"]:
        row = old | OUR_OWN_BOUNDS.get(old["name"], {})
        setting = BROKER[row["name"]]
        assert setting.type == row["type"], row["name"]
        if row["name"] not in OUR_OWN_DEFAULTS and row["type"] not in ("PASSWORD", "DOUBLE"):
            shown = render(setting, setting.default)
            default = OF_KAFKA_4.get(row["name"], row["default"])
            assert ("null" if shown is None else shown) == default, row["name"]
        if (row["valid"] or "").startswith("[") and row["name"] not in LONG_LISTS:
            assert setting.valid == row["valid"], row["name"]


def test_topic_settings_table_has_the_names_types_and_defaults_of_kafka() -> None:
    assert set(TOPIC) == {row["name"] for row in KAFKA["topic (3.9.2)"]}
    for row in KAFKA["topic (3.9.2)"]:
        setting = TOPIC[row["name"]]
        assert setting.type == row["type"]
        assert render(setting, setting.default) == row["default"], row["name"]


def test_settings_table_has_group_coordinator_settings_of_kafka_4_3() -> None:
    assert {row["name"] for row in KAFKA["group coordinator (4.3.1)"]} <= set(BROKER)


def test_every_effective_broker_setting_is_read_by_the_source_code() -> None:
    readers = [*(ROOT / "broker").rglob("*.py"), ROOT / "verdicts/thresholds.py"]
    sources = "".join(
        path.read_text()
        for path in [*readers, ROOT / "cli/serve.py"]
        if path.name != "config_table.py"
    )
    through_topics = {name for names in BROKER_NAME_OF_TOPIC_SETTING.values() for name in names}

    def is_read(name: str) -> bool:
        rest = name.removeprefix("http.").removeprefix(
            "sasl.oauthbearer."
        )  # the source has the prefix only once
        return any(f'"{each}"' in sources for each in (name, rest))

    unread = [
        name
        for name, setting in BROKER.items()
        if setting.has_effect and name not in through_topics and not is_read(name)
    ]

    assert unread == []


def test_every_effective_topic_setting_is_read_by_the_source_code() -> None:
    read_by_logs = {field.replace("_", ".") for field in LogConfig.__dataclass_fields__}
    sources = "".join(
        (ROOT / "broker" / name).read_text()
        for name in (
            "topics/logs.py",
            "config/config.py",
            "apis/fetch/reading.py",
            "topics/produce_rules.py",
            "topics/topic_admin.py",
            "cluster/cluster_broker.py",
            "cluster/controller/controller_reads.py",
            "quotas/replication_quota.py",
        )
    )

    unread = [
        name
        for name, setting in TOPIC.items()
        if setting.has_effect and name not in read_by_logs and f'"{name}"' not in sources
    ]

    assert unread == []


def test_settings_page_equals_the_generated_page() -> None:
    done = subprocess.run(
        [sys.executable, "tools/make_configuration.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert done.returncode == 0, "run tools/make_configuration.py"
