"""Pure code for transactional ids: their states, records and timeouts.

`shard.py` is the interface.

Where to change:

- an event of transactions: `transactions/events.py`; its log line in
  `broker/cores/transactions/log_lines.py`, its effect on the journal in `transactions/journal.py`.
  Then `broker/web/openapi.json`.
- the simulated transactional clients and their checks: `tests/simulation/transactions/`. Then a
  planted fault.
"""
