"""Jobs on Spark that turn the history in `__consumer_offsets` into tables, answers and repairs.

Where to change:

- what a record is in the history: `pipeline/model/events.py`, `sources/event_rows.py`; for the
  newer groups `sources/group_records.py`. Then `tests/pipeline/sources/`.
- when a topic's record arrived, whatever its date: `pipeline/sql/arrivals.py`; the requests to a
  broker for it in `pipeline/sources/wire/times.py`. Then `lag` in docs/use/pipeline.md,
  `tests/pipeline/sql/test_arrivals.py`.
- a state of a group: `pipeline/sql/groups.py`, the relation `group_states`. Then
  `tests/pipeline/sql/test_group_states.py`.
- what an archive keeps: `pipeline/storage/archive.py`, `pipeline/run/collect.py`. Then
  `tests/pipeline/storage/test_archive.py`, `tests/pipeline/run/test_collect.py`.
- the handling of a damaged file of an archive: `pipeline/storage/whole.py` finds it,
  `set_aside.py` moves it; readers: `pipeline/sources/archived.py`, `damage.py`. Then
  `tests/pipeline/storage/test_damaged_files.py`.
- which selections are refused since they match nothing: `pipeline/run/matches.py`. Then
  `tests/pipeline/run/test_matches.py`.
- a format of tables, a ready query: `pipeline/storage/formats.py`; `pipeline/run/queries.py`.
  Then `tests/pipeline/storage/test_formats.py`, `tests/pipeline/run/test_views.py`.
- the report: `pipeline/report/`: `queries.py` asks, `facts.py` collects, `page.py`, `parts.py`
  and `plots.py` draw. Then `tests/pipeline/report/test_report.py`, `make pictures`.
- the series for Prometheus; which groups fail a command: `pipeline/run/textfile.py`;
  `failing.py`. Then docs/use/pipeline-commands.md, `tests/pipeline/run/test_textfile.py`,
  `tests/pipeline/run/test_failing.py`.
"""
