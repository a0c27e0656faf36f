"""How a broker joins the cluster, stays registered, and leaves."""
