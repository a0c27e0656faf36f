"""Code that handlers share: the services, authorization, parts of requests and responses."""
