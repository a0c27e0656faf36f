"""Group, transaction and share coordinators in a cluster, and their requests to other brokers."""
