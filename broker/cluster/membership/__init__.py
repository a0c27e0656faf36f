"""How a broker joins its cluster, stays registered in ZooKeeper, and leaves."""
