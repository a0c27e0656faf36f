"""kcat as a producer, as a consumer and as a group member, and the metadata that it lists."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.absent import program
from tests.brokers import Broker
from tests.interop.cluster import Cluster

pytestmark = pytest.mark.interop


def _kcat(broker: Broker, *arguments: str, text_in: str = "") -> str:
    done = subprocess.run(
        [program("kcat", "kcat"), "-b", broker.bootstrap, *arguments],
        input=text_in,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.smoke
def test_kcat_produces_consumes_and_lists_metadata(broker: Broker, name: str) -> None:
    Cluster(broker.bootstrap).create_topic(name, 1)
    _kcat(broker, "-P", "-t", name, "-K", ":", "-z", "lz4", text_in="k1:one\nk2:two\n")
    read = _kcat(broker, "-C", "-t", name, "-o", "beginning", "-e", "-q", "-f", "%o %k %s\n")
    assert read == "0 k1 one\n1 k2 two\n"
    assert _kcat(broker, "-Q", "-t", f"{name}:0:-1").split() == [name, "[0]", "offset", "2"]
    listed = json.loads(_kcat(broker, "-L", "-J", "-t", name))
    assert [len(topic["partitions"]) for topic in listed["topics"]] == [1]


def test_kcat_group_consumer_commits_and_continues_at_its_offsets(
    broker: Broker, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 1)
    _kcat(broker, "-P", "-t", name, text_in="one\ntwo\nthree\n")
    balanced = ("-q", "-G", f"{name}-group", "-X", "auto.offset.reset=earliest", "-c")
    assert _kcat(broker, *balanced, "2", name) == "one\ntwo\n"
    assert cluster.committed(f"{name}-group") == {(name, 0): 2}
    assert _kcat(broker, *balanced, "1", name) == "three\n"
