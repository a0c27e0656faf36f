"""Share groups of KIP-932: their members, epochs and assignments. The delivery of records is in the
packages `share` and `broker.share`.

Several members may have the same partition. A partition is assigned only after its delivery state
was initialized at the share coordinator. Handlers compute the new state and return runs of records;
only ``replay`` changes the state.
"""
