"""Consumer groups of KIP-848: the broker assigns partitions, members reconcile one by one.

Handlers compute the new state and return runs; ``replay`` alone writes it. No request is parked,
and no phase waits for all members.
"""
