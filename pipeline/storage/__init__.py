"""Stores tables in local folders, object storage or catalogs, in several formats, and stores
archives."""
