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

/* Writes the signed varint of a number that is not negative, and returns the place after it. */
static inline uint8_t *
put_zigzag(uint8_t *place, uint64_t value)
{
    for (value <<= 1; value >= 0x80; value >>= 7)
        *place++ = (uint8_t)(value | 0x80);
    *place = (uint8_t)value;
    return place + 1;
}

static inline uint8_t *
put_number(uint8_t *place, uint64_t value, int bytes)
{
    store(place, value, bytes);
    return place + bytes;
}

static inline uint8_t *
put_raw(uint8_t *place, const char *data, Py_ssize_t bytes)
{
    memcpy(place, data, bytes);
    return place + bytes;
}

/* A string that is not null, at most as long as Kafka's limit. */
static inline const char *
name(PyObject *value, Py_ssize_t *bytes)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, bytes) : NULL;
    return text == NULL || *bytes > MAX_STRING_BYTES ? NULL : text;
}

/* The size of the records with `count` deltas from `first_delta` on, whose bodies have `body_bytes`
 * besides the deltas. */
static Py_ssize_t
records_bytes(Py_ssize_t body_bytes, int64_t first_delta, Py_ssize_t count)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t bytes = body_bytes + zigzag_bytes((uint64_t)(first_delta + i));
        total += zigzag_bytes((uint64_t)bytes) + bytes;
    }
    return total;
}

static PyObject *
plain_records(PyObject *const *args)
{
    Items partitions, offsets, epochs;
    Py_ssize_t group_bytes, topic_bytes;
    int64_t timestamp_ms, first_delta;
    const char *group = name(args[0], &group_bytes), *topic = name(args[1], &topic_bytes);
    if (group == NULL || topic == NULL || !items(args[2], &partitions) || !items(args[3], &offsets)
        || !items(args[4], &epochs) || offsets.count != partitions.count
        || epochs.count != partitions.count || !number(args[5], INT64_MIN, INT64_MAX, &timestamp_ms)
        || !number(args[6], 0, INT32_MAX - partitions.count, &first_delta))
        return NULL;
    Py_ssize_t key_bytes = KEY_BYTES + group_bytes + topic_bytes;
    Py_ssize_t body_bytes = FIXED_BYTES + zigzag_bytes(key_bytes) + group_bytes + topic_bytes;
    PyObject *records = PyBytes_FromStringAndSize(
        NULL, records_bytes(body_bytes, first_delta, partitions.count));
    uint8_t *at = records == NULL ? NULL : (uint8_t *)PyBytes_AsString(records);
    for (Py_ssize_t i = 0; at != NULL && i < partitions.count; i++) {
        uint64_t delta = (uint64_t)(first_delta + i);
        int64_t partition, offset, epoch;
        if (!number(item(&partitions, i), INT32_MIN, INT32_MAX, &partition)
            || !number(item(&offsets, i), INT64_MIN, INT64_MAX, &offset)
            || !number(item(&epochs, i), INT32_MIN, INT32_MAX, &epoch)) {
            Py_CLEAR(records);
            break;
        }
        at = put_zigzag(at, (uint64_t)(body_bytes + zigzag_bytes(delta)));
        at = put_number(at, 0, 2); /* attributes, timestamp delta */
        at = put_zigzag(at, delta);
        at = put_zigzag(at, (uint64_t)key_bytes);
        at = put_number(at, OFFSET_KEY_VERSION, 2);
        at = put_raw(put_number(at, (uint64_t)group_bytes, 2), group, group_bytes);
        at = put_raw(put_number(at, (uint64_t)topic_bytes, 2), topic, topic_bytes);
        at = put_number(at, (uint64_t)partition, 4);
        at = put_zigzag(at, OFFSET_VALUE_BYTES);
        at = put_number(at, OFFSET_VALUE_VERSION, 2);
        at = put_number(at, (uint64_t)offset, 8);
        at = put_number(at, (uint64_t)epoch, 4);
        at = put_number(at, 0, 2); /* no metadata */
        at = put_number(at, (uint64_t)timestamp_ms, 8);
        at = put_number(at, 0, 1); /* no headers */
    }
    return records;
}

static PyObject *
offset_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *records = count == 7 ? plain_records(args) : NULL;
    return records != NULL ? records : by_python(NULL, args, count);
}
