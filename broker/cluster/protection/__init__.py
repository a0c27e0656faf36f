"""Security data of a cluster in ZooKeeper: ACLs and delegation tokens."""
