"""Pure code for the records that share groups deliver (KIP-932).

`partition/` is the share partition: which records of one log partition the members of one share
group hold, and how often each record was delivered. The broker that leads the log partition has
it. `persister/` is the share coordinator: it stores the state of share partitions in
``__share_group_state``. The members and assignments of share groups are in `coordinator/share/`.
"""
