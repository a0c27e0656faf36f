"""The verbs of /test: plain functions that act on a TestedBroker, one module for each group of
verbs."""
