"""ACLs and delegation tokens of a cluster, in ZooKeeper."""
