"""Writes the C source of decoders, for ``c_codecs.py``.

Each struct of a request becomes a C function that reads its fields in order and puts them into the
tuple that ``SHAPES`` defines. The function returns NULL for data that the reference codec must
decode.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from codec_shapes import Shape
from decoder_source import COLUMNS

from protocol.codec import StructCodec
from protocol.schema import STRING, Array, Field, Primitive, version_range

CONSTANTS: dict[Any, str] = {
    None: "Py_NewRef(Py_None)",
    False: "Py_NewRef(Py_False)",
    "": 'PyUnicode_FromString("")',
}


class CDecoderSource:
    """Collects the C functions of one decoder."""

    def __init__(self, name: str, version: int, flexible: bool, shape: Shape) -> None:
        self.name = name
        """The name of the decoder, with which the names of all its functions begin."""
        self.version = version
        self.flexible = flexible
        self.shape = shape
        self.functions: list[str] = []

    def request(self, fields: Sequence[Field]) -> None:
        """Adds the functions that decode a request."""
        self._struct(self.name, fields, "", self.shape.result(self.version))

    def _struct(self, function: str, fields: Sequence[Field], prefix: str, result: str) -> None:
        """Adds the function that reads a struct into a tuple. ``result`` is the Python source of
        this tuple."""
        made = _Made(result)
        reads = []
        for field in self._present(fields):
            reads += self._field(field, prefix, made)
        if self.flexible:
            reads.append("no_tags(c)")
        inner = "".join(f"    PyObject *{name};\n" for name in made.inner)
        self.functions.append(f"""\
static PyObject *
{function}(Cursor *c)
{{
    PyObject *made = {made.make};
{inner}    if ({all_of(["made != NULL", *made.puts, *reads, *made.constants])})
        return made;
    Py_XDECREF(made);
    return NULL;
}}
""")

    def _present(self, fields: Sequence[Field]) -> Iterator[Field]:
        for field in fields:
            if self.version in version_range(field.versions) and field.tag is None:
                yield field

    def _field(self, field: Field, prefix: str, made: _Made) -> list[str]:
        """Returns the C conditions that read a field and put its value into the decoded tuple."""
        name = prefix + field.name
        if isinstance(field.type, Array) and name in self.shape.columns:
            return [self._columns(name, field.type.element.fields, made)]  # type: ignore[union-attr]
        value = self._value(field, name)
        if name not in made.places:
            return [f"skip({value}) /* {field.name} */"]
        container, index = made.places[name]
        return [f"put({container}, {index}, {value}) /* {field.name} */"]

    def _value(self, field: Field, name: str) -> str:
        """Returns the C call that reads the value of a field."""
        nullable = "nullable_" if self.version in version_range(field.nullable) else ""
        if isinstance(field.type, Primitive):
            compact = "compact_" if self.flexible and not field.type.format else ""
            kind = "bytes" if field.type.name == "RECORDS" else field.type.name.lower()
            return f"read_{compact}{nullable}{kind}(c)"
        assert isinstance(field.type, Array)
        element = field.type.element
        compact = "true" if self.flexible else "false"
        if isinstance(element, Primitive):
            size = element.size if element.format else 1
            count = f"read_count(c, {compact}, {size})"
            read = element.name.lower()
            if element is STRING:
                read = f"compact_{read}" if self.flexible else read
                return f"read_{nullable}list(c, {count}, read_{read})"
            assert not nullable
            return f"read_tuple(c, {count}, read_{read})"
        least = StructCodec(element.fields, self.version, self.flexible).min_bytes
        function = f"{self.name}_{name}"
        _, row = self.shape.rows[name]
        self._struct(function, element.fields, name.removesuffix("s") + "_", row(self.version))
        return f"read_{nullable}list(c, read_count(c, {compact}, {least}), {function})"

    def _columns(self, name: str, fields: Sequence[Field], made: _Made) -> str:
        """Adds the function that reads the partitions of a commit into one tuple per field. Returns
        the call of this function."""
        least = StructCodec(fields, self.version, self.flexible).min_bytes
        columns: dict[str, str] = {}
        reads = []
        for field in self._present(fields):
            column = "metadata" if field.type is STRING else COLUMNS[field.name]
            value = self._value(field, field.name)
            columns[column] = f"put(row, {made.places[column][1]}, {column} = PyTuple_New(count))"
            if column == "metadata":
                value = f"noted({value}, &has_metadata)"
            reads.append(f"put({column}, i, {value})")
        if self.flexible:
            reads.append("no_tags(c)")
        puts = list(columns.values())
        if "leader_epochs" not in columns:
            puts.append(f"put(row, {made.places['leader_epochs'][1]}, minus_ones(count))")
        if "timestamps" in made.places and "timestamps" not in columns:
            puts.append(f"put(row, {made.places['timestamps'][1]}, Py_NewRef(Py_None))")
        function = f"{self.name}_{name}"
        compact = "true" if self.flexible else "false"
        metadata = made.places["metadata"][1]
        self.functions.append(f"""\
static bool
{function}(Cursor *c, PyObject *row)
{{
    Py_ssize_t count = read_count(c, {compact}, {least});
    PyObject *{", *".join(columns)};
    bool has_metadata = false;
    if (!(count >= 0 && {all_of(puts)}))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!({all_of(reads)}))
            return false;
    return has_metadata || put(row, {metadata}, Py_NewRef(Py_None));
}}
""")
        return f"{function}(c, made)"


class _Made:
    """The C code that creates a tuple, generated from the Python source of the tuple."""

    def __init__(self, source: str) -> None:
        self.inner: list[str] = []
        """The C variables of the nested tuples and lists, which are elements of the tuple that this
        code creates."""
        self.puts: list[str] = []
        """C expressions, each used as a condition. An expression creates a tuple or list of
        ``inner``, and puts it into the tuple that contains it."""
        self.constants: list[str] = []
        """The C expressions that the generated function combines in one `if`. Each expression calls
        a function that puts a constant into the tuple, and is false if the call fails."""
        self.places: dict[str, tuple[str, int]] = {}
        """For each variable in the Python source: the tuple that contains this variable, and the
        index of the variable in the tuple."""
        whole = ast.parse(source, mode="eval").body
        self.make = _new(whole)
        self._walk(whole, "made")

    def _walk(self, node: ast.expr, name: str) -> None:
        assert isinstance(node, ast.Tuple | ast.List)
        put = "put" if isinstance(node, ast.Tuple) else "put_in_list"
        for index, each in enumerate(node.elts):
            if isinstance(each, ast.Name):
                self.places[each.id] = name, index
            elif isinstance(each, ast.Tuple | ast.List) and each.elts:
                inner = f"{name}_{index}"
                self.inner.append(inner)
                self.puts.append(f"{put}({name}, {index}, {inner} = {_new(each)})")
                self._walk(each, inner)
            else:
                self.constants.append(f"{put}({name}, {index}, {_constant(each)})")


def _new(node: ast.expr) -> str:
    """Returns the C call that creates a tuple or a list."""
    assert isinstance(node, ast.Tuple | ast.List)
    return f"Py{'Tuple' if isinstance(node, ast.Tuple) else 'List'}_New({len(node.elts)})"


def _constant(node: ast.expr) -> str:
    value = ast.literal_eval(node)
    if value == []:
        return "PyList_New(0)"
    if type(value) is int:
        return f"PyLong_FromLong({value})"
    return CONSTANTS[value]


def all_of(conditions: Sequence[str]) -> str:
    """Returns the C condition that all ``conditions`` are true, with one condition per line."""
    return "\n        && ".join(conditions)
