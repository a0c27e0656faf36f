"""Pure code for identities and permissions: principals, ACLs, SASL logins, quotas.

Where to change:

- which ACL decides: `security/acls/acl_decision.py`. Then
  `tests/security/acls/test_acl_decision.py`, which also asks a naive implementation.
- a SASL mechanism: `security/sasl/`, offered by `broker/authentication/settings.py`; the client's
  side is `security/sasl/client_side.py`. Then `tests/broker/authentication`,
  `tests/interop/secured/test_clients.py`.
"""
