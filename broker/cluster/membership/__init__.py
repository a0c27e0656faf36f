"""Coming into the cluster, being registered, going out of it."""
