"""The log on disk: segments, indexes and recovery.

The file system is passed in, so that tests can replace it.

Where to change:

- what a partition accepts from a producer, and which markers: `log/producers/producer_state.py`.
  Then the tables in `tests/log/test_log_markers.py`.
- how many producers are remembered, and their memory: `log/producers/producer_table.py`;
  `broker/topics/maintenance.py` removes them. Then `tests/log/test_many_producers.py`.
- the effect of missing files on a start: `log/missed.py`, `broker/topics/directory/missing.py`.
  Then the table in docs/operate/operating.md.
- what a cleaning keeps: `log/cleaner/cleaner.py`, `log/cleaner/clean_batch.py`. Then
  docs/internals/cleaning.md.
"""
