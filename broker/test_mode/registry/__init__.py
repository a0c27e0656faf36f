"""The registry of a cluster for tests: a ZooKeeper in memory, for the brokers of one process."""
