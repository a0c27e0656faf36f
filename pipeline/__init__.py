"""Jobs that read the history in `__consumer_offsets` and make tables, a report and plans of
repairs.

Where to change:

- the row of a record in the history: `pipeline/model/events.py`,
  `pipeline/sources/event_rows.py`; for KIP-848, KIP-932 and KIP-1071 groups
  `pipeline/sources/group_records.py`. Then
  `tests/pipeline/sources/`.
- the time at which a topic's record arrived, independently of its timestamp:
  `pipeline/sql/arrivals.py`; the requests to a broker for this time:
  `pipeline/sources/wire/times.py`. Then `lag` in docs/use/pipeline.md,
  `tests/pipeline/sql/test_arrivals.py`.
- a state of a group: `pipeline/sql/groups.py`, the relation `group_states`. Then
  `tests/pipeline/sql/test_group_states.py`.
- the content of an archive: `pipeline/storage/archive.py`, `pipeline/run/collect.py`.
  Then `tests/pipeline/storage/test_archive.py`, `tests/pipeline/run/test_collect.py`.
- the handling of a damaged file of an archive: `pipeline/storage/whole.py` finds the
  file, `pipeline/storage/set_aside.py` moves it; readers:
  `pipeline/sources/archived.py`, `pipeline/sources/damage.py`. Then
  `tests/pipeline/storage/test_damaged_files.py`.
- errors for a selection that matches nothing: `pipeline/run/matches.py`. Then
  `tests/pipeline/run/test_matches.py`.
- a format of tables, a ready query: `pipeline/storage/formats.py`;
  `pipeline/run/queries.py`. Then `tests/pipeline/storage/test_formats.py`,
  `tests/pipeline/run/test_views.py`.
- the report: `pipeline/report/queries.py` has the SQL, `pipeline/report/facts.py` runs it,
  `pipeline/report/page.py`, `pipeline/report/parts.py` and `pipeline/report/plots.py`
  make the HTML. Then `tests/pipeline/report/test_report.py`,
  `make pictures`.
- the series for Prometheus: `pipeline/run/textfile.py`; groups that make a command fail:
  `pipeline/run/failing.py`. Then docs/use/pipeline-commands.md,
  `tests/pipeline/run/test_textfile.py`, `tests/pipeline/run/test_failing.py`.
"""
