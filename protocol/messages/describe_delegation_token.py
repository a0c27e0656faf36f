"""DescribeDelegationToken, API key 41."""

from protocol.schema import BYTES, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible
# v3: response adds tokens.token_requester_principal_type, tokens.token_requester_principal_name

REQUEST = (
    Field(
        "owners",
        Array(
            Field("principal_type", STRING, "0+"),
            Field("principal_name", STRING, "0+"),
        ),
        "0+",
        nullable="0+",
    ),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field(
        "tokens",
        Array(
            Field("principal_type", STRING, "0+"),
            Field("principal_name", STRING, "0+"),
            Field("token_requester_principal_type", STRING, "3+"),
            Field("token_requester_principal_name", STRING, "3+"),
            Field("issue_timestamp", INT64, "0+"),
            Field("expiry_timestamp", INT64, "0+"),
            Field("max_timestamp", INT64, "0+"),
            Field("token_id", STRING, "0+"),
            Field("hmac", BYTES, "0+"),
            Field(
                "renewers",
                Array(
                    Field("principal_type", STRING, "0+"),
                    Field("principal_name", STRING, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("throttle_time_ms", INT32, "0+"),
)

API = Api(
    key=41,
    name="DescribeDelegationToken",
    versions="0-3",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
