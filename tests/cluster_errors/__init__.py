"""The errors of a cluster's brokers, whoever is asked: a table of requests, and how to ask them."""
