"""The test mode of `muster serve --test`: tests control a broker's time, files and faults.

Where to change:

- a verb or a fault of `/test`: a row in a module of `broker/test_mode/verbs/`, which
  `broker/test_mode/verbs/table.py` lists. The effect of a verb on a group is in
  `coordinator/on_command.py`. Then docs/test/testing-with-muster.md, `tests/broker/test_mode`.
- a verb of a cluster: `cluster.py`, `cluster_faults.py` and `coordinated.py` in
  `broker/test_mode/verbs/`. Then `musterd/testing/cluster.py`, docs/test/clusters.md,
  `tests/musterd/testing/test_cluster.py`.
- the brokers of a tested cluster, and the links between them: `broker/test_mode/cluster/`. Then
  `tests/musterd/testing/test_cluster.py`.
- the registry that these brokers use in place of ZooKeeper: `broker/test_mode/registry/`. Then
  `tests/broker/cluster/zookeeper/test_zookeeper_conduct.py`, which compares the registry with a
  real ZooKeeper.
"""
