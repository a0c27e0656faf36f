"""Writes the C source of encoders, for ``c_codecs.py``.

Each struct of a response becomes a C function that writes its fields in order. The function returns
false for values that the Python encoder must handle.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from c_decoder_source import all_of
from codec_shapes import Shape

from protocol.schema import STRING, Array, Field, Primitive, Struct, version_range


class CEncoderSource:
    """Collects the C functions of one encoder."""

    def __init__(self, name: str, version: int, flexible: bool, shape: Shape) -> None:
        self.name = name
        """The name of the encoder. The names of all its C functions begin with this name."""
        self.version = version
        self.flexible = flexible
        self.compact = "true" if flexible else "false"
        self.shape = shape
        self.names = shape.names
        self.functions: list[str] = []
        self._values: dict[str, str] = {}
        """For each field variable of the current struct: the C expression of its value."""

    def response(self, fields: Sequence[Field]) -> None:
        """Adds the functions that encode a response."""
        names = ["correlation_id", *(each.partition(":")[0] for each in self.shape.arguments)]
        declarations, writes = self._take(names, "values")
        for line in self.shape.before(self.version):
            assign = ast.parse(line).body[0]
            assert isinstance(assign, ast.Assign)
            target, value = assign.targets[0], assign.value
            assert isinstance(target, ast.Tuple)
            assert isinstance(value, ast.Name)
            parts = [each.id for each in target.elts if isinstance(each, ast.Name)]
            more, unpacks = self._take(parts, f"of_{value.id}", self._values[value.id])
            declarations += more
            writes += unpacks
        writes += self._struct(fields, "")
        self.functions.append(f"""\
static bool
{self.name}(Output *o, PyObject *const *values)
{{
{declarations}    return {all_of(writes)};
}}
""")

    def _take(self, names: Sequence[str], array: str, source: str = "") -> tuple[str, list[str]]:
        """Assigns the elements of the C array ``array`` to the variables ``names``, one element
        each. If ``source`` is given, the generated code first unpacks the tuple ``source`` into the
        array.

        Returns the C declarations, and the conditions that unpack the tuple.
        """
        self._values |= {name: f"{array}[{index}]" for index, name in enumerate(names)}
        declaration = f"    /* {', '.join(names)} */\n"
        if not source:
            return declaration, []
        count = len(names)
        declaration += f"    PyObject *{array}[{count}];\n"
        return declaration, [f"unpack({source}, {array}, {count})"]

    def _element(self, function: str, fields: Sequence[Field], path: str) -> None:
        """Adds the function that writes one element of an array."""
        outer = dict(self._values)
        parts = self.names[f"{path}[]"].split(", ")
        declarations, writes = self._take(parts, "values", "element")
        writes += self._struct(fields, f"{path}.")
        self._values = outer
        self.functions.append(f"""\
static bool
{function}(Output *o, PyObject *element)
{{
{declarations}    return {all_of(writes)};
}}
""")

    def _struct(self, fields: Sequence[Field], path: str) -> list[str]:
        """Returns C expressions that write the fields of a struct. Each expression is true if its
        write succeeded."""
        writes = []
        for field in fields:
            if field.tag is not None:
                assert f"{path}{field.name}" not in self.names, (
                    "tagged fields are written in Python"
                )
            elif self.version in version_range(field.versions):
                writes += self._field(field, f"{path}{field.name}")
        if self.flexible:
            writes.append("write_number(o, 0, 1) /* no tagged fields */")
        return writes

    def _field(self, field: Field, path: str) -> list[str]:
        name = self.names.get(path, field.name)
        nullable = self.version in version_range(field.nullable)
        if isinstance(field.type, Struct):
            written = self._struct(field.type.fields, f"{path}.")
            if not field.nullable:
                return written
            value = self._values[name]
            inner = all_of(["write_number(o, 1, 1)", *written])
            return [f"({value} == Py_None ? write_number(o, UINT64_MAX, 1) : ({inner}))"]
        if isinstance(field.type, Array):
            return [self._array(field.type, path, name, nullable)]
        value = self._values[name]
        kind = field.type.name.lower()
        if field.type is STRING:
            null = "true" if nullable else "false"
            return [f"write_text(o, {value}, {self.compact}, {null}) /* {field.name} */"]
        if kind == "bytes":
            assert not nullable
            return [f"write_data(o, {value}, {self.compact}) /* {field.name} */"]
        return [f"write_{kind}(o, {value}) /* {field.name} */"]

    def _array(self, type_: Array, path: str, name: str, nullable: bool) -> str:
        """Returns the C call that writes an array."""
        element = type_.element
        columns = self.names.get(f"{path}[]", "")
        null = "nullable_" if nullable else ""
        if isinstance(element, Primitive):
            writer = f"write_{element.name.lower()}"
            return f"write_{null}list(o, {self._values[name]}, {self.compact}, {writer})"
        if columns == "codes":
            partitions, codes = self._values["partitions"], self._values["codes"]
            return f"write_codes(o, {partitions}, {codes}, {self.compact})"
        if columns == "offsets":
            return self._offsets(element.fields)
        function = f"{self.name}_{path.replace('.', '_')}"
        self._element(function, element.fields, path)
        return f"write_{null}list(o, {self._values[name]}, {self.compact}, {function})"

    def _offsets(self, fields: Sequence[Field]) -> str:
        """Returns the C call that writes the partitions of an OffsetFetch response."""
        present = {f.name: f for f in fields if self.version in version_range(f.versions)}
        names = ["partitions", "offsets", "leader_epochs", "metadata", "codes"]
        values = [self._values[name] for name in names]
        if "committed_leader_epoch" not in present:
            values[2] = "NULL"
        null = "true" if self.version in version_range(present["metadata"].nullable) else "false"
        return f"write_offsets(o, {', '.join(values)}, {self.compact}, {null})"
