"""Pure: who somebody is and what they may do. Principals, access control lists, logins, quotas."""
