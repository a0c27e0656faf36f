"""Straight-line codecs for hot APIs; written by ``tools/make_codecs.py``.

``DECODE_REQUEST[version](buffer, position)`` gives a tuple, the same for every version. A field
that a version does not have is given as its default:

- consumer_group_heartbeat: group_id, member_id, member_epoch, instance_id, rack_id,
  rebalance_timeout_ms, [topic name] or None, regex, server_assignor, [(topic id, partitions)] or
  None
- end_txn: transactional_id, producer_id, producer_epoch, committed
- heartbeat: group_id, generation_id, member_id, group_instance_id
- offset_commit: group_id, generation_id, member_id, group_instance_id, retention_time_ms,
  [(topic name or id, partitions, offsets, leader_epochs, metadata or None, commit_timestamps or
  None)]
- offset_fetch: [(group_id, member_id, member_epoch, [(topic name or id, partitions)] or None)],
  require_stable
- join_group: group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id,
  protocol_type, [(name, metadata)], reason
- sync_group: group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name,
  [(member_id, assignment)]
- produce: transactional_id, acks, timeout_ms, [(topic name or id, [(index, records or None)])]
- fetch: replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
  [(topic name or id, [(partition, current_leader_epoch, fetch_offset, last_fetched_epoch,
  log_start_offset, partition_max_bytes)])], forgotten [(topic name or id, partitions)], rack_id
- share_fetch: group_id, member_id, share_session_epoch, max_wait_ms, min_bytes, max_bytes,
  max_records, batch_size, share_acquire_mode, is_renew_ack, [(topic id, [(partition,
  [(first_offset, last_offset, acknowledge types)])])], forgotten [(topic id, partitions)]
- txn_offset_commit: transactional_id, group_id, producer_id, producer_epoch, generation_id,
  member_id, group_instance_id, and topics as in offset_commit

``ENCODE_RESPONSE[version](correlation_id, throttle_time_ms, ...)`` gives the whole frame with its
length. The arguments after throttle_time_ms:

- consumer_group_heartbeat: error_code, error_message, member_id, member_epoch,
  heartbeat_interval_ms, [(topic id, partitions)] or None
- end_txn: error_code, producer_id, producer_epoch
- heartbeat: error_code
- offset_commit, txn_offset_commit: [(topic name or id, partitions, error code or column of codes)]
- offset_fetch: [(group_id, error_code, [(topic name or id, partitions, offsets, leader_epochs,
  metadata or None, error code or column of codes)])]
- join_group: error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment,
  member_id, [(member_id, group_instance_id, metadata)]
- sync_group: error_code, protocol_type, protocol_name, assignment
- fetch, a list of chunks: error_code, session_id, [(topic name or id, partitions with the names of
  `Fetched`)]
- share_fetch, a list of chunks: error_code, error_message, acquisition_lock_timeout_ms,
  [(topic id, partitions with the names of `ShareFetched`)]
- produce, whose throttle_time_ms is the last one: [(topic name or id, [(index, error_code,
  base_offset, log_append_time_ms, log_start_offset, [(batch_index, message)], error_message)])]

A column is a tuple of ints or strings; a metadata column is
None when every entry is null or empty.
"""

from typing import Final

C_SOURCES: Final = "adef4724cbeb8362"
"""The digest of the files in ``protocol/c``, some of which have the same codecs in C."""
