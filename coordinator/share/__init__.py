"""Share groups of KIP-932: their members, epochs and assignments.

Several members may have the same partition, and only partitions whose delivery state is initialized
at the share coordinator are assigned. Handlers compute the new state and return runs; only
``replay`` changes the state. The delivery of records is in the packages `share` and `broker.share`.
"""
