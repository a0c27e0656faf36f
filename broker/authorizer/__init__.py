"""The authorizer of a broker: its ACLs, its audit log, and changes of ACLs and quotas."""
