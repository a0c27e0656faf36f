"""HTTP: the page, /api, live events and probes.

Where to change:

- readers over HTTP, and their rights: in `broker/web/readers/`: `authentication.py`,
  `users.py`; `reader.py`, `redaction.py`. Then docs/use/http-api.md,
  `tests/broker/web/readers/test_readers.py`.
- the page: in `broker/web/page/`: `place.js` for the address, `dom.js` for durations and charts,
  `table.js` for tables, `verdicts.js` and `commands.js` for problems and commands to copy,
  `peek.js` for a record. Then `tests/page`, `make pictures`.
"""
