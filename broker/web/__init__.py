"""HTTP: the page, /api, live events and probes.

Where to change:

- readers over HTTP, and what they may not see: `broker/web/readers/`: `authentication.py`,
  `users.py`; `reader.py`, `redaction.py`. Then docs/use/http-api.md,
  `tests/broker/web/readers/test_readers.py`.
- the page: `broker/web/page/`: `place.js` the address, `dom.js` durations and charts, `table.js`
  tables, `verdicts.js` and `commands.js` problems and commands to copy, `peek.js` a record. Then
  `tests/page`, `make pictures`.
"""
