"""Writes the Python source of decoders without loops over fields, for ``make_codecs.py``."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from codec_shapes import Shape

from protocol.codec import StructCodec
from protocol.schema import BYTES, RECORDS, STRING, Array, Field, Primitive, version_range

LETTERS = {"?": "t", "16s": "u"}
COLUMNS = {
    "partition_index": "partitions",
    "committed_offset": "offsets",
    "committed_leader_epoch": "leader_epochs",
    "commit_timestamp": "timestamps",
}
"""For each field that a commit has per partition: the variable of the generated decoder that
contains the values of this field, in the order of the partitions."""


def struct_name(kind: str, formats: Sequence[str]) -> str:
    """Returns the name of a bound method of ``struct.Struct`` in the generated module, such as
    _unpack_ih."""
    return f"_{kind}_{''.join(LETTERS.get(letter, letter) for letter in formats)}"


class DecoderSource:
    """Emits the source of one decoder. Consecutive fields of fixed size, and the length that
    follows them, are unpacked together."""

    def __init__(self, version: int, flexible: bool, shape: Shape) -> None:
        self.version = version
        self.shape = shape
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 2
        self.structs: dict[str, str] = {}
        self.unpackers: dict[str, str] = {}
        self._run: list[tuple[str, str]] = []
        self._zeros: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def give_up(self, condition: str) -> None:
        """Emits code that raises Unusual if ``condition`` is true. The reference codec then decodes
        the request."""
        self.line(f"if {condition}:")
        self.line("    raise Unusual")

    def flush(self) -> None:
        """Emits one unpack call for all fields of fixed size since the last flush."""
        run, self._run = self._run, []
        if run:
            formats = [letter for _, letter in run]
            size = struct.calcsize(">" + "".join(formats))
            if formats == ["B"]:
                self.line(f"{run[0][0]} = buffer[p]")
            else:
                name = struct_name("unpack", formats)
                self.structs[name] = f'struct.Struct(">{"".join(formats)}").unpack_from'
                targets = ", ".join(variable for variable, _ in run)
                targets = f"({targets},)" if len(run) == 1 else targets
                self.line(f"{targets} = {name}(buffer, p)")
            self.line(f"p += {size}")
        zeros, self._zeros = self._zeros, []
        if zeros:
            self.give_up(" or ".join(zeros))

    def fields(self, fields: Sequence[Field], prefix: str = "") -> None:
        """Emits code that decodes the fields of a struct into variables, and then checks that the
        struct has no tagged fields."""
        for field in fields:
            if self.version in version_range(field.versions) and field.tag is None:
                self._field(field, prefix)
        if self.flexible:
            self._run.append((f"{prefix}tags", "B"))
            self._zeros.append(f"{prefix}tags")

    def _field(self, field: Field, prefix: str) -> None:
        name = prefix + field.name
        nullable = self.version in version_range(field.nullable)
        if isinstance(field.type, Array):
            self._array(name, field, nullable)
        elif field.type is STRING:
            self._length("B" if self.flexible else "h")
            self._sized(name, nullable, ".decode()", 32768)
        elif field.type in (BYTES, RECORDS):
            self._length("B" if self.flexible else "i")
            self._sized(name, nullable, "", 0)
        else:
            assert isinstance(field.type, Primitive)
            self._run.append((name, field.type.format))

    def _length(self, letter: str) -> None:
        self._run.append(("n", letter))
        self.flush()
        if self.flexible:
            self.line("if n > 127:")
            self.line("    n, p = read_varint(buffer, p - 1)")

    def _sized(self, name: str, nullable: bool, decode: str, limit: int) -> None:
        # If the buffer has fewer than ``n`` bytes, the next read or the last check detects it.
        if self.flexible:
            bad = [f"n > {limit}"] if limit else []
            null, size = "n == 0", "n - 1"
        else:
            bad = []
            null, size = "n == -1" if nullable else "n < 0", "n"
        if not nullable:
            self.give_up(" or ".join([null, *bad]))
        else:
            if not self.flexible:
                bad.append("n < -1")
            self.line(f"if {null}:")
            self.line(f"    {name} = None")
            if bad:
                self.line(f"elif {' or '.join(bad)}:")
                self.line("    raise Unusual")
            self.line("else:")
            self.depth += 1
        self.line(f"e = p + {size}")
        self.line(f"{name} = buffer[p:e]{decode}")
        self.line("p = e")
        if nullable:
            self.depth -= 1

    def _array(self, name: str, field: Field, nullable: bool) -> None:
        assert isinstance(field.type, Array)
        self._length("B" if self.flexible else "i")
        if self.flexible:
            self.line("n -= 1")
        if nullable:
            alias = "str" if field.type.element is STRING else self.shape.rows[name][0]
            self.line(f"{name}: list[{alias}] | None = None")
            self.line("if n != -1:")
            self.depth += 1
        element = field.type.element
        if element is STRING:
            self.give_up("n < 0 or n > len(buffer) - p")
            self._texts(name, nullable)
        elif isinstance(element, Primitive):
            assert element.format
            size = element.size
            self.give_up(f"n < 0 or n * {size} > len(buffer) - p")
            unpackers = f"_{element.name.lower()}s"
            self.unpackers[unpackers] = element.format
            self.line(f"{name} = {unpackers}[n](buffer, p)")
            self.line(f"p += n * {size}")
        else:
            least = StructCodec(element.fields, self.version, self.flexible).min_bytes
            self.give_up(f"n < 0 or n * {least} > len(buffer) - p")
            if name in self.shape.columns:
                self._columns(element.fields, least)
            else:
                self._rows(name, element.fields, nullable)
        if nullable:
            self.depth -= 1

    def _rows(self, name: str, fields: Sequence[Field], nullable: bool) -> None:
        alias, row = self.shape.rows[name]
        self.line(f"{name} = []" if nullable else f"{name}: list[{alias}] = []")
        self.line("for _ in range(n):")
        self.depth += 1
        self.fields(fields, name.removesuffix("s") + "_")
        self.flush()
        self.line(f"{name}.append({row(self.version)})")
        self.depth -= 1

    def _texts(self, name: str, nullable: bool) -> None:
        """Emits code that decodes an array of strings."""
        self.line(f"{name} = []" if nullable else f"{name}: list[str] = []")
        self.line("for _ in range(n):")
        self.depth += 1
        self._length("B" if self.flexible else "h")
        self._sized("text", False, ".decode()", 32768)
        self.line(f"{name}.append(text)")
        self.depth -= 1

    def _columns(self, fields: Sequence[Field], stride: int) -> None:
        """Emits code that decodes the partitions of an offset commit. The code uses one unpack call
        if no partition has metadata, and a loop otherwise."""
        fixed = [
            field
            for field in fields
            if self.version in version_range(field.versions) and field.type is not STRING
        ]
        formats = "".join(f.type.format for f in fixed if isinstance(f.type, Primitive))
        at = struct.calcsize(">" + formats)
        # The last two bytes, nonflexible: the metadata's length (0, or -1 for null); flexible: the
        # length plus one (1, or 0 for null) and no tagged fields.
        marks = ("(0, 1)", "0") if self.flexible else ("(0, 255)", "mark")
        self.line("count = n")
        self.line(f"e = p + n * {stride}")
        self.line("flat = None")
        self.line("if n == 1:")
        one = struct_name("unpack", [*formats, "H"])
        self.structs[one] = f'struct.Struct(">{formats}H").unpack_from'
        self.line(f"    lone = {one}(buffer, p)")
        self.line(f"    if lone[{len(fixed)}] in {(0, 256) if self.flexible else (0, 65535)}:")
        self.line(f"        flat = lone[:{len(fixed)}]")
        self.line("elif n:")
        self.line(f"    mark = buffer[p + {at}]")
        self.line(
            f"    if mark in {marks[0]} and buffer[p + {at} : e : {stride}].count(mark) == n "
            f"and buffer[p + {at + 1} : e : {stride}].count({marks[1]}) == n:"
        )
        unpackers = f"_partitions_{formats}"
        self.unpackers[unpackers] = formats + "2x"
        self.line(f"        flat = {unpackers}[n](buffer, p)")
        self.line("if flat is not None:")
        self.depth += 1
        for index, field in enumerate(fixed):
            self.line(f"{COLUMNS[field.name]} = flat[{index}::{len(fixed)}]")
        self.line("metadata = None")
        self.line("p = e")
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        for field in fixed:
            self.line(f"{COLUMNS[field.name]}_list = []")
        self.line("metadata_list = []")
        self.line("for _ in range(count):")
        self.depth += 1
        self.fields(fields)
        self.flush()
        for field in fixed:
            self.line(f"{COLUMNS[field.name]}_list.append({field.name})")
        self.line("metadata_list.append(committed_metadata)")
        self.depth -= 1
        for field in fixed:
            self.line(f"{COLUMNS[field.name]} = tuple({COLUMNS[field.name]}_list)")
        self.line("metadata = tuple(metadata_list) if any(metadata_list) else None")
        self.depth -= 1
        present = {field.name for field in fixed}
        if "committed_leader_epoch" not in present:
            self.line("leader_epochs = (-1,) * count")
        if "commit_timestamp" not in present:
            self.line("timestamps = None")
