"""The verbs of /test: plain functions over a TestedBroker, a module for each kind."""
