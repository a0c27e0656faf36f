"""The errors of a cluster's brokers, each asked: a table of requests, and how to ask them."""
