"""Topics and their partitions: the registry, the logs, retention, cleaning, long polls."""
