"""What is replicated here: obeying the controller, following leaders, writing in-sync replicas."""
