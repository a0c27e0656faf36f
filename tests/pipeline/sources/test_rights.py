"""Tests with a client that lacks ACLs on topics. The error names each topic that the client may not
describe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client.settings import read_settings
from pipeline.errors import PipelineError
from pipeline.sources.open import open_feed, open_source
from protocol import errors
from tests.broker.handed_on.scene import ADMIN, ALICE, Scene, scene
from tests.brokers import KafkaBroker, running
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.pipeline.committing import commit
from tests.pipeline.fake_brokers import FakeBroker, Value, listed

LOG = "__consumer_offsets"
DENIED = (
    "TOPIC_AUTHORIZATION_FAILED; the client needs the ACLs Describe and Read on the topic " + LOG
)
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def properties(folder: Path, user: str) -> Path:
    """Returns the path of a new file with client properties for ``user``."""
    file = folder / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="{user}" password="{user}-secret";\n'
    )
    return file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yields a Muster with an authorizer, on which one offset was committed."""
    with scene(tmp_path_factory.mktemp("secured")) as made:
        topic, group = made.topic(b"one"), made.group()
        made.admin.call("OffsetCommit", 8, {
            "group_id": group, "generation_id_or_member_epoch": -1, "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [{
                "partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1,
                "committed_metadata": "",
            }]}],
        })  # fmt: skip
        yield made


@pytest.mark.parametrize("job", ["commits", "events", "all"])
def test_job_fails_when_the_client_may_not_describe_the_offsets_topic(
    secured: Scene, tmp_path: Path, job: str
) -> None:
    where, out = f"127.0.0.1:{secured.port}", tmp_path / "out"
    words = ["--source", where, "--command-config", str(properties(tmp_path, ALICE))]

    ran = run("pipeline", job, *words, "--out", str(out))

    assert (ran.code, ran.err) == (1, f"muster: {where}: {DENIED}\n")
    assert not out.exists()


def test_error_names_the_read_acl_when_the_client_has_only_describe(
    secured: Scene, tmp_path: Path
) -> None:
    secured.grant(ALICE, f"DESCRIBE TOPIC {LOG}")
    words = ["--source", f"127.0.0.1:{secured.port}", "--out", str(tmp_path / "out")]
    alice = ["--command-config", str(properties(tmp_path, ALICE))]
    try:
        ran = run("pipeline", "commits", *words, *alice)
    finally:
        secured.revoke_all()

    assert ran.code == 1
    assert ran.err.endswith(f"; the client needs the ACL Read on the topic {LOG}\n")


def test_topics_hidden_by_acls_are_named_and_their_lag_is_unknown(
    secured: Scene, tmp_path: Path
) -> None:
    where = f"127.0.0.1:{secured.port}"
    secured.grant(ALICE, f"READ TOPIC {LOG}")
    words = ["pipeline", "lag", "--source", where, "--out", str(tmp_path / "out")]
    alice = ["--command-config", str(properties(tmp_path, ALICE))]
    admin = ["--command-config", str(properties(tmp_path, ADMIN))]
    try:
        named = run(*words, *alice, "--topic", "topic-0")
        absent = run(*words, *admin, "--topic", "nosuch")
        made = run(*words, *alice, "--json")
    finally:
        secured.revoke_all()

    assert (named.code, absent.code, made.code) == (1, 1, 0), made.err
    assert "TOPIC_AUTHORIZATION_FAILED; the client needs the ACL Describe on the topic topic-0" in (
        named.err
    )
    assert f"{where} has no topic nosuch" in absent.err
    assert made.json["hidden"] == ["topic-0"]
    assert (
        "does not let the client describe the topics topic-0, so their lag is unknown; grant the"
        " client the ACL" in made.err
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errors.TOPIC_AUTHORIZATION_FAILED, DENIED),
        (errors.UNKNOWN_TOPIC_OR_PARTITION, f"has no {LOG}: no group has committed there yet"),
    ],
)
def test_offsets_topic_that_metadata_omits_is_looked_up_with_list_offsets(
    code: int, said: str
) -> None:
    """The pipeline can't ask for the topic in a Metadata request: a broker older than Kafka 2.8
    would create the topic."""

    def metadata(broker: FakeBroker, _: Value) -> Value:
        here = {"node_id": 1, "host": "127.0.0.1", "port": broker.port}
        return {"brokers": [here], "cluster_id": "one", "topics": []}

    answers = {
        "Metadata": metadata,
        "ListOffsets": lambda _, asked: listed(asked, lambda *_: -1, code),
    }
    with FakeBroker(answers) as broker:
        with pytest.raises(PipelineError, match=said):
            open_source(f"127.0.0.1:{broker.port}")
        assert [each["topics"] for each in broker.requests("Metadata")] == [None]


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_pipeline_reports_missing_right_on_the_offsets_topic_of_kafka(tmp_path: Path) -> None:
    """The test runs against Apache Kafka 4.3.1."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{MODULE} required user_admin="admin-secret" user_alice="alice-secret";'
        ),
    }
    broker = KafkaBroker(tmp_path / "data", settings, listeners=("SASL_PLAINTEXT",))
    with running(broker):
        where = broker.listeners["SASL_PLAINTEXT"]
        alice = read_settings(properties(tmp_path, ALICE)).security
        for absent_or_hidden in range(2):
            for opened in (open_source, lambda *of: open_feed(*of).look()):
                with pytest.raises(PipelineError, match=DENIED):
                    opened(where, alice)
            if not absent_or_hidden:
                with pytest.raises(PipelineError, match="no group has committed there yet"):
                    open_source(where, read_settings(properties(tmp_path, ADMIN)).security)
                Cluster(broker.bootstrap).create_topic("orders", 1)
                commit({"bootstrap.servers": broker.bootstrap}, "billing", [("orders", 0, 0)])
