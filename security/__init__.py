"""Pure code for identities and permissions: principals, ACLs, SASL logins, quotas.

Where to change:

- the decision by ACLs: `security/acls/acl_decision.py`. Then
  `tests/security/acls/test_acl_decision.py`, which compares it with a naive implementation.
- a SASL mechanism: `security/sasl/`, enabled in `broker/authentication/settings.py`; the code for
  clients is `security/sasl/client_side.py`. Then `tests/broker/authentication`,
  `tests/interop/secured/test_clients.py`.
"""
