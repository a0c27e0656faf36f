"""Consumer groups of KIP-848: the broker assigns partitions, and each member adopts its assignment
on its own.

Handlers compute the new state and return runs of records. Only ``replay`` changes the state.
Requests are never parked, and a group never waits for all of its members.
"""
