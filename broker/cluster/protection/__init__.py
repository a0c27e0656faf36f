"""The ACLs and delegation tokens of a cluster, which ZooKeeper stores."""
