"""ZooKeeper: the interface that the broker uses, and its implementation with kazoo."""
