"""The group coordinator as pure code: groups, members and the state machine.

Where to change:

- the response of an API in a group state: its handler in
  `coordinator/classic/joining.py`, `coordinator/classic/membership.py`,
  `coordinator/commits.py`, `coordinator/deletion.py` or `coordinator/views.py`. Then the table in
  docs/internals/coordinator.md, and the golden files by `make golden`.
- the admin actions that make a group miss records: `LostByAdmin` in
  `coordinator/events.py`; deleted records and topics in `broker/apis/shared/losses.py`;
  the view of the web page in `broker/web/views/noticed.py`. Then
  `broker/web/openapi.json`, `tests/coordinator/test_losses.py`.
- the checks of a ShareGroupHeartbeat and their error messages:
  `coordinator/share/heartbeat.py`. Then `tests/coordinator/share/test_heartbeat.py`,
  `tests/interop/test_share_groups_as_kafka.py`.
- the checks of a StreamsGroupHeartbeat and their error messages:
  `coordinator/streams/malformed.py`, then
  `coordinator/streams/heartbeat.py` and `coordinator/streams/advance.py`. Then
  `tests/coordinator/streams/test_heartbeat.py`.
- the reasons for which joins are rejected, and their texts:
  `coordinator/classic/refused_joins.py`. Then `tests/coordinator/test_refused_joins.py`,
  `tests/coordinator/test_golden.py`.
"""
