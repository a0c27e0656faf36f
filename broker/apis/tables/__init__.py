"""The tables of served APIs: standalone, in a cluster, and in a cluster without transactions."""
