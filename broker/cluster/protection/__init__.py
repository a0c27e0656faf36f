"""What protects a cluster and is kept in ZooKeeper: entries of access control."""
