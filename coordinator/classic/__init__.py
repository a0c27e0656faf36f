"""Groups of the classic protocol: joins, rebalances, heartbeats and static members."""
