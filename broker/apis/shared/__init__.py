"""What several handlers share: the services, authorization, and parts of requests and answers."""
