"""The log on disk: segments, indexes and recovery.

The file system is an argument of the functions, so that tests can replace it.

Where to change:

- the batches and markers that a partition accepts: `log/producers/producer_state.py`.
  Then the tables in `tests/log/test_log_markers.py`.
- the number of producers that are kept, and their memory:
  `log/producers/producer_table.py`; `broker/topics/maintenance.py` removes producers.
  Then `tests/log/test_many_producers.py`.
- the effect of missing files on a start: `log/missed.py`,
  `broker/topics/directory/missing.py`. Then the table in docs/operate/operating.md.
- the records that a cleaning keeps: `log/cleaner/cleaner.py`,
  `log/cleaner/clean_batch.py`. Then docs/internals/cleaning.md.
"""
