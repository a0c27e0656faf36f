"""The tables of served APIs: of a broker alone, of a cluster, and of one without transactions."""
