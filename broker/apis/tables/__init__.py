"""The tables of served APIs: of a standalone broker, in a cluster, and in a cluster without
transactions."""
