"""Writes ``protocol/generated``: codecs without loops over fields for the hot APIs, generated from
their message tables.

A decoder unpacks several fields of fixed size at once. It decodes a whole array of partitions at
once if all elements have the same size. It passes requests with tagged fields and invalid requests
to the reference codec. An encoder creates the whole frame. ``SHAPES`` defines the tuples, and the
docstring of ``protocol/generated`` lists them. ``make codecs`` runs this tool, and the result is
checked in.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import c_codecs
from codec_shapes import SHAPES, Shape
from decoder_source import DecoderSource
from encoder_source import EncoderSource
from make_fast import SOURCES as IN_C
from make_fast import digest

from protocol.compiled import COMPILED
from protocol.headers import response_header_version
from protocol.messages import BY_NAME
from protocol.schema import Api

GENERATED = Path(__file__).resolve().parent.parent / "protocol" / "generated"

PACKAGE = '''\
"""Straight-line codecs for hot APIs; written by ``tools/make_codecs.py``.

``DECODE_REQUEST[version](buffer, position)`` gives a tuple, the same for every version. A field
that a version does not have is given as its default:

- consumer_group_heartbeat: group_id, member_id, member_epoch, instance_id, rack_id,
  rebalance_timeout_ms, [topic name] or None, regex, server_assignor, [(topic id, partitions)] or
  None
- end_txn: transactional_id, producer_id, producer_epoch, committed
- heartbeat: group_id, generation_id, member_id, group_instance_id
- offset_commit: group_id, generation_id, member_id, group_instance_id, retention_time_ms,
  [(topic name or id, partitions, offsets, leader_epochs, metadata or None, commit_timestamps or
  None)]
- offset_fetch: [(group_id, member_id, member_epoch, [(topic name or id, partitions)] or None)],
  require_stable
- join_group: group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id,
  protocol_type, [(name, metadata)], reason
- sync_group: group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name,
  [(member_id, assignment)]
- produce: transactional_id, acks, timeout_ms, [(topic name or id, [(index, records or None)])]
- fetch: replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
  [(topic name or id, [(partition, current_leader_epoch, fetch_offset, last_fetched_epoch,
  log_start_offset, partition_max_bytes)])], forgotten [(topic name or id, partitions)], rack_id
- share_fetch: group_id, member_id, share_session_epoch, max_wait_ms, min_bytes, max_bytes,
  max_records, batch_size, share_acquire_mode, is_renew_ack, [(topic id, [(partition,
  [(first_offset, last_offset, acknowledge types)])])], forgotten [(topic id, partitions)]
- txn_offset_commit: transactional_id, group_id, producer_id, producer_epoch, generation_id,
  member_id, group_instance_id, and topics as in offset_commit

``ENCODE_RESPONSE[version](correlation_id, throttle_time_ms, ...)`` gives the whole frame with its
length. The arguments after throttle_time_ms:

- consumer_group_heartbeat: error_code, error_message, member_id, member_epoch,
  heartbeat_interval_ms, [(topic id, partitions)] or None
- end_txn: error_code, producer_id, producer_epoch
- heartbeat: error_code
- offset_commit, txn_offset_commit: [(topic name or id, partitions, error code or column of codes)]
- offset_fetch: [(group_id, error_code, [(topic name or id, partitions, offsets, leader_epochs,
  metadata or None, error code or column of codes)])]
- join_group: error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment,
  member_id, [(member_id, group_instance_id, metadata)]
- sync_group: error_code, protocol_type, protocol_name, assignment
- fetch, a list of chunks: error_code, session_id, [(topic name or id, partitions with the names of
  `Fetched`)]
- share_fetch, a list of chunks: error_code, error_message, acquisition_lock_timeout_ms,
  [(topic id, partitions with the names of `ShareFetched`)]
- produce, whose throttle_time_ms is the last one: [(topic name or id, [(index, error_code,
  base_offset, log_append_time_ms, log_start_offset, [(batch_index, message)], error_message)])]

A column is a tuple of ints or strings; a metadata column is
None when every entry is null or empty.
"""

from typing import Final

C_SOURCES: Final = "%s"
"""The digest of the files in ``protocol/c``, some of which have the same codecs in C."""
'''

HELPERS = (
    "Packers",
    "Unpackers",
    "Unusual",
    "code_columns",
    "compact_data",
    "compact_nullable_text",
    "compact_text",
    "count_prefix",
    "data",
    "nullable_text",
    "offset_columns",
    "slow",
    "text",
    "unsayable",
    "uuid",
)


class Source(NamedTuple):
    """The source of a function, and the module constants that the function needs."""

    version: int
    text: str
    constants: dict[str, str]


def decoder(api: Api, shape: Shape, version: int) -> Source:
    source = DecoderSource(version, api.is_flexible(version), shape)
    source.fields(api.request)
    source.flush()
    source.give_up("p != len(buffer)")
    source.line(f"return {shape.result(version)}")
    lines = [
        f"def decode_request_v{version}(buffer: bytes, position: int) -> Request:",
        f'    """{api.name} v{version}."""',
        "    p = position",
        "    try:",
        *source.lines,
        "    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):",
        f"        return slow(API, {version}, buffer, position, _shape)",
    ]
    constants = source.structs | {
        name: f'Unpackers("{element}")' for name, element in source.unpackers.items()
    }
    return Source(version, "\n".join(lines), constants)


def encoder(api: Api, shape: Shape, version: int) -> Source:
    source = EncoderSource(version, api.is_flexible(version), dict(shape.names), shape.in_chunks)
    for line in shape.before(version):
        source.line(line)
    source.body(api.response, response_header_version(api.key, version) == 1)
    lines = [
        f"def encode_response_v{version}(",
        *(f"    {argument}," for argument in ("correlation_id: int", *shape.arguments)),
        f") -> {_frame(shape)}:",
        f'    """{api.name} v{version}."""',
        "    try:",
        *source.lines,
        "    except (struct.error, ValueError, TypeError, AttributeError) as error:",
        f"        raise unsayable(API, {version}, error) from None",
    ]
    constants = source.structs | {
        name: f'Packers("{element}")' for name, element in source.packers.items()
    }
    return Source(version, "\n".join(lines), constants)


def _frame(shape: Shape) -> str:
    """Returns source code: the return type of a generated encoder."""
    return "list[Any]" if shape.in_chunks else "bytes"


def once(make: Callable[[Api, Shape, int], Source], api: Api, shape: Shape) -> dict[int, Source]:
    """Returns the source of a generated function by version. If consecutive versions have the same
    format, they have the same `Source` object, and thus share one function."""
    sources: dict[int, Source] = {}
    for version in api.versions:
        source = make(api, shape, version)
        before = sources.get(version - 1)
        if before is not None:
            numbers = (f"_v{before.version}(", f" v{before.version}.", f"API, {before.version},")
            text = before.text
            for number in numbers:
                text = text.replace(number, number.replace(str(before.version), str(version)))
            if text == source.text:
                source = before
        sources[version] = source
    return sources


def table(name: str, functions: str, sources: dict[int, Source], type_: str, api: str) -> str:
    """Returns the source of a dict that maps versions to functions."""
    entries = "".join(f"    {v}: {functions}_v{s.version},\n" for v, s in sources.items())
    by_version = f"{{\n{entries}}}"
    if api in COMPILED:
        by_version = f'codecs("{functions.partition("_")[0]}", "{api}", {by_version})'
    return f"{name}: Final[{type_}] = {by_version}"


def module(name: str, shape: Shape) -> str:
    api = BY_NAME[shape.api]
    decoders = once(decoder, api, shape)
    encoders = once(encoder, api, shape) if shape.arguments else {}
    sources = {id(source): source for source in (*decoders.values(), *encoders.values())}
    constants: dict[str, str] = {}
    for source in sources.values():
        constants |= source.constants
    decode_type = "dict[int, Callable[[bytes, int], Request]]"
    parts = [
        f'"""{api.name} in straight lines. Written by ``tools/make_codecs.py``; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "import struct",
        "from collections.abc import Callable, Sequence",
        "from typing import Any, Final",
        "",
        "from protocol.columns import " + ", ".join(HELPERS),
        "from protocol.compiled import codecs",
        "from protocol.errors import ProtocolError",
        f"from protocol.messages.{name} import API",
        "from protocol.wire import read_varint",
        "",
        *(f"{alias} = {type_}" for alias, type_ in shape.types.items()),
        "",
        *(f"{constant} = {value}" for constant, value in sorted(constants.items())),
        "",
        shape.slow_shape.strip("\n"),
        "",
        *(source.text + "\n" for source in sources.values()),
        table("DECODE_REQUEST", "decode_request", decoders, decode_type, name),
        "",
    ]
    if encoders:
        encode_type = f"dict[int, Callable[..., {_frame(shape)}]]"
        responses = table("ENCODE_RESPONSE", "encode_response", encoders, encode_type, name)
        parts += [responses, ""]
    return "\n".join(parts)


def main() -> None:
    for name, shape in SHAPES.items():
        (GENERATED / f"{name}.py").write_text(module(name, shape))
    (IN_C / "codecs.c").write_text(c_codecs.source(SHAPES))
    (GENERATED / "__init__.py").write_text(PACKAGE % digest())
    commands = (
        ["check", "--fix", "--quiet", "--isolated", "--select", "F401,I", "--line-length", "100"],
        ["format", "--quiet"],
    )
    for command in commands:
        subprocess.run([sys.executable, "-m", "ruff", *command, GENERATED], check=True)
    print(f"{len(SHAPES)} modules: {', '.join(SHAPES)}")


if __name__ == "__main__":
    main()
