"""InitProducerId, API key 22."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, Api, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible
# v3: request adds producer_id, producer_epoch
# v4: the same on the wire
# v5: the same on the wire
# v6: request adds enable2_pc, keep_prepared_txn; response adds ongoing_txn_producer_id,
#     ongoing_txn_producer_epoch

REQUEST = (
    Field("transactional_id", STRING, "0+", nullable="0+"),
    Field("transaction_timeout_ms", INT32, "0+"),
    Field("producer_id", INT64, "3+", default=-1),
    Field("producer_epoch", INT16, "3+", default=-1),
    Field("enable2_pc", BOOLEAN, "6+"),
    Field("keep_prepared_txn", BOOLEAN, "6+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("producer_id", INT64, "0+", default=-1),
    Field("producer_epoch", INT16, "0+"),
    Field("ongoing_txn_producer_id", INT64, "6+", default=-1),
    Field("ongoing_txn_producer_epoch", INT16, "6+", default=-1),
)

API = Api(
    key=22,
    name="InitProducerId",
    versions="0-6",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
