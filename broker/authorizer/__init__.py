"""The authorizer of a broker: its ACLs, its audit log, and changes of ACLs and quotas.

Where to change:

- the caches: decisions in `broker/authorizer/acl_authorizer.py`, the names that a connection may
  use in `broker/net/authorization_cache.py`. Then
  `tests/broker/authorizer/test_acl_authorizer.py`,
  `tests/broker/net/test_authorization_cache.py`.
- the lines of the audit log: `broker/authorizer/audit.py`. Then docs/operate/security.md,
  `tests/broker/authorizer/test_audit.py`.
- where ACLs, users, tokens and quotas are stored: by a standalone broker
  `broker/authorizer/acl_store.py`, `quota_changes.py`, `broker/authentication/user_file.py`,
  `token_file.py`; in a cluster `broker/cluster/protection/acl_nodes.py`, `token_nodes.py`,
  `broker/cluster/topics/client_configs.py` and `broker/cluster_stores.py`. Then
  `tests/broker/authorizer`, `tests/broker/authentication`, `tests/broker/test_cluster_stores.py`.
"""
