"""Consumer groups of KIP-848: the broker assigns partitions, and each member reconciles separately.

Handlers compute the new state and return runs; only ``replay`` changes the state. Requests are
never parked, and a group never waits for all of its members.
"""
