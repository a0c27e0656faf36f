/*
 * The keys of a records section of magic 2, for the log cleaner (log/cleaner/key_reader.py). It
 * reads only plain sections: Python reads every other section again, and raises the errors.
 *
 * A section often has the same key many times, such as the offsets of a group that commits often.
 * So the keys first go to a hash table of pointers into the section, and to the dictionary when the
 * table is full or the section ends. A repeated key then costs a fifth of an entry in a dictionary.
 */

#include "wire.h"

#define KEYS_MAX 4096 /* the most keys of the table */
#define SLOT_BITS 13
#define SLOTS (1 << SLOT_BITS) /* 2 * KEYS_MAX */
#define PROBES_MAX 8           /* bounds the work of keys that were chosen to collide */
#define WORD_BYTES 8
#define HASH_FACTOR 0x9E3779B97F4A7C15u /* 2^64 divided by the golden ratio */

typedef struct {
    const uint8_t *at;
    Py_ssize_t bytes;
    int64_t offset; /* the bitwise complement for a tombstone */
} Key;

typedef struct {
    Key keys[KEYS_MAX];
    uint16_t slots[SLOTS]; /* the number of a key plus 1, or 0 */
    int count;
    PyObject *latest;
} Keys;

/* The first slot of a key. */
static inline unsigned
slot_of(const Key *key)
{
    uint64_t hash = (uint64_t)key->bytes, word;
    const uint8_t *at = key->at, *end = key->at + key->bytes;
    for (; end - at > WORD_BYTES; at += WORD_BYTES) {
        memcpy(&word, at, WORD_BYTES);
        hash = (hash ^ word) * HASH_FACTOR;
        hash ^= hash >> 32;
    }
    word = 0;
    if (key->bytes >= WORD_BYTES)
        memcpy(&word, end - WORD_BYTES, WORD_BYTES);
    else
        memcpy(&word, at, (size_t)key->bytes);
    return (unsigned)((hash ^ word) * HASH_FACTOR >> (64 - SLOT_BITS));
}

/* Enters one key into the dictionary. */
static bool
store_key(const Keys *keys, const Key *key)
{
    PyObject *name = PyBytes_FromStringAndSize((const char *)key->at, key->bytes);
    PyObject *offset = PyLong_FromLongLong(key->offset);
    bool stored = name != NULL && offset != NULL && PyDict_SetItem(keys->latest, name, offset) == 0;
    Py_XDECREF(name);
    Py_XDECREF(offset);
    return stored;
}

/* Moves all keys of the table to the dictionary, in the order of their first records. */
static bool
store_all(Keys *keys)
{
    for (int i = 0; i < keys->count; i++)
        if (!store_key(keys, &keys->keys[i]))
            return false;
    keys->count = 0;
    memset(keys->slots, 0, sizeof keys->slots);
    return true;
}

/* Enters a key into the table. A key that finds no slot goes to the dictionary, and until the table
 * is cleared so does each later record with this key: so the last record always wins. */
static bool
enter_key(Keys *keys, Key key)
{
    if (keys->count == KEYS_MAX && !store_all(keys))
        return false;
    unsigned at = slot_of(&key);
    for (int probe = 0; probe < PROBES_MAX; probe++, at++) {
        uint16_t *slot = &keys->slots[at % SLOTS];
        if (*slot == 0) {
            keys->keys[keys->count++] = key;
            *slot = (uint16_t)keys->count;
            return true;
        }
        Key *known = &keys->keys[*slot - 1];
        if (known->bytes == key.bytes && memcmp(known->at, key.at, (size_t)key.bytes) == 0) {
            known->offset = key.offset;
            return true;
        }
    }
    return store_key(keys, &key);
}

/* Enters the keys of exactly `count` records. Returns the bytes of all keys; -1 if the section is
 * not plain. */
static int64_t
enter_section(Keys *keys, Cursor *c, int64_t count, int64_t base_offset)
{
    int64_t key_bytes = 0;
    for (int64_t index = 0; index < count; index++) {
        int64_t bytes = read_short_varint(c, LENGTH_VARINT_BYTES);
        if (bytes < 2 || bytes & 1 || bytes >> 1 > left(c))
            return -1;
        Cursor record = {c->at + 1, c->at + (bytes >> 1)}; /* after one byte of unused attributes */
        int64_t time = read_short_varint(&record, TIME_VARINT_BYTES);
        int64_t delta = read_short_varint(&record, LENGTH_VARINT_BYTES);
        Key key = {NULL, skip_field(&record), base_offset + (delta >> 1)};
        if (time < 0 || delta < 0 || delta & 1 || key.bytes == UNUSUAL)
            return -1;
        if (key.bytes != NULL_ARRAY) {
            if (left(&record) < 1)
                return -1;
            key.at = record.at - key.bytes;
            if (*record.at == 1) /* the length of a null value */
                key.offset = ~key.offset;
            key_bytes += key.bytes;
            if (!enter_key(keys, key))
                return -1;
        }
        c->at = record.end;
    }
    return c->at == c->end && store_all(keys) ? key_bytes : -1;
}

/* note_keys(section, count, base_offset, latest): the bytes of all keys of a plain section, whose
 * offsets are now in the dictionary `latest`; else None, and `latest` may have some of them. */
static PyObject *
note_keys(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    int64_t count, base_offset;
    Py_buffer section;
    Keys *keys = NULL;
    if (given != 4 || !number(args[1], 0, INT32_MAX, &count)
        || !number(args[2], 0, INT64_MAX - INT32_MAX, &base_offset) || !PyDict_Check(args[3])
        || (keys = PyMem_Malloc(sizeof *keys)) == NULL
        || PyObject_GetBuffer(args[0], &section, PyBUF_SIMPLE) < 0) {
        PyMem_Free(keys);
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    memset(keys->slots, 0, sizeof keys->slots);
    keys->count = 0;
    keys->latest = args[3];
    Cursor c = {section.buf, (const uint8_t *)section.buf + section.len};
    int64_t key_bytes = enter_section(keys, &c, count, base_offset);
    PyBuffer_Release(&section);
    PyMem_Free(keys);
    if (key_bytes < 0) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(key_bytes);
}
