/*
 * Kafka's types on the wire, for the generated codecs of codecs.c and for records.c.
 *
 * A reader returns a new reference, or NULL if it can't read the value: the bytes are invalid, end
 * too early, or are rare. A writer returns false if it can't write the value. In both cases the
 * caller gives up and Python does the work again: it alone decides what is an error, and which. So
 * nothing here raises an exception that a caller sees.
 *
 * Memory is only allocated for bytes that have arrived (law 5): every length and count is compared
 * with the rest of the buffer before an object is made.
 */

#ifndef MUSTER_WIRE_H
#define MUSTER_WIRE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MAX_STRING_BYTES 0x7FFF
#define UUID_BYTES 16

/* ------------------------------------------------------------------------------------- reading */

typedef struct {
    const uint8_t *at, *end;
} Cursor;

/* A count that can't be read, and the count of a null array. */
enum { UNUSUAL = -2, NULL_ARRAY = -1 };

static inline Py_ssize_t
left(const Cursor *c)
{
    return c->end - c->at;
}

/* The next big-endian integer of at most 8 bytes; the caller has checked that it has arrived. */
static inline uint64_t
take(Cursor *c, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | c->at[i];
    c->at += bytes;
    return value;
}

static inline PyObject *
read_boolean(Cursor *c)
{
    return left(c) < 1 ? NULL : PyBool_FromLong(*c->at++ != 0);
}

static inline PyObject *
read_int8(Cursor *c)
{
    return left(c) < 1 ? NULL : PyLong_FromLong((int8_t)take(c, 1));
}

static inline PyObject *
read_int16(Cursor *c)
{
    return left(c) < 2 ? NULL : PyLong_FromLong((int16_t)take(c, 2));
}

static inline PyObject *
read_int32(Cursor *c)
{
    return left(c) < 4 ? NULL : PyLong_FromLong((int32_t)take(c, 4));
}

static inline PyObject *
read_int64(Cursor *c)
{
    return left(c) < 8 ? NULL : PyLong_FromLongLong((int64_t)take(c, 8));
}

static inline PyObject *
read_uuid(Cursor *c)
{
    if (left(c) < UUID_BYTES)
        return NULL;
    c->at += UUID_BYTES;
    return PyBytes_FromStringAndSize((const char *)c->at - UUID_BYTES, UUID_BYTES);
}

/* An unsigned varint of at most 32 bits in at most 5 bytes; -1 if there is none. */
static inline int64_t
read_varint(Cursor *c)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 35 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return value > UINT32_MAX ? -1 : (int64_t)value;
    }
    return -1;
}

/* The length of a string or of data: NULL_ARRAY for null, UNUSUAL if it is invalid or too long. */
static inline Py_ssize_t
read_length(Cursor *c, int prefix_bytes)
{
    int64_t length;
    if (prefix_bytes == 0)
        length = read_varint(c) - 1;
    else if (left(c) < prefix_bytes)
        return UNUSUAL;
    else if (prefix_bytes == 2)
        length = (int16_t)take(c, 2);
    else
        length = (int32_t)take(c, 4);
    return length < NULL_ARRAY || length > left(c) ? UNUSUAL : (Py_ssize_t)length;
}

static inline PyObject *
read_text(Cursor *c, int prefix_bytes, bool nullable)
{
    Py_ssize_t length = read_length(c, prefix_bytes);
    if (length == NULL_ARRAY && nullable)
        return Py_NewRef(Py_None);
    if (length < 0 || length > MAX_STRING_BYTES)
        return NULL;
    c->at += length;
    return PyUnicode_DecodeUTF8((const char *)c->at - length, length, NULL);
}

static inline PyObject *
read_data(Cursor *c, int prefix_bytes, bool nullable)
{
    Py_ssize_t length = read_length(c, prefix_bytes);
    if (length == NULL_ARRAY && nullable)
        return Py_NewRef(Py_None);
    if (length < 0)
        return NULL;
    c->at += length;
    return PyBytes_FromStringAndSize((const char *)c->at - length, length);
}

static inline PyObject *read_string(Cursor *c) { return read_text(c, 2, false); }
static inline PyObject *read_nullable_string(Cursor *c) { return read_text(c, 2, true); }
static inline PyObject *read_compact_string(Cursor *c) { return read_text(c, 0, false); }
static inline PyObject *read_compact_nullable_string(Cursor *c) { return read_text(c, 0, true); }
static inline PyObject *read_bytes(Cursor *c) { return read_data(c, 4, false); }
static inline PyObject *read_nullable_bytes(Cursor *c) { return read_data(c, 4, true); }
static inline PyObject *read_compact_bytes(Cursor *c) { return read_data(c, 0, false); }
static inline PyObject *read_compact_nullable_bytes(Cursor *c) { return read_data(c, 0, true); }

/* The count of an array whose elements have at least `element_bytes`: NULL_ARRAY for null, UNUSUAL
 * if the rest of the buffer can't hold the array. */
static inline Py_ssize_t
read_count(Cursor *c, bool compact, Py_ssize_t element_bytes)
{
    int64_t count;
    if (compact) {
        count = read_varint(c);
        if (count < 0)
            return UNUSUAL;
        count--;
    } else if (left(c) < 4) {
        return UNUSUAL;
    } else {
        count = (int32_t)take(c, 4);
    }
    if (count < NULL_ARRAY || count * element_bytes > left(c))
        return UNUSUAL;
    return (Py_ssize_t)count;
}

/* True if the next section of tagged fields is empty. */
static inline bool
no_tags(Cursor *c)
{
    return c->at < c->end && *c->at++ == 0;
}

/* Puts a new reference into a tuple; false if the value is NULL. */
static inline bool
put(PyObject *tuple, Py_ssize_t index, PyObject *value)
{
    return value != NULL && PyTuple_SetItem(tuple, index, value) == 0;
}

static inline bool
put_in_list(PyObject *list, Py_ssize_t index, PyObject *value)
{
    return value != NULL && PyList_SetItem(list, index, value) == 0;
}

/* A list of `count` elements, each read by `read_element`. */
static inline PyObject *
read_list(Cursor *c, Py_ssize_t count, PyObject *(*read_element)(Cursor *))
{
    PyObject *list = count < 0 ? NULL : PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++)
        if (!put_in_list(list, i, read_element(c)))
            Py_CLEAR(list);
    return list;
}

static inline PyObject *
read_nullable_list(Cursor *c, Py_ssize_t count, PyObject *(*read_element)(Cursor *))
{
    return count == NULL_ARRAY ? Py_NewRef(Py_None) : read_list(c, count, read_element);
}

/* A tuple of `count` elements, each read by `read_element`. */
static inline PyObject *
read_tuple(Cursor *c, Py_ssize_t count, PyObject *(*read_element)(Cursor *))
{
    PyObject *tuple = count < 0 ? NULL : PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++)
        if (!put(tuple, i, read_element(c)))
            Py_CLEAR(tuple);
    return tuple;
}

/* Drops the value of a field that is not in the request's tuple. */
static inline bool
skip(PyObject *value)
{
    Py_XDECREF(value);
    return value != NULL;
}

/* Returns `text`, and sets `*found` unless it is null or empty. */
static inline PyObject *
noted(PyObject *text, bool *found)
{
    if (text != NULL && text != Py_None && PyUnicode_GetLength(text) > 0)
        *found = true;
    return text;
}

/* A tuple that has the number -1 `count` times. */
static inline PyObject *
minus_ones(Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++)
        if (!put(tuple, i, PyLong_FromLong(-1)))
            Py_CLEAR(tuple);
    return tuple;
}

/* ------------------------------------------------------------------------------------- writing */

/* The bytes of one frame, which grow as they are written: most frames fit in `first`. */
typedef struct {
    uint8_t *data;
    Py_ssize_t size, room;
    uint8_t first[1000];
} Output;

static inline void
begin(Output *o)
{
    o->data = o->first;
    o->size = 0;
    o->room = sizeof o->first;
}

static inline void
end(Output *o)
{
    if (o->data != o->first)
        PyMem_Free(o->data);
}

/* Makes room for `bytes` more bytes, and returns their place; NULL without memory. */
static inline uint8_t *
extend(Output *o, Py_ssize_t bytes)
{
    if (bytes > o->room - o->size) {
        if (bytes > PY_SSIZE_T_MAX / 4)
            return NULL;
        Py_ssize_t room = 2 * o->room + bytes;
        uint8_t *data = PyMem_Realloc(o->data == o->first ? NULL : o->data, room);
        if (data == NULL)
            return NULL;
        if (o->data == o->first)
            memcpy(data, o->first, o->size);
        o->data = data;
        o->room = room;
    }
    uint8_t *place = o->data + o->size;
    o->size += bytes;
    return place;
}

static inline void
store(uint8_t *place, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) {
        place[i] = (uint8_t)value;
        value >>= 8;
    }
}

static inline bool
write_number(Output *o, uint64_t value, int bytes)
{
    uint8_t *place = extend(o, bytes);
    if (place != NULL)
        store(place, value, bytes);
    return place != NULL;
}

static inline bool
write_raw(Output *o, const char *data, Py_ssize_t bytes)
{
    uint8_t *place = extend(o, bytes);
    if (place != NULL)
        memcpy(place, data, bytes);
    return place != NULL;
}

/* The value of an int from `least` to `most`. */
static inline bool
number(PyObject *value, int64_t least, int64_t most, int64_t *found)
{
    int overflow = 0;
    if (!PyLong_Check(value))
        return false;
    *found = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && *found >= least && *found <= most;
}

static inline bool
write_int(Output *o, PyObject *value, int bytes)
{
    int64_t most = INT64_MAX >> (64 - 8 * bytes), found;
    return number(value, -most - 1, most, &found) && write_number(o, (uint64_t)found, bytes);
}

static inline bool write_int8(Output *o, PyObject *value) { return write_int(o, value, 1); }
static inline bool write_int16(Output *o, PyObject *value) { return write_int(o, value, 2); }
static inline bool write_int32(Output *o, PyObject *value) { return write_int(o, value, 4); }
static inline bool write_int64(Output *o, PyObject *value) { return write_int(o, value, 8); }

static inline bool
write_boolean(Output *o, PyObject *value)
{
    return (value == Py_True || value == Py_False) && write_number(o, value == Py_True, 1);
}

static inline bool
write_uuid(Output *o, PyObject *value)
{
    return PyBytes_Check(value) && PyBytes_Size(value) == UUID_BYTES
        && write_raw(o, PyBytes_AsString(value), UUID_BYTES);
}

static inline bool
write_varint(Output *o, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        if (!write_number(o, (value & 0x7F) | 0x80, 1))
            return false;
    return write_number(o, value, 1);
}

static inline bool
write_count(Output *o, bool compact, Py_ssize_t count)
{
    if (count > INT32_MAX - 1)
        return false;
    return compact ? write_varint(o, (uint64_t)(count + 1)) : write_number(o, (uint64_t)count, 4);
}

static inline bool
write_text(Output *o, PyObject *value, bool compact, bool nullable)
{
    Py_ssize_t size;
    if (value == Py_None && nullable)
        return compact ? write_number(o, 0, 1) : write_number(o, UINT64_MAX, 2);
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : NULL;
    if (text == NULL || size > MAX_STRING_BYTES)
        return false;
    return (compact ? write_varint(o, (uint64_t)(size + 1)) : write_number(o, (uint64_t)size, 2))
        && write_raw(o, text, size);
}

static inline bool
write_data(Output *o, PyObject *value, bool compact)
{
    return PyBytes_Check(value) && write_count(o, compact, PyBytes_Size(value))
        && write_raw(o, PyBytes_AsString(value), PyBytes_Size(value));
}

/* The elements of a list or tuple; Python does the work for other sequences. */
typedef struct {
    PyObject *of;
    Py_ssize_t count;
    bool is_list;
} Items;

static inline bool
items(PyObject *sequence, Items *found)
{
    found->of = sequence;
    found->is_list = PyList_Check(sequence);
    if (!found->is_list && !PyTuple_Check(sequence))
        return false;
    found->count = found->is_list ? PyList_Size(sequence) : PyTuple_Size(sequence);
    return true;
}

/* An element, as a borrowed reference. No Python code runs while a frame is written, so that the
 * sequence doesn't change. */
static inline PyObject *
item(const Items *of, Py_ssize_t index)
{
    return of->is_list ? PyList_GetItem(of->of, index) : PyTuple_GetItem(of->of, index);
}

/* Borrowed references to the elements of a tuple or list that has exactly `count`. */
static inline bool
unpack(PyObject *sequence, PyObject **values, Py_ssize_t count)
{
    Items found;
    if (!items(sequence, &found) || found.count != count)
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = item(&found, i);
    return true;
}

/* A list of elements, each written by `write_element`. */
static inline bool
write_list(Output *o, PyObject *list, bool compact, bool (*write_element)(Output *, PyObject *))
{
    Items all;
    if (!items(list, &all) || !write_count(o, compact, all.count))
        return false;
    for (Py_ssize_t i = 0; i < all.count; i++)
        if (!write_element(o, item(&all, i)))
            return false;
    return true;
}

static inline bool
write_nullable_list(Output *o, PyObject *list, bool compact,
                    bool (*write_element)(Output *, PyObject *))
{
    if (list == Py_None)
        return compact ? write_number(o, 0, 1) : write_number(o, UINT64_MAX, 4);
    return write_list(o, list, compact, write_element);
}

/* A column: a number that is the same in all elements, or a list with a number for each. */
typedef struct {
    PyObject *same;
    Items each;
} Column;

static inline bool
column(PyObject *value, Py_ssize_t count, Column *found)
{
    found->same = PyLong_Check(value) ? value : NULL;
    return found->same != NULL || (items(value, &found->each) && found->each.count == count);
}

static inline PyObject *
entry(const Column *of, Py_ssize_t index)
{
    return of->same != NULL ? of->same : item(&of->each, index);
}

/* An array of partitions with error codes. */
static inline bool
write_codes(Output *o, PyObject *partitions, PyObject *codes, bool flexible)
{
    Items all;
    Column code;
    if (!items(partitions, &all) || !column(codes, all.count, &code)
        || !write_count(o, flexible, all.count))
        return false;
    for (Py_ssize_t i = 0; i < all.count; i++)
        if (!write_int32(o, item(&all, i)) || !write_int16(o, entry(&code, i))
            || (flexible && !write_number(o, 0, 1)))
            return false;
    return true;
}

/* An array of partitions with offsets, leader epochs unless `epochs` is NULL, metadata or None, and
 * error codes. */
static inline bool
write_offsets(Output *o, PyObject *partitions, PyObject *offsets, PyObject *epochs,
              PyObject *metadata, PyObject *codes, bool flexible, bool nullable)
{
    Items all, offset, epoch, text;
    Column code;
    bool is_plain = metadata == Py_None;
    if (!items(partitions, &all) || !items(offsets, &offset) || offset.count != all.count
        || (epochs != NULL && (!items(epochs, &epoch) || epoch.count != all.count))
        || (!is_plain && (!items(metadata, &text) || text.count != all.count))
        || !column(codes, all.count, &code) || !write_count(o, flexible, all.count))
        return false;
    for (Py_ssize_t i = 0; i < all.count; i++)
        if (!write_int32(o, item(&all, i)) || !write_int64(o, item(&offset, i))
            || (epochs != NULL && !write_int32(o, item(&epoch, i)))
            || !(is_plain ? write_number(o, flexible, flexible ? 1 : 2)
                          : write_text(o, item(&text, i), flexible, nullable))
            || !write_int16(o, entry(&code, i)) || (flexible && !write_number(o, 0, 1)))
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------- calling */

/* Calls the function in Python that does the same work; returns None if there is none. */
static inline PyObject *
by_python(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    if (PyErr_Occurred())
        PyErr_Clear();
    if (python == NULL || python == Py_None)
        return Py_NewRef(Py_None);
    PyObject *made = NULL, *all = PyTuple_New(count);
    for (Py_ssize_t i = 0; all != NULL && i < count; i++)
        if (!put(all, i, Py_NewRef(args[i])))
            Py_CLEAR(all);
    if (all != NULL)
        made = PyObject_Call(python, all, NULL);
    Py_XDECREF(all);
    return made;
}

/* Decodes the body of a request: (buffer, position). */
static inline PyObject *
decoded(PyObject *(*read)(Cursor *), PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    int64_t position;
    if (count == 2 && PyBytes_Check(args[0]) && number(args[1], 0, PyBytes_Size(args[0]), &position)) {
        const uint8_t *data = (const uint8_t *)PyBytes_AsString(args[0]);
        Cursor c = {data + position, data + PyBytes_Size(args[0])};
        PyObject *request = read(&c);
        if (request != NULL && c.at == c.end)
            return request;
        Py_XDECREF(request);
    }
    return by_python(python, args, count);
}

/* Encodes the frame of a response: (correlation_id, ...), `wanted` arguments in all. */
static inline PyObject *
encoded(bool (*write)(Output *, PyObject *const *), Py_ssize_t wanted, bool header_has_tags,
        PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    if (count == wanted) {
        Output o;
        PyObject *frame = NULL;
        begin(&o);
        if (write_number(&o, 0, 4) && write_int32(&o, args[0])
            && (!header_has_tags || write_number(&o, 0, 1)) && write(&o, args)
            && o.size - 4 <= INT32_MAX) {
            store(o.data, (uint64_t)(o.size - 4), 4);
            frame = PyBytes_FromStringAndSize((const char *)o.data, o.size);
        }
        end(&o);
        if (frame != NULL)
            return frame;
    }
    return by_python(python, args, count);
}

#endif
