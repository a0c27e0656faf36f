"""The cluster's edge: ZooKeeper, the controller's host, replicas, and requests between brokers."""
