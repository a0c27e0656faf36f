"""One module per served API: it decodes the request and encodes the response.

Where to change:

- the first write to a partition, which adds the partition to a transaction:
  `broker/apis/shared/add_partitions_on_write.py`. Then
  `tests/broker/apis/test_add_partitions_on_write.py`.
- the clients that may read from a follower: `broker/apis/shared/any_replica.py`. Then
  `tests/broker/cluster/replicas/test_replica_requests.py`.
- the response to a denied request: the handler, after `is_allowed`, `denied` or `split` of
  `broker/apis/shared/authorization.py`. Then `tests/broker/apis/authorization`.
- the owner of state that one request stores for later requests: the handler that uses the state;
  for fetch sessions `broker/apis/fetch/sessions.py`. Then the table in `tests/broker/handed_on/`.
- how much of a quota a request uses, and the throttle time in the response:
  `broker/apis/throttling/`; `broker/net/limits/throttles.py` throttles the connection. Then
  `tests/broker/apis/throttling`.
- the error of a broker that is not the leader, coordinator or controller: the handler in
  `broker/apis/`. Then the table in `tests/cluster_errors/`, which
  `tests/interop/test_cluster_errors.py` compares with Kafka.
"""
