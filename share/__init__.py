"""Pure code for the delivery of records to share groups (KIP-932).

`partition/` is the share partition: which records of one partition the members of one share group
have acquired, and how often each record was delivered. The share partition is on the broker that
leads the partition. `persister/` is the share coordinator: it stores the state of share partitions
in ``__share_group_state``. `coordinator/share/` has the members and assignments of share groups.
"""
