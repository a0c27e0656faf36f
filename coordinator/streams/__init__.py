"""Streams groups of KIP-1071: their members, topology, tasks and assignments.

A task is one partition of a subtopology, in one of three roles: active, standby or warm-up. The
members send the topology of the application. The group computes its tasks from the topology and the
partitions of the topics. Handlers compute the new state and return runs of records. Only ``replay``
changes the state that records store.
"""
