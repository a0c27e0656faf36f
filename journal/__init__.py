"""Journals, pure: what is kept of what happened, for how long, and how it is written down.

Four cores tell what happened to groups, transactions, partitions and brokers. Their journals have
one shape:

- An *entry* is one thing that happened: a value of the core. It knows its size, its line, and how
  it is copied for another thread.
- A *ring* has the last entries of one kind, so many at most. A later form of an entry has its key
  and replaces it.
- A *page* is what is kept of one name: of a group, a transactional id, a partition. It has the
  rings, and says what of them is to be written down.
- `Pages` are the pages of all names, so many bytes at most. The name that has been quiet for
  longest is forgotten first; a name alone gives up its oldest entries.
- `Unsaved` is what is to be written down: entries that are new or have changed, each once, as it is
  when it is taken. Some must become old first.
- A `Form` says how entries become lines, and lines entries.

A core gives its entries, its form, and for each of its events what that does to the page of its
name. A turn only hands its events over: they change their pages when somebody reads the journal or
writes it down. `Pages.restore` takes over what an earlier run wrote down. The file, its thread and
its timers are in `broker/cores`.
"""
