"""Journals, as pure code: which past events a journal keeps, for how long, and how they are saved.

Four cores report the events of groups, transactions, partitions and brokers. Their journals have
one structure:

- An *entry* is one past event. It is a value of the core, with a size and a line in the
  journal's file, and can be copied for another thread.
- A *ring* has the last entries of one kind, up to a maximum. A later version of an entry
  has the same key and replaces the earlier version.
- A *page* has the entries of one name, such as a group, a transactional id or a
  partition. It consists of rings, and marks the entries that must be saved.
- `Pages` has the pages of all names, up to a maximum of bytes. The page without events
  for the longest time is dropped first. If only one page exists, its oldest entries are
  dropped.
- `Unsaved` has the new and changed entries that must be saved, each entry once, in its
  state at the time of the save. Some entries are saved only when they are old enough.
- A `Form` converts entries to lines, and lines to entries.

A core defines its entries, its form, and for each type of its events the change to a page. A turn
only queues events. The queued events change the pages when the journal is read or saved.
`Pages.restore` loads the entries that an earlier run of the broker saved. The file, its thread and
its timers are in `broker/cores`.

Where to change:

- which entries a journal keeps, how long, and their lines: the entry in
  `coordinator/journal_entries.py`, `coordinator/journal_rebalance.py`,
  `transactions/journal_entries.py` or `journal/happened.py`; the common parts are in
  `journal/`. Then the page of the journal's file in docs/formats, `tests/journal`.
"""
