/*
 * The offsets of a commit in memory: makes the runs of offsets/runs.py, stores them into the columns
 * of offsets/columns.py, and finds offsets that a commit lowers. Only the plain case is done here:
 * partition numbers are slots that exist, they are consecutive, and there is neither metadata nor an
 * expiry. Python does all other runs.
 */

#include "wire.h"

#define UNUSED_SLOT (-((int64_t)1 << 62)) /* `_UNUSED` in offsets/columns.py */
#define RUN_MAX 256                       /* the most partitions of a run that is stored here */

/* The attributes that are read, in the order of `names`. */
enum {
    GROUP_ID, TOPIC, PARTITIONS, OFFSETS, LEADER_EPOCHS, METADATA, COMMIT_TIMESTAMP_MS,
    EXPIRE_TIMESTAMP_MS, SLOTS, RARE_METADATA, RARE_EXPIRIES, KEPT_OFFSETS, KEPT_EPOCHS,
    KEPT_TIMESTAMPS, KEPT_LOG_OFFSETS, COUNT, ENCODED, ATTRIBUTES
};
static const char *const attribute_names[ATTRIBUTES] = {
    "group_id", "topic", "partitions", "offsets", "leader_epochs", "metadata",
    "commit_timestamp_ms", "expire_timestamp_ms", "_slots", "_metadata", "_expire_timestamps",
    "_offsets", "_epochs", "_commit_timestamps", "_log_offsets", "count", "encoded",
};
static PyObject *names[ATTRIBUTES];

static int
add_names(PyObject *Py_UNUSED(module))
{
    for (int i = 0; i < ATTRIBUTES; i++)
        if (names[i] == NULL && (names[i] = PyUnicode_InternFromString(attribute_names[i])) == NULL)
            return -1;
    return 0;
}

/* Whether an attribute is None, or an empty dict. */
static bool
is_absent(PyObject *object, int attribute)
{
    PyObject *value = PyObject_GetAttr(object, names[attribute]);
    bool absent = value != NULL && (value == Py_None || (PyDict_Check(value) && PyDict_Size(value) == 0));
    Py_XDECREF(value);
    return absent;
}

static bool
number_of(PyObject *object, int attribute, int64_t *found)
{
    PyObject *value = PyObject_GetAttr(object, names[attribute]);
    bool read = value != NULL && number(value, INT64_MIN, INT64_MAX, found);
    Py_XDECREF(value);
    return read;
}

/* A column of `array`, whose buffer is held until `release`. */
static bool
hold(PyObject *columns, int attribute, Py_ssize_t item_bytes, Py_buffer *held)
{
    PyObject *array = PyObject_GetAttr(columns, names[attribute]);
    bool holds = array != NULL && PyObject_GetBuffer(array, held, PyBUF_WRITABLE) == 0;
    Py_XDECREF(array);
    if (holds && held->itemsize != item_bytes) {
        PyBuffer_Release(held);
        holds = false;
    }
    return holds;
}

/* The columns of a run's topic as a borrowed reference; NULL if the group has none. */
static PyObject *
columns_of(PyObject *topics, PyObject *run)
{
    PyObject *topic = PyObject_GetAttr(run, names[TOPIC]);
    PyObject *columns = topic == NULL ? NULL : PyDict_GetItemWithError(topics, topic);
    Py_XDECREF(topic);
    return columns;
}

/* Numbers of a run, copied before anything is written. */
static bool
numbers_of(PyObject *run, int attribute, Py_ssize_t count, int64_t most, int64_t *found)
{
    Items all;
    PyObject *sequence = PyObject_GetAttr(run, names[attribute]);
    bool read = sequence != NULL && items(sequence, &all) && all.count == count;
    for (Py_ssize_t i = 0; read && i < count; i++)
        read = number(item(&all, i), -most - 1, most, &found[i]);
    Py_XDECREF(sequence);
    return read;
}

/* The number of a run's partitions and the first one; 0 if they are not consecutive, or unusual. */
static Py_ssize_t
consecutive(PyObject *run, int64_t *first)
{
    Items all;
    Py_ssize_t count = 0;
    PyObject *partitions = PyObject_GetAttr(run, names[PARTITIONS]);
    if (partitions != NULL && items(partitions, &all) && all.count > 0 && all.count <= RUN_MAX
        && number(item(&all, 0), 0, INT32_MAX, first)) {
        int64_t partition;
        count = all.count;
        for (Py_ssize_t i = 1; i < all.count; i++)
            if (!number(item(&all, i), 0, INT32_MAX, &partition) || partition != *first + i)
                count = 0;
    }
    Py_XDECREF(partitions);
    return count;
}

/* Stores a run whose records begin at `base_offset`; returns the number of new offsets, or -1 if
 * Python has to store it. Nothing is written before the whole run is known to be plain. */
static Py_ssize_t
store_run(PyObject *columns, PyObject *run, Py_ssize_t count, int64_t first, int64_t base_offset)
{
    int64_t offsets[RUN_MAX], epochs[RUN_MAX], timestamp_ms, expire_ms, used;
    Py_buffer kept[4];
    Py_ssize_t slots, new = 0;
    static const struct { int attribute; Py_ssize_t bytes; } of[4] = {
        {KEPT_OFFSETS, 8}, {KEPT_EPOCHS, 4}, {KEPT_TIMESTAMPS, 8}, {KEPT_LOG_OFFSETS, 8},
    };
    if (!is_absent(run, METADATA) || !number_of(run, EXPIRE_TIMESTAMP_MS, &expire_ms)
        || expire_ms != -1 || !number_of(run, COMMIT_TIMESTAMP_MS, &timestamp_ms)
        || !is_absent(columns, SLOTS) || !is_absent(columns, RARE_METADATA)
        || !is_absent(columns, RARE_EXPIRIES) || !number_of(columns, COUNT, &used)
        || !numbers_of(run, OFFSETS, count, INT64_MAX, offsets)
        || !numbers_of(run, LEADER_EPOCHS, count, INT32_MAX, epochs))
        return -1;
    for (int i = 0; i < 4; i++)
        if (!hold(columns, of[i].attribute, of[i].bytes, &kept[i])) {
            while (i-- > 0)
                PyBuffer_Release(&kept[i]);
            return -1;
        }
    slots = kept[3].len / 8;
    bool fits = first + count <= slots && kept[0].len == kept[3].len && kept[2].len == kept[3].len
        && kept[1].len / 4 == slots;
    if (fits) {
        int64_t *log_offsets = kept[3].buf;
        for (Py_ssize_t i = 0; i < count; i++) {
            Py_ssize_t slot = first + i;
            new += log_offsets[slot] == UNUSED_SLOT;
            ((int64_t *)kept[0].buf)[slot] = offsets[i];
            ((int32_t *)kept[1].buf)[slot] = (int32_t)epochs[i];
            ((int64_t *)kept[2].buf)[slot] = timestamp_ms;
            log_offsets[slot] = base_offset - first;
        }
    }
    for (int i = 0; i < 4; i++)
        PyBuffer_Release(&kept[i]);
    if (!fits)
        return -1;
    if (new > 0) {
        PyObject *total = PyLong_FromLongLong(used + new);
        if (total == NULL || PyObject_SetAttr(columns, names[COUNT], total) < 0)
            new = -1; /* no memory; Python repeats the run, which writes the same */
        Py_XDECREF(total);
    }
    if (!is_absent(columns, ENCODED))
        PyObject_SetAttr(columns, names[ENCODED], Py_None);
    return new;
}

/* Whether the run may lower an offset: true if Python has to look. */
static bool
may_lower(PyObject *columns, PyObject *run)
{
    int64_t offsets[RUN_MAX], first;
    Py_buffer kept;
    Py_ssize_t count = consecutive(run, &first);
    if (count == 0 || !is_absent(columns, SLOTS)
        || !numbers_of(run, OFFSETS, count, INT64_MAX, offsets)
        || !hold(columns, KEPT_OFFSETS, 8, &kept))
        return true;
    bool lowers = false;
    for (Py_ssize_t i = 0; i < count && first + i < kept.len / 8; i++)
        lowers |= offsets[i] < ((int64_t *)kept.buf)[first + i];
    PyBuffer_Release(&kept);
    return lowers;
}

/* store_offsets(groups, runs, index, base_offset, OffsetRun): stores plain runs from `index` on, up
 * to the first one that Python has to store. Returns its index, the log offset of its first record,
 * and the number of new offsets. */
static PyObject *
store_offsets(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Items runs;
    int64_t index, offset, first;
    Py_ssize_t new = 0;
    if (count != 5 || !PyDict_Check(args[0]) || !items(args[1], &runs)
        || !number(args[2], 0, INT32_MAX, &index)
        || !number(args[3], 0, INT64_MAX - INT32_MAX, &offset))
        return PyErr_Format(PyExc_TypeError, "store_offsets: unexpected arguments");
    for (; index < runs.count; index++) {
        PyObject *run = item(&runs, index);
        if ((PyObject *)Py_TYPE(run) != args[4])
            break;
        PyObject *group_id = PyObject_GetAttr(run, names[GROUP_ID]);
        PyObject *topics = group_id == NULL ? NULL : PyDict_GetItemWithError(args[0], group_id);
        PyObject *columns = topics == NULL ? NULL : columns_of(topics, run);
        Py_XDECREF(group_id);
        Py_ssize_t partitions = columns == NULL ? 0 : consecutive(run, &first);
        Py_ssize_t stored = partitions == 0 ? -1 : store_run(columns, run, partitions, first, offset);
        if (stored < 0)
            break;
        new += stored;
        offset += partitions;
    }
    PyErr_Clear();
    return Py_BuildValue("(LLn)", (long long)index, (long long)offset, new);
}

/* first_lowered(topics, runs, OffsetRun): the index of the first run that may lower an offset of the
 * group with these columns; the number of runs if none does. */
static PyObject *
first_lowered(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Items runs;
    Py_ssize_t index;
    if (count != 3 || !PyDict_Check(args[0]) || !items(args[1], &runs))
        return PyErr_Format(PyExc_TypeError, "first_lowered: unexpected arguments");
    for (index = 0; index < runs.count; index++) {
        PyObject *run = item(&runs, index);
        if ((PyObject *)Py_TYPE(run) != args[2])
            continue;
        PyObject *columns = columns_of(args[0], run);
        if (columns != NULL && may_lower(columns, run))
            break;
    }
    PyErr_Clear();
    return PyLong_FromSsize_t(index);
}

/* A new run; `values` has its attributes from GROUP_ID to EXPIRE_TIMESTAMP_MS. */
static PyObject *
new_run(PyObject *type, PyObject *const values[])
{
    PyObject *run = PyType_GenericNew((PyTypeObject *)type, NULL, NULL);
    for (int i = GROUP_ID; run != NULL && i <= EXPIRE_TIMESTAMP_MS; i++)
        if (PyObject_SetAttr(run, names[i], values[i]) < 0)
            Py_CLEAR(run);
    return run;
}

/* Appends the run of a topic, unless it has no partitions; false if the topic is not plain. */
static bool
append_run(PyObject *runs, PyObject *type, PyObject *topic, PyObject *values[], int64_t *characters)
{
    PyObject *fields[6]; /* topic, partitions, offsets, leader epochs, metadata, timestamps */
    Py_ssize_t partitions, name;
    if (!unpack(topic, fields, 6) || fields[4] != Py_None || fields[5] != Py_None
        || !PyUnicode_Check(fields[0]) || (partitions = PyObject_Size(fields[1])) < 0
        || (name = PyUnicode_GetLength(fields[0])) < 0)
        return false;
    *characters += partitions * name;
    for (int i = 0; i < 4; i++)
        values[TOPIC + i] = fields[i];
    if (partitions == 0)
        return true;
    PyObject *run = new_run(type, values);
    bool appended = run != NULL && PyList_Append(runs, run) == 0;
    Py_XDECREF(run);
    return appended;
}

/* offset_runs(OffsetRun, group_id, topics, commit_timestamp_ms, expire_timestamp_ms): the runs of a
 * commit without metadata and timestamps, the number of their records, and the number of characters
 * of the topic names in these records; None if Python has to make the runs. */
static PyObject *
offset_runs(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Items topics;
    int64_t records = 0, characters = 0;
    PyObject *values[EXPIRE_TIMESTAMP_MS + 1];
    PyObject *runs = count == 5 && items(args[2], &topics) ? PyList_New(0) : NULL;
    if (runs != NULL) {
        values[GROUP_ID] = args[1];
        values[METADATA] = Py_None;
        values[COMMIT_TIMESTAMP_MS] = args[3];
        values[EXPIRE_TIMESTAMP_MS] = args[4];
    }
    for (Py_ssize_t i = 0; runs != NULL && i < topics.count; i++) {
        if (append_run(runs, args[0], item(&topics, i), values, &characters))
            records += PyObject_Size(values[PARTITIONS]);
        else
            Py_CLEAR(runs);
    }
    if (runs == NULL) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(NLL)", runs, (long long)records, (long long)characters);
}
