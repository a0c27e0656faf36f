"""Group, transaction and share coordinators of a broker in a cluster, and their requests to other
brokers."""
