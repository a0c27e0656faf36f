"""APIs that a broker of a cluster answers otherwise than a broker alone."""
