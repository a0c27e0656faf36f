"""Topics, settings and the offsets of old consumers in ZooKeeper."""
