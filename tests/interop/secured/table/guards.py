"""Requests about ACLs, users, quotas, delegation tokens and logins."""

from __future__ import annotations

from tests.interop.secured.matrix import OWN, Request

FILTER = {
    "resource_type_filter": 2, "resource_name_filter": f"{OWN}-ruled", "pattern_type_filter": 3,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
RULE = {
    "resource_type": 2, "resource_name": f"{OWN}-ruled", "resource_pattern_type": 3,
    "principal": f"User:{OWN}-other", "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
SHA_256 = 1
QUOTA = {"entries": [{
    "entity": [{"entity_type": "user", "entity_name": f"{OWN}-other"}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
}], "validate_only": False}  # fmt: skip
SCRAM = {
    "deletions": [{"name": "nobody", "mechanism": SHA_256}],
    "upsertions": [
        {"name": f"{OWN}-other", "mechanism": SHA_256, "iterations": 4096, "salt": b"salt",
         "salted_password": bytes(32)},
        {"name": "weak", "mechanism": SHA_256, "iterations": 100, "salt": b"salt",
         "salted_password": bytes(32)},
        {"name": "", "mechanism": SHA_256, "iterations": 4096, "salt": b"salt",
         "salted_password": bytes(32)},
        {"name": "strange", "mechanism": 7, "iterations": 4096, "salt": b"salt",
         "salted_password": bytes(32)},
    ],
}  # fmt: skip

REQUESTS = [
    Request(
        "rules",
        "DescribeAcls",
        3,
        FILTER,
        {
            "": ":31",
            f"DESCRIBE CLUSTER; READ TOPIC {OWN}-ruled": ":0 own-ruled User:own",
            f"ALTER CLUSTER; deny WRITE TOPIC {OWN}-ruled@10.0.0.1": ":0 own-ruled User:own",
        },
    ),
    Request(
        "rules that match",
        "DescribeAcls",
        3,
        FILTER
        | {
            "resource_name_filter": f"{OWN}-ruled",
            "pattern_type_filter": 2,
            "principal_filter": f"User:{OWN}",
        },
        {
            f"DESCRIBE CLUSTER; READ TOPIC {OWN}-ru*; READ TOPIC *; READ TOPIC other": ":0 * User:own own-ru User:own",
        },
    ),
    Request(
        "add rules",
        "CreateAcls",
        3,
        {
            "creations": [
                RULE,
                RULE | {"resource_name": ""},
                RULE | {"resource_type": 4},
                RULE | {"resource_type": 4, "resource_name": "kafka-cluster", "operation": 13},
            ]
        },
        {
            "": ":31 :31 :31 :31",
            "ALTER CLUSTER": ":0 :0 :42 :42",
            "ALTER TOPIC *; DESCRIBE CLUSTER": ":31 :31 :31 :31",
        },
    ),
    Request(
        "a rule without a principal's type",
        "CreateAcls",
        3,
        {
            "creations": [
                RULE | {"principal": "nobody"},
            ]
        },
        {
            "ALTER CLUSTER": ":42",
        },
    ),
    Request(
        "remove rules",
        "DeleteAcls",
        3,
        {"filters": [FILTER]},
        {
            f"READ TOPIC {OWN}-ruled": ":31",
            f"ALTER CLUSTER; READ TOPIC {OWN}-ruled": ":0 own-ruled/User:own:0",
        },
    ),
    Request(
        "quotas",
        "DescribeClientQuotas",
        1,
        {
            "components": [{"entity_type": "user", "match_type": 0, "match": "kept"}],
            "strict": True,
        },
        {
            "": ":31",
            "DESCRIBE_CONFIGS CLUSTER": ":0 producer_byte_rate",
            "DESCRIBE CLUSTER": ":31",
        },
    ),
    Request(
        "change quotas",
        "AlterClientQuotas",
        1,
        QUOTA,
        {
            "": ":31",
            "ALTER_CONFIGS CLUSTER": ":0",
            "ALTER CLUSTER": ":31",
        },
    ),
    Request(
        "users",
        "DescribeUserScramCredentials",
        0,
        {
            "users": [{"name": "kept"}, {"name": "nobody"}],
        },
        {
            "": ":31 :31 :31",
            "DESCRIBE CLUSTER": ":0 kept:0 nobody:91",
        },
    ),
    Request(
        "one user twice",
        "DescribeUserScramCredentials",
        0,
        {
            "users": [{"name": "kept"}, {"name": "kept"}],
        },
        {
            "DESCRIBE CLUSTER": ":0 kept:92",
        },
    ),
    Request(
        "change users",
        "AlterUserScramCredentials",
        0,
        SCRAM,
        {
            "": ":31 nobody:31 own-other:31 strange:31 weak:31",
            "ALTER CLUSTER": ":93 nobody:91 own-other:0 strange:33 weak:93",
            "DESCRIBE CLUSTER": ":31 nobody:31 own-other:31 strange:31 weak:31",
        },
    ),
    Request(
        "a token",
        "CreateDelegationToken",
        3,
        {
            "owner_principal_type": None,
            "owner_principal_name": None,
            "renewers": [],
            "max_lifetime_ms": 60_000,
        },
        {
            "": "own:0",
            "as ANONYMOUS": "ANONYMOUS:64",
        },
    ),
    Request(
        "a token for another",
        "CreateDelegationToken",
        3,
        {
            "owner_principal_type": "User",
            "owner_principal_name": f"{OWN}-friend",
            "renewers": [],
            "max_lifetime_ms": 60_000,
        },
        {
            "": "own-friend:65",
            f"CREATE_TOKENS USER User:{OWN}-friend": "own-friend:0",
        },
    ),
    Request(
        "a token that strange ones renew",
        "CreateDelegationToken",
        3,
        {
            "owner_principal_type": None,
            "owner_principal_name": None,
            "renewers": [{"principal_type": "Group", "principal_name": "x"}],
            "max_lifetime_ms": 60_000,
        },
        {
            "": "own:67",
        },
    ),
    Request(
        "renew no token",
        "RenewDelegationToken",
        2,
        {
            "hmac": b"nothing",
            "renew_period_ms": 1000,
        },
        {
            "": ":62",
            "as ANONYMOUS": ":64",
        },
    ),
    Request(
        "end no token",
        "ExpireDelegationToken",
        2,
        {
            "hmac": b"nothing",
            "expiry_time_period_ms": -1,
        },
        {
            "": ":62",
        },
    ),
    Request(
        "tokens",
        "DescribeDelegationToken",
        3,
        {
            "owners": [{"principal_type": "User", "principal_name": "kept"}],
        },
        {
            "": ":0",
            "DESCRIBE_TOKENS USER User:kept": ":0 kept",
            "as ANONYMOUS": ":64",
        },
    ),
    Request(
        "log in again",
        "SaslHandshake",
        1,
        {"mechanism": "PLAIN"},
        {
            "": ":34",
            "as ANONYMOUS": ":34",
        },
    ),
    Request(
        "log in without a handshake",
        "SaslAuthenticate",
        1,
        {"auth_bytes": b""},
        {
            "": ":34",
            "as certificate": ":34",
        },
    ),
    Request(
        "versions",
        "ApiVersions",
        3,
        {
            "client_software_name": "a",
            "client_software_version": "1",
        },
        {
            "": ":0",
            "as ANONYMOUS": ":0",
        },
    ),
]
