"""Streams groups of KIP-1071: their members, topology, tasks and assignments.

A task is one partition of a subtopology, in one of three roles: active, standby or warm-up. The
members send the topology of the application; the group computes its tasks from the topics. Handlers
compute the new state and return runs; only ``replay`` changes the state that records store.
"""
