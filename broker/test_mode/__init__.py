"""The test mode of `muster serve --test`: tests control a broker's time, files and faults.

Where to change:

- a verb or a fault of `/test`: a row in `broker/test_mode/verbs/`, listed in `verbs/table.py`;
  its effect on a group is in `coordinator/on_command.py`. Then docs/test/testing-with-muster.md,
  `tests/broker/test_mode`.
- a verb of a cluster: `verbs/cluster.py`, `cluster_faults.py`, `coordinated.py`; the brokers and
  their links: `cluster/`; their registry in place of ZooKeeper: `registry/`, which
  `tests/broker/cluster/zookeeper/test_zookeeper_conduct.py` compares with a real ZooKeeper. Then
  `musterd/testing/cluster.py`, docs/test/clusters.md, `tests/musterd/testing/test_cluster.py`.
"""
