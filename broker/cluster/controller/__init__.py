"""The I/O of the controller: its election, its reads and writes in ZooKeeper, and its channels to
brokers."""
