"""A cluster's topics, settings, quotas, credentials and v0 offsets in ZooKeeper."""
