/*
 * protocol._compiled: the compiled codecs and records, which protocol/compiled.py offers to the
 * broker. One translation unit: the compiler sees everything, and nothing is exported but the
 * module's function.
 */

#include "codecs.c"
#include "records.c"
#include "columns.c"
#include "sections.c"
#include "keys.c"

static PyMethodDef methods[] = {
    {"codec", (PyCFunction)(void (*)(void))codec, METH_FASTCALL,
     "codec(name, python): the codec of a name, which calls `python` for what it can't do"},
    {"offset_records", (PyCFunction)(void (*)(void))offset_records, METH_FASTCALL,
     "offset_records(group_id, topic, partitions, offsets, leader_epochs, commit_timestamp_ms,"
     " first_delta): plain offset records, or None"},
    {"offset_runs", (PyCFunction)(void (*)(void))offset_runs, METH_FASTCALL,
     "offset_runs(OffsetRun, group_id, topics, commit_timestamp_ms, expire_timestamp_ms): (runs,"
     " records, characters of topic names) of a plain commit, or None"},
    {"store_offsets", (PyCFunction)(void (*)(void))store_offsets, METH_FASTCALL,
     "store_offsets(groups, runs, index, base_offset, OffsetRun): (index, offset, new offsets) of"
     " the first run that Python has to store"},
    {"first_lowered", (PyCFunction)(void (*)(void))first_lowered, METH_FASTCALL,
     "first_lowered(topics, runs, OffsetRun): the index of the first run that may lower an offset"},
    {"section_times", (PyCFunction)(void (*)(void))section_times, METH_FASTCALL,
     "section_times(section, count, base_timestamp, find_null_keys): (smallest timestamp, largest"
     " timestamp, headers) of a plain section, or None"},
    {"note_keys", (PyCFunction)(void (*)(void))note_keys, METH_FASTCALL,
     "note_keys(section, count, base_offset, latest): enters the keys of a plain section into"
     " `latest` and returns their bytes, or None"},
    {NULL, NULL, 0, NULL},
};

static int
add_sources(PyObject *module)
{
    return PyModule_AddStringConstant(module, "SOURCES", SOURCES);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_sources},
    {Py_mod_exec, add_names},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_compiled",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
