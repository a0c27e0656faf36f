"""EndTxn (26): commits or aborts the open transaction of a transactional id.

Versions: v2 returns PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; v3 is flexible; v4 is sent
by clients that know TRANSACTION_ABORTABLE. v5 (KIP-890) raises the producer's epoch at every end of
a transaction, at any level of transaction.version. Its response has the producer id and epoch that
the producer must use next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.transactional import client_of, error_for_version
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, transactional_id
from protocol.errors import INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from protocol.generated.end_txn import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.end_txn import API
from security.acls.model import Operation
from transactions.calls import TV1, TV2, EndTransaction
from transactions.outcome import EndReply

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_WRITE = transactional_id(Operation.WRITE)
_KNOWS_FENCED = 2
"""The first version with PRODUCER_FENCED."""
_RAISES_EPOCH = 5
"""The first version in which the end of a transaction raises the producer's epoch (KIP-890)."""


def _handle(services: Services, request: Request) -> None:
    transactional_id, producer_id, producer_epoch, committed = DECODE_REQUEST[request.api_version](
        request.buffer, request.position
    )
    if services.authorizer.judges and not is_allowed(services, request, _WRITE, transactional_id):
        _answer(request, EndReply(TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not transactional_id:
        _answer(request, EndReply(INVALID_REQUEST))
        return
    request.encode = _answer
    services.transactions.submit(
        transactional_id,
        EndTransaction(
            request,
            transactional_id,
            producer_id,
            producer_epoch,
            committed,
            TV2 if request.api_version >= _RAISES_EPOCH else TV1,
            client_of(request),
        ),
    )


def _answer(request: Request, reply: EndReply) -> None:
    error_code, producer_id, producer_epoch = reply
    error_code = error_for_version(error_code, request.api_version >= _KNOWS_FENCED)
    encode = ENCODE_RESPONSE[request.api_version]
    frame = encode(request.correlation_id, 0, error_code, producer_id, producer_epoch)
    request.complete(frame, error_code)


SERVED = ServedApi(API, 0, 5, _handle, rights=Rights((_WRITE,)))
