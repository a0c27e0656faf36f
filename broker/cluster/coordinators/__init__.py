"""Group and transaction coordinators in a cluster, and their requests to other brokers."""
