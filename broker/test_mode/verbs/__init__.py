"""The verbs of /test: plain functions over a TestedBroker, one module for each kind."""
