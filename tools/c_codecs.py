"""Writes ``protocol/c/codecs.c``: the codecs of the hot APIs in C, for ``make_codecs.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from c_decoder_source import CDecoderSource
from c_encoder_source import CEncoderSource
from codec_shapes import Shape

from protocol.compiled import COMPILED
from protocol.headers import response_header_version
from protocol.messages import BY_NAME
from protocol.schema import Api

HEAD = """\
/*
 * The codecs of the hot APIs in C. Written by tools/make_codecs.py, from the tables from which it
 * writes protocol/generated; do not edit. wire.h has the functions for the types.
 *
 * A decoder makes the same tuple as the decoder in Python, an encoder the same bytes. What they
 * can't do they leave to Python: see protocol/compiled.py.
 */

#include "wire.h"
"""

BIND = """\
/* A codec, by its name: `decode` or `encode`, the module of protocol/generated, the version. */
typedef struct {
    const char *name;
    PyMethodDef method;
} Codec;

#define CODEC(name, function) \\
    {name, {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}}

static Codec codecs[] = {
%s
};

/* Returns the codec of a name, which calls `python` for what it can't do; None if the codec does
 * not exist. If `python` is None, the codec returns None instead. */
static PyObject *
codec(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "codec(name, python)");
        return NULL;
    }
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        if (PyUnicode_CompareWithASCIIString(args[0], codecs[i].name) == 0)
            return PyCFunction_NewEx(&codecs[i].method, args[1], NULL);
    Py_RETURN_NONE;
}
"""


def source(shapes: dict[str, Shape]) -> str:
    parts = [HEAD]
    table: list[str] = []
    for name in COMPILED:
        shape = shapes[name]
        api = BY_NAME[shape.api]
        parts.append(f"/* {'-' * (90 - len(api.name))} {api.name} */\n")
        kinds = (
            {"decode": _decoder} if shape.in_chunks else {"decode": _decoder, "encode": _encoder}
        )
        for kind, write in kinds.items():
            functions = _by_version(api, f"{kind}_{name}", partial(write, api, shape))
            for version, (first, text) in functions.items():
                if version == first:
                    parts += text
                entry = f"call_{kind}_{name}_v{first}"
                table.append(f'    CODEC("{kind} {name} {version}", {entry}),')
    return "\n".join([*parts, BIND % "\n".join(table)])


def _by_version(
    api: Api, name: str, make: Callable[[int, str], list[str]]
) -> dict[int, tuple[int, list[str]]]:
    """Returns two values for each version: the version's C functions, and the lowest version that
    has the same functions. Consecutive versions with the same format share their functions."""
    found: dict[int, tuple[int, list[str]]] = {}
    for version in api.versions:
        first, _ = found.get(version - 1, (version, []))
        text = make(version, f"{name}_v{first}")
        if version - 1 not in found or found[version - 1][1] != text:
            first, text = version, make(version, f"{name}_v{version}")
        found[version] = first, text
    return found


def _decoder(api: Api, shape: Shape, version: int, name: str) -> list[str]:
    made = CDecoderSource(name, version, api.is_flexible(version), shape)
    made.request(api.request)
    call = f"decoded({name}, python, args, count)"
    return [*made.functions, _call(name, call)]


def _encoder(api: Api, shape: Shape, version: int, name: str) -> list[str]:
    made = CEncoderSource(name, version, api.is_flexible(version), shape)
    made.response(api.response)
    has_tags = "true" if response_header_version(api.key, version) == 1 else "false"
    wanted = len(shape.arguments) + 1
    call = f"encoded({name}, {wanted}, {has_tags}, python, args, count)"
    return [*made.functions, _call(name, call)]


def _call(name: str, call: str) -> str:
    """Returns the C function that Python calls."""
    return f"""\
static PyObject *
call_{name}(PyObject *python, PyObject *const *args, Py_ssize_t count)
{{
    return {call};
}}
"""
