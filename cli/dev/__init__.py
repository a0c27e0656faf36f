"""`muster dev`: what is good for trying out."""
