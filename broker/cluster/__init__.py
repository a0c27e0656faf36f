"""The cluster's edge: ZooKeeper, the controller's host, replicas, and requests between brokers.

Where to change:

- how a broker executes the controller's requests; how a follower handles responses; ISR writes:
  `broker/cluster/replicas/replicas.py`; `followed.py`; `isr_writer.py`, `isr_states.py`. Then
  `tests/broker/cluster`.
- which requests wait in a controller's channel; how often a line is logged:
  `broker/cluster/controller/superseded.py`; `broker/cluster/lines.py`. Then
  `tests/broker/cluster`.
- the lag of partitions that other brokers lead: `broker/cluster/topics/remote_end_offsets.py`.
  Then `tests/broker/cluster/topics/test_remote_end_offsets.py`.
- the format of group records in a cluster with older brokers:
  `broker/cluster/coordinators/old_forms.py`. Then
  `tests/broker/cluster/coordinators/test_old_forms.py`.
- a move from Kafka and back: docs/use/moving.md. Then `tests/interop/test_rolling_moves.py`.
- whether a broker that was paused still has its role:
  `broker/cluster/membership/registration_fence.py`. Then
  `tests/broker/cluster/membership/test_registration_fence.py`.
- coordinators when leadership moves; markers, verification and states of share partitions on
  other brokers: `broker/cluster/coordinators/coordinators.py`; `remote_markers.py`,
  `remote_add_partitions.py`, `remote_share_states.py`. Then
  `tests/broker/cluster/coordinators/test_coordinators_move.py`,
  `tests/broker/cluster/coordinators/test_share_groups_move.py`.
- changes of topics and settings in a cluster; the placement of replicas:
  `broker/cluster/topics/cluster_topics.py`, `cluster_configs.py`, `replica_assignment.py`. Then
  `tests/interop/test_cluster_tools.py`.
- the simulated cluster and its checks: `tests/simulation/cluster/`. Then run its planted faults.
- the start and the stop of a broker in a cluster: `broker/cluster/cluster_broker.py`;
  `membership/joining.py`, `registration.py`. Then `tests/broker/cluster`,
  `tests/interop/test_clusters.py`.
"""
