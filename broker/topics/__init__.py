"""Topics and their partitions: the registry, the logs, retention, cleaning, long polls.

Where to change:

- the last stable offset, and the aborted transactions in a Fetch: `broker/topics/last_stable.py`,
  `log/indexes/transaction_index.py`. Then `tests/log/test_transaction_index.py`.
- which partitions a follower's fetch reads: `broker/topics/replicas/idle_followers.py`,
  `broker/apis/fetch/sessions.py`. Then `tests/broker/topics/test_quiet_followers.py`.
- which requests a replica answers as leader or follower, and the appends of a follower:
  `broker/topics/replicas/replica.py`; `log/replicated.py`. Then
  `tests/broker/topics/test_partition_roles.py`, `tests/log/test_replicated_appends.py`.
"""
