/*
 * The plain offset records of a commit; offsets/plain_record.py shows their bytes, and
 * offsets/record_codec.py writes them in Python.
 */

#include "wire.h"

#define OFFSET_KEY_VERSION 1
#define OFFSET_VALUE_VERSION 3
#define OFFSET_VALUE_BYTES 24
/* The bytes of a record after its length and the offset delta, without those of the names: the
 * attributes, the timestamp delta, the key's version, two lengths and the partition, the value's
 * length and the value, and the header count. */
#define KEY_BYTES 10
#define FIXED_BYTES (2 + KEY_BYTES + 1 + OFFSET_VALUE_BYTES + 1)

static inline int
zigzag_bytes(uint64_t value)
{
    int bytes = 1;
    for (value <<= 1; value >= 0x80; value >>= 7)
        bytes++;
    return bytes;
}

/* A signed varint of a number that is not negative. */
static inline bool
write_zigzag(Output *o, uint64_t value)
{
    return write_varint(o, value << 1);
}

/* A string that is not null, at most as long as Kafka's limit. */
static inline const char *
name(PyObject *value, Py_ssize_t *bytes)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, bytes) : NULL;
    return text == NULL || *bytes > MAX_STRING_BYTES ? NULL : text;
}

static bool
write_offset_records(Output *o, PyObject *const *args)
{
    Items partitions, offsets, epochs;
    Py_ssize_t group_bytes, topic_bytes;
    int64_t timestamp_ms, first_delta;
    const char *group = name(args[0], &group_bytes), *topic = name(args[1], &topic_bytes);
    if (group == NULL || topic == NULL || !items(args[2], &partitions) || !items(args[3], &offsets)
        || !items(args[4], &epochs) || offsets.count != partitions.count
        || epochs.count != partitions.count || !number(args[5], INT64_MIN, INT64_MAX, &timestamp_ms)
        || !number(args[6], 0, INT32_MAX - partitions.count, &first_delta))
        return false;
    Py_ssize_t key_bytes = KEY_BYTES + group_bytes + topic_bytes;
    Py_ssize_t body_bytes = FIXED_BYTES + zigzag_bytes(key_bytes) + group_bytes + topic_bytes;
    for (Py_ssize_t i = 0; i < partitions.count; i++) {
        uint64_t delta = (uint64_t)(first_delta + i);
        if (!write_zigzag(o, (uint64_t)(body_bytes + zigzag_bytes(delta)))
            || !write_number(o, 0, 2) /* attributes, timestamp delta */
            || !write_zigzag(o, delta) || !write_zigzag(o, (uint64_t)key_bytes)
            || !write_number(o, OFFSET_KEY_VERSION, 2)
            || !write_number(o, (uint64_t)group_bytes, 2) || !write_raw(o, group, group_bytes)
            || !write_number(o, (uint64_t)topic_bytes, 2) || !write_raw(o, topic, topic_bytes)
            || !write_int32(o, item(&partitions, i)) || !write_zigzag(o, OFFSET_VALUE_BYTES)
            || !write_number(o, OFFSET_VALUE_VERSION, 2) || !write_int64(o, item(&offsets, i))
            || !write_int32(o, item(&epochs, i)) || !write_number(o, 0, 2) /* no metadata */
            || !write_number(o, (uint64_t)timestamp_ms, 8) || !write_number(o, 0, 1))
            return false;
    }
    return true;
}

static PyObject *
offset_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *records = NULL;
    if (count == 7) {
        Output o;
        begin(&o);
        if (write_offset_records(&o, args))
            records = PyBytes_FromStringAndSize((const char *)o.data, o.size);
        end(&o);
    }
    return records != NULL ? records : by_python(NULL, args, count);
}
