"""Topics, settings and the old consumer's offsets, as ZooKeeper has them."""
