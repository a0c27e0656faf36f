"""Pure code for transactional ids: their states, records and timeouts.

`shard.py` is the interface.

Where to change:

- an event of transactions: `transactions/events.py`. Its log line is in
  `broker/cores/transactions/log_lines.py`, and its effect on the journal is in
  `transactions/journal.py`. Then change `broker/web/openapi.json`.
- the simulated transactional clients and their checks: `tests/simulation/transactions/`. Then
  plant a fault that the new checks must detect.
"""
