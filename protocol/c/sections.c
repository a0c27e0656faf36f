/*
 * The check of a records section of magic 2 (protocol/records/section.py: check_section), which
 * reads every record of a Produce request. It accepts only what is certainly valid: Python checks
 * every other section again and raises the error.
 */

#include "wire.h"

#define LENGTH_VARINT_BYTES 4 /* enough for 128 MiB; Python reads longer varints */
#define TIME_VARINT_BYTES 8   /* 56 bits */
/* With a base timestamp in these bounds, no timestamp of a record overflows. */
#define BASE_MAX_MS ((int64_t)1 << 62)
#define BASE_MIN_MS (-BASE_MAX_MS)

/* The bits of an unsigned varint of at most `bytes` bytes; -1 if it is longer or truncated. */
static inline int64_t
read_short_varint(Cursor *c, int bytes)
{
    if (c->at < c->end && *c->at < 0x80)
        return *c->at++;
    uint64_t bits = 0;
    for (int shift = 0; shift < 7 * bytes && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return (int64_t)bits;
    }
    return -1;
}

/* Moves the cursor after a key or a value. Returns its length, NULL_ARRAY for null, or UNUSUAL. */
static inline Py_ssize_t
skip_field(Cursor *c)
{
    int64_t bits = read_short_varint(c, LENGTH_VARINT_BYTES);
    if (bits == 1)
        return NULL_ARRAY;
    if (bits < 0 || bits & 1 || bits >> 1 > left(c))
        return UNUSUAL;
    c->at += bits >> 1;
    return bits >> 1;
}

/* Moves the cursor after the headers of a record. Returns their number, or -1. */
static inline int64_t
skip_headers(Cursor *c)
{
    int64_t bits = read_short_varint(c, LENGTH_VARINT_BYTES), count = bits >> 1;
    if (bits < 0 || bits & 1 || 2 * count > left(c))
        return -1;
    for (int64_t i = 0; i < count; i++)
        if (skip_field(c) < 0 || skip_field(c) == UNUSUAL)
            return -1;
    return count;
}

/* The largest timestamp deltas of a section as zigzag numbers, and its number of headers. */
typedef struct {
    int64_t latest, earliest, headers;
} Checked;

/* True if the section has exactly `count` valid records with the offset deltas 0, 1, 2 ... */
static bool
check_records(Cursor *c, int64_t count, bool null_keys_allowed, Checked *found)
{
    found->latest = -1;
    found->earliest = found->headers = 0;
    for (int64_t index = 0; index < count; index++) {
        int64_t bytes = read_short_varint(c, LENGTH_VARINT_BYTES);
        if (bytes < 0 || bytes & 1 || bytes >> 1 > left(c) || bytes == 0)
            return false;
        Cursor record = {c->at + 1, c->at + (bytes >> 1)}; /* after one byte of unused attributes */
        int64_t time = read_short_varint(&record, TIME_VARINT_BYTES);
        if (time < 0 || read_short_varint(&record, LENGTH_VARINT_BYTES) != index << 1)
            return false;
        if (time & 1)
            found->earliest = time > found->earliest ? time : found->earliest;
        else
            found->latest = time > found->latest ? time : found->latest;
        Py_ssize_t key_bytes = skip_field(&record);
        if (key_bytes == UNUSUAL || (key_bytes == NULL_ARRAY && !null_keys_allowed)
            || skip_field(&record) == UNUSUAL)
            return false;
        int64_t headers = skip_headers(&record);
        if (headers < 0 || record.at != record.end)
            return false;
        found->headers += headers;
        c->at = record.end;
    }
    return c->at == c->end;
}

static PyObject *
section_times(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    int64_t count, base_ms;
    Py_buffer section;
    if (given != 4 || !number(args[1], 1, INT32_MAX, &count)
        || !number(args[2], BASE_MIN_MS, BASE_MAX_MS, &base_ms)
        || PyObject_GetBuffer(args[0], &section, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    Cursor c = {section.buf, (const uint8_t *)section.buf + section.len};
    Checked found;
    bool valid = check_records(&c, count, args[3] == Py_False, &found);
    PyBuffer_Release(&section);
    if (!valid || found.latest < 0)
        Py_RETURN_NONE;
    return Py_BuildValue("LLL", (long long)(base_ms - ((found.earliest + 1) >> 1)),
                         (long long)(base_ms + (found.latest >> 1)), (long long)found.headers);
}
