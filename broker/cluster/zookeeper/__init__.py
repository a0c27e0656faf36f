"""ZooKeeper: the verbs that the broker uses, and kazoo behind them."""
