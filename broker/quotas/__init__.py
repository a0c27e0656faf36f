"""The quotas of clients, and the throttles of replication.

Where to change:

- which quota applies to a client: `security/quotas/entities.py`. Then
  `tests/broker/quotas/test_client_quotas.py`.
- how long a client waits: `broker/quotas/client_quotas.py`, `security/quotas/sampled_rate.py`,
  `security/quotas/token_bucket.py`. Then `tests/broker/quotas/test_client_quotas.py`.
- the throttle of replication: `broker/quotas/replication_quota.py`,
  `security/quotas/sampled_rate.py`. Then `tests/broker/quotas`,
  `tests/simulation/cluster/test_throttled_cluster.py`.
"""
