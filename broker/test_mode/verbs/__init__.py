"""The verbs of /test: plain functions that act on a `TestedBroker`. Each module contains verbs for
one purpose."""
