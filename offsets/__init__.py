"""Committed offsets and the records of ``__consumer_offsets``: pure code that imports only
``protocol``.

See docs/formats/consumer-offsets.md.

Where to change:

- offsets of open transactions: `offsets/pending.py`, `coordinator/txn_commits.py`. Then
  `tests/offsets/test_pending.py`, `tests/golden/transactional_offsets.txt`.
- a record of `__consumer_offsets`: `offsets/record_values.py` (one record),
  `offsets/record_codec.py` and `offsets/section_reader.py` (many at once).
  Then docs/formats/consumer-offsets.md.
"""
