"""The cluster's edge: ZooKeeper, the controller's host, replicas, and requests between brokers.

Where to change:

- how a broker executes the controller's requests: `broker/cluster/replicas/replicas.py`. Then
  `tests/broker/cluster`.
- how a follower handles the leader's responses: `broker/cluster/replicas/followed.py`. Then
  `tests/broker/cluster`.
- how ISR changes are written: `broker/cluster/replicas/isr_writer.py` and
  `broker/cluster/replicas/isr_states.py`. Then `tests/broker/cluster`.
- which requests wait in a controller's channel: `broker/cluster/controller/superseded.py`. Then
  `tests/broker/cluster`.
- how often a log line is written: `broker/cluster/lines.py`. Then `tests/broker/cluster`.
- the lag of partitions that other brokers lead: `broker/cluster/topics/remote_end_offsets.py`.
  Then `tests/broker/cluster/topics/test_remote_end_offsets.py`.
- the format of group records in a cluster with older brokers:
  `broker/cluster/coordinators/old_forms.py`. Then
  `tests/broker/cluster/coordinators/test_old_forms.py`.
- a move from Kafka and back: docs/use/moving.md. Then `tests/interop/test_rolling_moves.py`.
- whether a broker that was paused still has its role:
  `broker/cluster/membership/registration_fence.py`. Then
  `tests/broker/cluster/membership/test_registration_fence.py`.
- the coordinators when leadership moves: `broker/cluster/coordinators/coordinators.py`. Then
  `tests/broker/cluster/coordinators/test_coordinators_move.py`,
  `tests/broker/cluster/coordinators/test_share_groups_move.py`.
- requests of coordinators to other brokers, in `broker/cluster/coordinators/`: `remote_markers.py`
  for markers, `remote_add_partitions.py` for the verification of transactions,
  `remote_share_states.py` for the states of share partitions. Then the same two tests.
- changes of topics and settings in a cluster: `broker/cluster/topics/cluster_topics.py` and
  `broker/cluster/topics/cluster_configs.py`. Then `tests/interop/test_cluster_tools.py`.
- the placement of replicas: `broker/cluster/topics/replica_assignment.py`. Then
  `tests/interop/test_cluster_tools.py`.
- the simulated cluster and its checks: `tests/simulation/cluster/`. Then run the simulation's
  planted faults.
- the start and the stop of a broker in a cluster: `broker/cluster/cluster_broker.py`,
  `broker/cluster/membership/joining.py`, `broker/cluster/membership/registration.py`. Then
  `tests/broker/cluster`, `tests/interop/test_clusters.py`.
"""
