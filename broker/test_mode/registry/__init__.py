"""The registry of a cluster for tests: a ZooKeeper in memory, which only the brokers of its own
process can use."""
