"""Writes the Python source of encoders without loops over fields, for ``make_codecs.py``."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from decoder_source import struct_name

from protocol.schema import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    Primitive,
    Struct,
    version_range,
)


class EncoderSource:
    """Emits the source of one encoder, which joins encoded pieces and prepends the length.

    ``names`` has the argument names of fields, by dotted path. An encoder with ``in_chunks``
    returns a list that contains the chunks of records without copying them.
    """

    def __init__(
        self, version: int, flexible: bool, names: dict[str, str], in_chunks: bool = False
    ) -> None:
        self.version = version
        self.flexible = flexible
        self.names = names
        self.in_chunks = in_chunks
        self.lines: list[str] = []
        self.depth = 2
        self.structs: dict[str, str] = {}
        self.packers: dict[str, str] = {}
        self._run: list[tuple[str, str]] = []
        self._pieces: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def body(self, fields: Sequence[Field], header_tags: bool) -> None:
        """Emits the whole body of the function that encodes a response."""
        plain = [f for f in fields if self.version in version_range(f.versions) and f.tag is None]
        head = 5 if header_tags else 4
        if all(isinstance(f.type, Primitive) and f.type.format for f in plain):
            size = sum(f.type.size for f in plain if isinstance(f.type, Primitive))
            size += head + self.flexible
            self._run = [(str(size), "i"), ("correlation_id", "i")]
            if header_tags:
                self._run.append(("", "x"))
            self._struct(fields, "")
            self._close_run()
            self.line(f"return {self._pieces[0]}")
            return
        if self.in_chunks:
            self._chunks(fields, header_tags)
            return
        if any(isinstance(f.type, Array | Struct) for f in plain):
            self.line("pieces: list[bytes] = []")
            self._struct(fields, "")
            self._flush()
            self.line('body = b"".join(pieces)')
        else:
            self._struct(fields, "")
            self._close_run()
            self.line(f'body = b"".join(({", ".join(self._pieces)},))')
        format_ = "iix" if header_tags else "ii"
        name = struct_name("pack", list(format_))
        self.structs[name] = f'struct.Struct(">{format_}").pack'
        self.line(f"return {name}(len(body) + {head}, correlation_id) + body")

    def _chunks(self, fields: Sequence[Field], header_tags: bool) -> None:
        """Emits the body of an encoder that returns its frame as a list of chunks."""
        self.line("pieces: list[bytes] = []")
        self.line("chunks: list[Any] = []")
        self.line("size = 0")
        self._struct(fields, "")
        self._flush()
        self.line("if pieces:")
        self.line('    part = b"".join(pieces)')
        self.line("    chunks.append(part)")
        self.line("    size += len(part)")
        format_, head = ("iix", 5) if header_tags else ("ii", 4)
        name = struct_name("pack", list(format_))
        self.structs[name] = f'struct.Struct(">{format_}").pack'
        self.line(f"chunks[0] = {name}(size + {head}, correlation_id) + chunks[0]")
        self.line("return chunks")

    def _close_run(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        formats = [letter for _, letter in run]
        values = [value for value, letter in run if letter != "x"]
        if not values:
            size = struct.calcsize(">" + "".join(formats))
            self._pieces.append(repr(bytes(size)))
            return
        name = struct_name("pack", formats)
        self.structs[name] = f'struct.Struct(">{"".join(formats)}").pack'
        self._pieces.append(f"{name}({', '.join(values)})")

    def _piece(self, source: str) -> None:
        self._close_run()
        self._pieces.append(source)

    def _flush(self) -> None:
        self._close_run()
        pieces, self._pieces = self._pieces, []
        if len(pieces) == 1:
            self.line(f"pieces.append({pieces[0]})")
        elif pieces:
            self.line(f"pieces += ({', '.join(pieces)})")

    def _struct(self, fields: Sequence[Field], path: str) -> None:
        for field in fields:
            if self.version in version_range(field.versions) and field.tag is None:
                self._field(field, f"{path}{field.name}")
        if not self.flexible:
            return
        tagged = [field for field in fields if f"{path}{field.name}" in self.names]
        tagged = [field for field in tagged if field.tag is not None]
        if tagged:
            (field,) = tagged
            self._tagged(field, self.names[f"{path}{field.name}"])
        else:
            self._run.append(("", "x"))

    def _tagged(self, field: Field, value: str) -> None:
        """Emits a tagged field. Its value is a tuple of numbers, or None if the field is not
        sent."""
        assert isinstance(field.type, Struct)
        types = [each.type for each in field.type.fields]
        formats = [each.format for each in types if isinstance(each, Primitive)]
        size = struct.calcsize(">" + "".join(formats)) + 1
        name = struct_name("pack", ["B", "B", "B", *formats, "x"])
        self.structs[name] = f'struct.Struct(">BBB{"".join(formats)}x").pack'
        self._flush()
        self.line(f"if {value} is None:")
        self.line('    pieces.append(b"\\0")')
        self.line("else:")
        self.line(f"    pieces.append({name}(1, {field.tag}, {size}, *{value}))")

    def _field(self, field: Field, path: str) -> None:
        value = self.names.get(path, field.name)
        nullable = "nullable_" if self.version in version_range(field.nullable) else ""
        compact = "compact_" if self.flexible else ""
        if isinstance(field.type, Struct) and not field.nullable:
            self._struct(field.type.fields, f"{path}.")
        elif isinstance(field.type, Struct):
            self._nullable_struct(field.type, value, path)
        elif isinstance(field.type, Array) and isinstance(field.type.element, Primitive):
            letter = field.type.element.format
            packers = f"_packed_{letter}s"
            self.packers[packers] = letter
            self._count(f"len({value})")
            self._piece(f"{packers}[len({value})](*{value})")
        elif isinstance(field.type, Array):
            assert isinstance(field.type.element, Struct)
            if nullable:
                self._flush()
                self.line(f"if {value} is None:")
                self.line(f"    pieces.append({bytes(1) if self.flexible else bytes([255] * 4)!r})")
                self.line("else:")
                self.depth += 1
            self._count(f"len({value})")
            self._array(field.type.element.fields, value, path)
            self.depth -= bool(nullable)
        elif field.type is RECORDS:
            self._records(value, self.names[f"{path}.size"])
        elif field.type is STRING and not field.nullable and not compact:
            # The length is packed with the previous fields; above int16, struct raises an error.
            encoded = f"{value.replace('.', '_')}_bytes"
            self.line(f"{encoded} = {value}.encode()")
            self._run.append((f"len({encoded})", "h"))
            self._piece(encoded)
        elif field.type is STRING:
            self._piece(f"{compact}{nullable}text({value})")
        elif field.type is BYTES:
            assert not nullable
            self._piece(f"{compact}data({value})")
        elif field.type is UUID:
            self._piece(f"uuid({value})")
        else:
            assert isinstance(field.type, Primitive)
            self._run.append((value, field.type.format))

    def _nullable_struct(self, type_: Struct, value: str, path: str) -> None:
        """Emits a nullable struct: the byte -1 for null, or the byte 1 followed by the struct."""
        self._flush()
        self.line(f"if {value} is None:")
        self.line("    pieces.append(b'\\xff')")
        self.line("else:")
        self.depth += 1
        self._piece("b'\\1'")
        self._struct(type_.fields, f"{path}.")
        self._flush()
        self.depth -= 1

    def _records(self, value: str, size: str) -> None:
        """Emits a records field of ``size`` bytes in chunks. The field is never null."""
        self._count(size)
        self._flush()
        self.line(f"if {size}:")
        self.line('    part = b"".join(pieces)')
        self.line(f"    chunks += (part, *{value})")
        self.line(f"    size += len(part) + {size}")
        self.line("    pieces = []")

    def _count(self, value: str) -> None:
        if self.flexible:
            self._piece(f"count_prefix({value})")
        else:
            self._run.append((value, "i"))

    def _array(self, fields: Sequence[Field], value: str, path: str) -> None:
        columns = self.names.get(f"{path}[]", "")
        if columns == "codes":
            self._codes(value)
            return
        if columns == "offsets":
            self._offsets(fields, value, path)
            return
        self._flush()
        self.line(f"for {columns} in {value}:")
        self.depth += 1
        self._struct(fields, f"{path}.")
        self._flush()
        self.depth -= 1

    def _codes(self, partitions: str) -> None:
        tail = "x" if self.flexible else ""
        zeros, packers = f"_zeros{tail}", f"_codes{tail}"
        self.packers[zeros] = f"i2x{tail}"
        self.packers[packers] = f"ih{tail}"
        self._piece(f"code_columns({zeros}, {packers}, {partitions}, codes)")

    def _offsets(self, fields: Sequence[Field], partitions: str, path: str) -> None:
        names = [f.name for f in fields if self.version in version_range(f.versions)]
        epochs = "committed_leader_epoch" in names
        columns = f"({partitions}, offsets{', leader_epochs' if epochs else ''})"
        # Empty metadata are two zero bytes, or a varint 1 that ``offset_columns`` inserts.
        element = ("iqi" if epochs else "iq") + ("Bhx" if self.flexible else "2xh")
        packers = f"_offsets_{element}"
        self.packers[packers] = element
        self._flush()
        self.line("if metadata is None:")
        call = f"offset_columns({packers}, {columns}, codes, {self.flexible})"
        self.line(f"    pieces.append({call})")
        self.line("else:")
        self.depth += 1
        self.line(f"column = (codes,) * len({partitions}) if isinstance(codes, int) else codes")
        variables = ["partition_index", "committed_offset"]
        variables += ["committed_leader_epoch"] if epochs else []
        columns = ", ".join([partitions, "offsets", *(["leader_epochs"] if epochs else [])])
        self.line(f"for {', '.join(variables)}, metadata_text, code in zip(")
        self.line(f"    {columns}, metadata, column, strict=True")
        self.line("):")
        self.depth += 1
        self.names[f"{path}.metadata"] = "metadata_text"
        self.names[f"{path}.error_code"] = "code"
        self._struct(fields, f"{path}.")
        self._flush()
        self.depth -= 2
