/*
 * The codecs of the hot APIs in C. Written by tools/make_codecs.py, from the tables from which it
 * writes protocol/generated; do not edit. wire.h has the functions for the types.
 *
 * A decoder makes the same tuple as the decoder in Python, an encoder the same bytes. What they
 * can't do they leave to Python: see protocol/compiled.py.
 */

#include "wire.h"

/* -------------------------------------------------------------------- ConsumerGroupHeartbeat */

static PyObject *
decode_consumer_group_heartbeat_v0_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_consumer_group_heartbeat_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_compact_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* member_epoch */
        && put(made, 3, read_compact_nullable_string(c)) /* instance_id */
        && put(made, 4, read_compact_nullable_string(c)) /* rack_id */
        && put(made, 5, read_int32(c)) /* rebalance_timeout_ms */
        && put(made, 6, read_nullable_list(c, read_count(c, true, 1), read_compact_string)) /* subscribed_topic_names */
        && put(made, 8, read_compact_nullable_string(c)) /* server_assignor */
        && put(made, 9, read_nullable_list(c, read_count(c, true, 18), decode_consumer_group_heartbeat_v0_topic_partitions)) /* topic_partitions */
        && no_tags(c)
        && put(made, 7, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_consumer_group_heartbeat_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_consumer_group_heartbeat_v0, python, args, count);
}

static PyObject *
decode_consumer_group_heartbeat_v1_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_consumer_group_heartbeat_v1(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_compact_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* member_epoch */
        && put(made, 3, read_compact_nullable_string(c)) /* instance_id */
        && put(made, 4, read_compact_nullable_string(c)) /* rack_id */
        && put(made, 5, read_int32(c)) /* rebalance_timeout_ms */
        && put(made, 6, read_nullable_list(c, read_count(c, true, 1), read_compact_string)) /* subscribed_topic_names */
        && put(made, 7, read_compact_nullable_string(c)) /* subscribed_topic_regex */
        && put(made, 8, read_compact_nullable_string(c)) /* server_assignor */
        && put(made, 9, read_nullable_list(c, read_count(c, true, 18), decode_consumer_group_heartbeat_v1_topic_partitions)) /* topic_partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_consumer_group_heartbeat_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_consumer_group_heartbeat_v1, python, args, count);
}

static bool
encode_consumer_group_heartbeat_v0_assignment_topic_partitions(Output *o, PyObject *element)
{
    /* topic_id, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_uuid(o, values[0]) /* topic_id */
        && write_list(o, values[1], true, write_int32)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_consumer_group_heartbeat_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, assignment */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_text(o, values[3], true, true) /* error_message */
        && write_text(o, values[4], true, true) /* member_id */
        && write_int32(o, values[5]) /* member_epoch */
        && write_int32(o, values[6]) /* heartbeat_interval_ms */
        && (values[7] == Py_None ? write_number(o, UINT64_MAX, 1) : (write_number(o, 1, 1)
        && write_list(o, values[7], true, encode_consumer_group_heartbeat_v0_assignment_topic_partitions)
        && write_number(o, 0, 1) /* no tagged fields */))
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_consumer_group_heartbeat_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_consumer_group_heartbeat_v0, 8, true, python, args, count);
}

/* ------------------------------------------------------------------------------------ EndTxn */

static PyObject *
decode_end_txn_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_string(c)) /* transactional_id */
        && put(made, 1, read_int64(c)) /* producer_id */
        && put(made, 2, read_int16(c)) /* producer_epoch */
        && put(made, 3, read_boolean(c)) /* committed */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_end_txn_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_end_txn_v0, python, args, count);
}

static PyObject *
decode_end_txn_v3(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* transactional_id */
        && put(made, 1, read_int64(c)) /* producer_id */
        && put(made, 2, read_int16(c)) /* producer_epoch */
        && put(made, 3, read_boolean(c)) /* committed */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_end_txn_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_end_txn_v3, python, args, count);
}

static bool
encode_end_txn_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, producer_id, producer_epoch */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */;
}

static PyObject *
call_encode_end_txn_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_end_txn_v0, 5, false, python, args, count);
}

static bool
encode_end_txn_v3(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, producer_id, producer_epoch */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_end_txn_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_end_txn_v3, 5, true, python, args, count);
}

static bool
encode_end_txn_v5(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, producer_id, producer_epoch */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_int64(o, values[3]) /* producer_id */
        && write_int16(o, values[4]) /* producer_epoch */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_end_txn_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_end_txn_v5, 5, true, python, args, count);
}

/* ------------------------------------------------------------------------------------- Fetch */

static PyObject *
decode_fetch_v0_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 1, PyLong_FromLong(-1))
        && put(made, 3, PyLong_FromLong(-1))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v0_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 16), decode_fetch_v0_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v0_topics)) /* topics */
        && put(made, 3, PyLong_FromLong(2147483647))
        && put(made, 4, PyLong_FromLong(0))
        && put(made, 5, PyLong_FromLong(0))
        && put(made, 6, PyLong_FromLong(-1))
        && put(made, 8, PyList_New(0))
        && put(made, 9, PyUnicode_FromString("")))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v0, python, args, count);
}

static PyObject *
decode_fetch_v3_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 1, PyLong_FromLong(-1))
        && put(made, 3, PyLong_FromLong(-1))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v3_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 16), decode_fetch_v3_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v3(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v3_topics)) /* topics */
        && put(made, 4, PyLong_FromLong(0))
        && put(made, 5, PyLong_FromLong(0))
        && put(made, 6, PyLong_FromLong(-1))
        && put(made, 8, PyList_New(0))
        && put(made, 9, PyUnicode_FromString("")))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v3, python, args, count);
}

static PyObject *
decode_fetch_v4_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 1, PyLong_FromLong(-1))
        && put(made, 3, PyLong_FromLong(-1))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v4_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 16), decode_fetch_v4_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v4(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v4_topics)) /* topics */
        && put(made, 5, PyLong_FromLong(0))
        && put(made, 6, PyLong_FromLong(-1))
        && put(made, 8, PyList_New(0))
        && put(made, 9, PyUnicode_FromString("")))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v4(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v4, python, args, count);
}

static PyObject *
decode_fetch_v5_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 1, PyLong_FromLong(-1))
        && put(made, 3, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v5_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 24), decode_fetch_v5_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v5(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v5_topics)) /* topics */
        && put(made, 5, PyLong_FromLong(0))
        && put(made, 6, PyLong_FromLong(-1))
        && put(made, 8, PyList_New(0))
        && put(made, 9, PyUnicode_FromString("")))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v5, python, args, count);
}

static PyObject *
decode_fetch_v7_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 1, PyLong_FromLong(-1))
        && put(made, 3, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v7_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 24), decode_fetch_v7_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v7_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_tuple(c, read_count(c, false, 4), read_int32)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v7(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 5, read_int32(c)) /* session_id */
        && put(made, 6, read_int32(c)) /* session_epoch */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v7_topics)) /* topics */
        && put(made, 8, read_list(c, read_count(c, false, 6), decode_fetch_v7_forgotten_topics_data)) /* forgotten_topics_data */
        && put(made, 9, PyUnicode_FromString("")))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v7(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v7, python, args, count);
}

static PyObject *
decode_fetch_v9_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 1, read_int32(c)) /* current_leader_epoch */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 3, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v9_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 28), decode_fetch_v9_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v9_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_tuple(c, read_count(c, false, 4), read_int32)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v9(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 5, read_int32(c)) /* session_id */
        && put(made, 6, read_int32(c)) /* session_epoch */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v9_topics)) /* topics */
        && put(made, 8, read_list(c, read_count(c, false, 6), decode_fetch_v9_forgotten_topics_data)) /* forgotten_topics_data */
        && put(made, 9, PyUnicode_FromString("")))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v9(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v9, python, args, count);
}

static PyObject *
decode_fetch_v11_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 1, read_int32(c)) /* current_leader_epoch */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && put(made, 3, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v11_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, false, 28), decode_fetch_v11_topic_partitions)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v11_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* topic */
        && put(made, 1, read_tuple(c, read_count(c, false, 4), read_int32)) /* partitions */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v11(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 5, read_int32(c)) /* session_id */
        && put(made, 6, read_int32(c)) /* session_epoch */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_fetch_v11_topics)) /* topics */
        && put(made, 8, read_list(c, read_count(c, false, 6), decode_fetch_v11_forgotten_topics_data)) /* forgotten_topics_data */
        && put(made, 9, read_string(c)) /* rack_id */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v11(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v11, python, args, count);
}

static PyObject *
decode_fetch_v12_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 1, read_int32(c)) /* current_leader_epoch */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 3, read_int32(c)) /* last_fetched_epoch */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v12_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* topic */
        && put(made, 1, read_list(c, read_count(c, true, 33), decode_fetch_v12_topic_partitions)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v12_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* topic */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v12(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 5, read_int32(c)) /* session_id */
        && put(made, 6, read_int32(c)) /* session_epoch */
        && put(made, 7, read_list(c, read_count(c, true, 3), decode_fetch_v12_topics)) /* topics */
        && put(made, 8, read_list(c, read_count(c, true, 3), decode_fetch_v12_forgotten_topics_data)) /* forgotten_topics_data */
        && put(made, 9, read_compact_string(c)) /* rack_id */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v12(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v12, python, args, count);
}

static PyObject *
decode_fetch_v13_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 1, read_int32(c)) /* current_leader_epoch */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 3, read_int32(c)) /* last_fetched_epoch */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v13_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_list(c, read_count(c, true, 33), decode_fetch_v13_topic_partitions)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v13_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v13(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* replica_id */
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 5, read_int32(c)) /* session_id */
        && put(made, 6, read_int32(c)) /* session_epoch */
        && put(made, 7, read_list(c, read_count(c, true, 18), decode_fetch_v13_topics)) /* topics */
        && put(made, 8, read_list(c, read_count(c, true, 18), decode_fetch_v13_forgotten_topics_data)) /* forgotten_topics_data */
        && put(made, 9, read_compact_string(c)) /* rack_id */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v13(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v13, python, args, count);
}

static PyObject *
decode_fetch_v15_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition */
        && put(made, 1, read_int32(c)) /* current_leader_epoch */
        && put(made, 2, read_int64(c)) /* fetch_offset */
        && put(made, 3, read_int32(c)) /* last_fetched_epoch */
        && put(made, 4, read_int64(c)) /* log_start_offset */
        && put(made, 5, read_int32(c)) /* partition_max_bytes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v15_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_list(c, read_count(c, true, 33), decode_fetch_v15_topic_partitions)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v15_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_fetch_v15(Cursor *c)
{
    PyObject *made = PyTuple_New(10);
    if (made != NULL
        && put(made, 1, read_int32(c)) /* max_wait_ms */
        && put(made, 2, read_int32(c)) /* min_bytes */
        && put(made, 3, read_int32(c)) /* max_bytes */
        && put(made, 4, read_int8(c)) /* isolation_level */
        && put(made, 5, read_int32(c)) /* session_id */
        && put(made, 6, read_int32(c)) /* session_epoch */
        && put(made, 7, read_list(c, read_count(c, true, 18), decode_fetch_v15_topics)) /* topics */
        && put(made, 8, read_list(c, read_count(c, true, 18), decode_fetch_v15_forgotten_topics_data)) /* forgotten_topics_data */
        && put(made, 9, read_compact_string(c)) /* rack_id */
        && no_tags(c)
        && put(made, 0, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_fetch_v15(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_fetch_v15, python, args, count);
}

/* --------------------------------------------------------------------------------- Heartbeat */

static PyObject *
decode_heartbeat_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 3, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_heartbeat_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_heartbeat_v0, python, args, count);
}

static PyObject *
decode_heartbeat_v3(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 3, read_nullable_string(c)) /* group_instance_id */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_heartbeat_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_heartbeat_v3, python, args, count);
}

static PyObject *
decode_heartbeat_v4(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_compact_string(c)) /* member_id */
        && put(made, 3, read_compact_nullable_string(c)) /* group_instance_id */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_heartbeat_v4(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_heartbeat_v4, python, args, count);
}

static bool
encode_heartbeat_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code */
    return write_int16(o, values[2]) /* error_code */;
}

static PyObject *
call_encode_heartbeat_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_heartbeat_v0, 3, false, python, args, count);
}

static bool
encode_heartbeat_v1(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */;
}

static PyObject *
call_encode_heartbeat_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_heartbeat_v1, 3, false, python, args, count);
}

static bool
encode_heartbeat_v4(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_heartbeat_v4(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_heartbeat_v4, 3, true, python, args, count);
}

/* --------------------------------------------------------------------------------- JoinGroup */

static PyObject *
decode_join_group_v0_protocols(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_bytes(c)) /* metadata */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_join_group_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* session_timeout_ms */
        && put(made, 3, read_string(c)) /* member_id */
        && put(made, 5, read_string(c)) /* protocol_type */
        && put(made, 6, read_list(c, read_count(c, false, 6), decode_join_group_v0_protocols)) /* protocols */
        && put(made, 2, PyLong_FromLong(-1))
        && put(made, 4, Py_NewRef(Py_None))
        && put(made, 7, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_join_group_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_join_group_v0, python, args, count);
}

static PyObject *
decode_join_group_v1_protocols(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_bytes(c)) /* metadata */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_join_group_v1(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* session_timeout_ms */
        && put(made, 2, read_int32(c)) /* rebalance_timeout_ms */
        && put(made, 3, read_string(c)) /* member_id */
        && put(made, 5, read_string(c)) /* protocol_type */
        && put(made, 6, read_list(c, read_count(c, false, 6), decode_join_group_v1_protocols)) /* protocols */
        && put(made, 4, Py_NewRef(Py_None))
        && put(made, 7, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_join_group_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_join_group_v1, python, args, count);
}

static PyObject *
decode_join_group_v5_protocols(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_bytes(c)) /* metadata */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_join_group_v5(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* session_timeout_ms */
        && put(made, 2, read_int32(c)) /* rebalance_timeout_ms */
        && put(made, 3, read_string(c)) /* member_id */
        && put(made, 4, read_nullable_string(c)) /* group_instance_id */
        && put(made, 5, read_string(c)) /* protocol_type */
        && put(made, 6, read_list(c, read_count(c, false, 6), decode_join_group_v5_protocols)) /* protocols */
        && put(made, 7, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_join_group_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_join_group_v5, python, args, count);
}

static PyObject *
decode_join_group_v6_protocols(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_compact_bytes(c)) /* metadata */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_join_group_v6(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* session_timeout_ms */
        && put(made, 2, read_int32(c)) /* rebalance_timeout_ms */
        && put(made, 3, read_compact_string(c)) /* member_id */
        && put(made, 4, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 5, read_compact_string(c)) /* protocol_type */
        && put(made, 6, read_list(c, read_count(c, true, 3), decode_join_group_v6_protocols)) /* protocols */
        && no_tags(c)
        && put(made, 7, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_join_group_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_join_group_v6, python, args, count);
}

static PyObject *
decode_join_group_v8_protocols(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_compact_bytes(c)) /* metadata */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_join_group_v8(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* session_timeout_ms */
        && put(made, 2, read_int32(c)) /* rebalance_timeout_ms */
        && put(made, 3, read_compact_string(c)) /* member_id */
        && put(made, 4, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 5, read_compact_string(c)) /* protocol_type */
        && put(made, 6, read_list(c, read_count(c, true, 3), decode_join_group_v8_protocols)) /* protocols */
        && put(made, 7, read_compact_nullable_string(c)) /* reason */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_join_group_v8(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_join_group_v8, python, args, count);
}

static bool
encode_join_group_v0_members(Output *o, PyObject *element)
{
    /* joined_member_id, group_instance_id, metadata */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], false, false) /* member_id */
        && write_data(o, values[2], false) /* metadata */;
}

static bool
encode_join_group_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members */
    return write_int16(o, values[2]) /* error_code */
        && write_int32(o, values[3]) /* generation_id */
        && write_text(o, values[5], false, false) /* protocol_name */
        && write_text(o, values[6], false, false) /* leader */
        && write_text(o, values[8], false, false) /* member_id */
        && write_list(o, values[9], false, encode_join_group_v0_members);
}

static PyObject *
call_encode_join_group_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_join_group_v0, 10, false, python, args, count);
}

static bool
encode_join_group_v2_members(Output *o, PyObject *element)
{
    /* joined_member_id, group_instance_id, metadata */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], false, false) /* member_id */
        && write_data(o, values[2], false) /* metadata */;
}

static bool
encode_join_group_v2(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_int32(o, values[3]) /* generation_id */
        && write_text(o, values[5], false, false) /* protocol_name */
        && write_text(o, values[6], false, false) /* leader */
        && write_text(o, values[8], false, false) /* member_id */
        && write_list(o, values[9], false, encode_join_group_v2_members);
}

static PyObject *
call_encode_join_group_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_join_group_v2, 10, false, python, args, count);
}

static bool
encode_join_group_v5_members(Output *o, PyObject *element)
{
    /* joined_member_id, group_instance_id, metadata */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], false, false) /* member_id */
        && write_text(o, values[1], false, true) /* group_instance_id */
        && write_data(o, values[2], false) /* metadata */;
}

static bool
encode_join_group_v5(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_int32(o, values[3]) /* generation_id */
        && write_text(o, values[5], false, false) /* protocol_name */
        && write_text(o, values[6], false, false) /* leader */
        && write_text(o, values[8], false, false) /* member_id */
        && write_list(o, values[9], false, encode_join_group_v5_members);
}

static PyObject *
call_encode_join_group_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_join_group_v5, 10, false, python, args, count);
}

static bool
encode_join_group_v6_members(Output *o, PyObject *element)
{
    /* joined_member_id, group_instance_id, metadata */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* member_id */
        && write_text(o, values[1], true, true) /* group_instance_id */
        && write_data(o, values[2], true) /* metadata */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_join_group_v6(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_int32(o, values[3]) /* generation_id */
        && write_text(o, values[5], true, false) /* protocol_name */
        && write_text(o, values[6], true, false) /* leader */
        && write_text(o, values[8], true, false) /* member_id */
        && write_list(o, values[9], true, encode_join_group_v6_members)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_join_group_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_join_group_v6, 10, true, python, args, count);
}

static bool
encode_join_group_v7_members(Output *o, PyObject *element)
{
    /* joined_member_id, group_instance_id, metadata */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* member_id */
        && write_text(o, values[1], true, true) /* group_instance_id */
        && write_data(o, values[2], true) /* metadata */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_join_group_v7(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_int32(o, values[3]) /* generation_id */
        && write_text(o, values[4], true, true) /* protocol_type */
        && write_text(o, values[5], true, true) /* protocol_name */
        && write_text(o, values[6], true, false) /* leader */
        && write_text(o, values[8], true, false) /* member_id */
        && write_list(o, values[9], true, encode_join_group_v7_members)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_join_group_v7(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_join_group_v7, 10, true, python, args, count);
}

static bool
encode_join_group_v9_members(Output *o, PyObject *element)
{
    /* joined_member_id, group_instance_id, metadata */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* member_id */
        && write_text(o, values[1], true, true) /* group_instance_id */
        && write_data(o, values[2], true) /* metadata */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_join_group_v9(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_int32(o, values[3]) /* generation_id */
        && write_text(o, values[4], true, true) /* protocol_type */
        && write_text(o, values[5], true, true) /* protocol_name */
        && write_text(o, values[6], true, false) /* leader */
        && write_boolean(o, values[7]) /* skip_assignment */
        && write_text(o, values[8], true, false) /* member_id */
        && write_list(o, values[9], true, encode_join_group_v9_members)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_join_group_v9(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_join_group_v9, 10, true, python, args, count);
}

/* ------------------------------------------------------------------------------ OffsetCommit */

static bool
decode_offset_commit_v0_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 14);
    PyObject *partitions, *offsets, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 3, minus_ones(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v0_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_offset_commit_v0_topic_partitions(c, made))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 5, read_list(c, read_count(c, false, 6), decode_offset_commit_v0_topics)) /* topics */
        && put(made, 1, PyLong_FromLong(-1))
        && put(made, 2, PyUnicode_FromString(""))
        && put(made, 3, Py_NewRef(Py_None))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v0, python, args, count);
}

static bool
decode_offset_commit_v1_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 22);
    PyObject *partitions, *offsets, *timestamps, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 5, timestamps = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 3, minus_ones(count))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(timestamps, i, read_int64(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v1_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_offset_commit_v1_topic_partitions(c, made))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v1(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 5, read_list(c, read_count(c, false, 6), decode_offset_commit_v1_topics)) /* topics */
        && put(made, 3, Py_NewRef(Py_None))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v1, python, args, count);
}

static bool
decode_offset_commit_v2_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 14);
    PyObject *partitions, *offsets, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 3, minus_ones(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v2_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_offset_commit_v2_topic_partitions(c, made))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v2(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 4, read_int64(c)) /* retention_time_ms */
        && put(made, 5, read_list(c, read_count(c, false, 6), decode_offset_commit_v2_topics)) /* topics */
        && put(made, 3, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v2, python, args, count);
}

static bool
decode_offset_commit_v5_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 14);
    PyObject *partitions, *offsets, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 3, minus_ones(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v5_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_offset_commit_v5_topic_partitions(c, made))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v5(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 5, read_list(c, read_count(c, false, 6), decode_offset_commit_v5_topics)) /* topics */
        && put(made, 3, Py_NewRef(Py_None))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v5, python, args, count);
}

static bool
decode_offset_commit_v6_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v6_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_offset_commit_v6_topic_partitions(c, made))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v6(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 5, read_list(c, read_count(c, false, 6), decode_offset_commit_v6_topics)) /* topics */
        && put(made, 3, Py_NewRef(Py_None))
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v6, python, args, count);
}

static bool
decode_offset_commit_v7_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v7_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_offset_commit_v7_topic_partitions(c, made))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v7(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 3, read_nullable_string(c)) /* group_instance_id */
        && put(made, 5, read_list(c, read_count(c, false, 6), decode_offset_commit_v7_topics)) /* topics */
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v7(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v7, python, args, count);
}

static bool
decode_offset_commit_v8_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, true, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_compact_nullable_string(c), &has_metadata))
        && no_tags(c)))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v8_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && decode_offset_commit_v8_topic_partitions(c, made)
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v8(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_compact_string(c)) /* member_id */
        && put(made, 3, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 5, read_list(c, read_count(c, true, 3), decode_offset_commit_v8_topics)) /* topics */
        && no_tags(c)
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v8(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v8, python, args, count);
}

static bool
decode_offset_commit_v10_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, true, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 5, Py_NewRef(Py_None))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_compact_nullable_string(c), &has_metadata))
        && no_tags(c)))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_offset_commit_v10_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && decode_offset_commit_v10_topic_partitions(c, made)
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_commit_v10(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id_or_member_epoch */
        && put(made, 2, read_compact_string(c)) /* member_id */
        && put(made, 3, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 5, read_list(c, read_count(c, true, 18), decode_offset_commit_v10_topics)) /* topics */
        && no_tags(c)
        && put(made, 4, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_commit_v10(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_commit_v10, python, args, count);
}

static bool
encode_offset_commit_v0_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], false, false) /* name */
        && write_codes(o, values[1], values[2], false);
}

static bool
encode_offset_commit_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_list(o, values[2], false, encode_offset_commit_v0_topics);
}

static PyObject *
call_encode_offset_commit_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_commit_v0, 3, false, python, args, count);
}

static bool
encode_offset_commit_v3_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], false, false) /* name */
        && write_codes(o, values[1], values[2], false);
}

static bool
encode_offset_commit_v3(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], false, encode_offset_commit_v3_topics);
}

static PyObject *
call_encode_offset_commit_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_commit_v3, 3, false, python, args, count);
}

static bool
encode_offset_commit_v8_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* name */
        && write_codes(o, values[1], values[2], true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_commit_v8(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], true, encode_offset_commit_v8_topics)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_offset_commit_v8(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_commit_v8, 3, true, python, args, count);
}

static bool
encode_offset_commit_v10_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_uuid(o, values[0]) /* topic_id */
        && write_codes(o, values[1], values[2], true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_commit_v10(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], true, encode_offset_commit_v10_topics)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_offset_commit_v10(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_commit_v10, 3, true, python, args, count);
}

/* ------------------------------------------------------------------------------- OffsetFetch */

static PyObject *
decode_offset_fetch_v0_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_tuple(c, read_count(c, false, 4), read_int32)) /* partition_indexes */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    PyObject *made_0;
    PyObject *made_0_0;
    if (made != NULL
        && put(made, 0, made_0 = PyList_New(1))
        && put_in_list(made_0, 0, made_0_0 = PyTuple_New(4))
        && put(made_0_0, 0, read_string(c)) /* group_id */
        && put(made_0_0, 3, read_list(c, read_count(c, false, 6), decode_offset_fetch_v0_topics)) /* topics */
        && put(made_0_0, 1, Py_NewRef(Py_None))
        && put(made_0_0, 2, PyLong_FromLong(-1))
        && put(made, 1, Py_NewRef(Py_False)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v0, python, args, count);
}

static PyObject *
decode_offset_fetch_v2_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_tuple(c, read_count(c, false, 4), read_int32)) /* partition_indexes */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v2(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    PyObject *made_0;
    PyObject *made_0_0;
    if (made != NULL
        && put(made, 0, made_0 = PyList_New(1))
        && put_in_list(made_0, 0, made_0_0 = PyTuple_New(4))
        && put(made_0_0, 0, read_string(c)) /* group_id */
        && put(made_0_0, 3, read_nullable_list(c, read_count(c, false, 6), decode_offset_fetch_v2_topics)) /* topics */
        && put(made_0_0, 1, Py_NewRef(Py_None))
        && put(made_0_0, 2, PyLong_FromLong(-1))
        && put(made, 1, Py_NewRef(Py_False)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v2, python, args, count);
}

static PyObject *
decode_offset_fetch_v6_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partition_indexes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v6(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    PyObject *made_0;
    PyObject *made_0_0;
    if (made != NULL
        && put(made, 0, made_0 = PyList_New(1))
        && put_in_list(made_0, 0, made_0_0 = PyTuple_New(4))
        && put(made_0_0, 0, read_compact_string(c)) /* group_id */
        && put(made_0_0, 3, read_nullable_list(c, read_count(c, true, 3), decode_offset_fetch_v6_topics)) /* topics */
        && no_tags(c)
        && put(made_0_0, 1, Py_NewRef(Py_None))
        && put(made_0_0, 2, PyLong_FromLong(-1))
        && put(made, 1, Py_NewRef(Py_False)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v6, python, args, count);
}

static PyObject *
decode_offset_fetch_v7_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partition_indexes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v7(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    PyObject *made_0;
    PyObject *made_0_0;
    if (made != NULL
        && put(made, 0, made_0 = PyList_New(1))
        && put_in_list(made_0, 0, made_0_0 = PyTuple_New(4))
        && put(made_0_0, 0, read_compact_string(c)) /* group_id */
        && put(made_0_0, 3, read_nullable_list(c, read_count(c, true, 3), decode_offset_fetch_v7_topics)) /* topics */
        && put(made, 1, read_boolean(c)) /* require_stable */
        && no_tags(c)
        && put(made_0_0, 1, Py_NewRef(Py_None))
        && put(made_0_0, 2, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v7(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v7, python, args, count);
}

static PyObject *
decode_offset_fetch_v8_group_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partition_indexes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v8_groups(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 3, read_nullable_list(c, read_count(c, true, 3), decode_offset_fetch_v8_group_topics)) /* topics */
        && no_tags(c)
        && put(made, 1, Py_NewRef(Py_None))
        && put(made, 2, PyLong_FromLong(-1)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v8(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_list(c, read_count(c, true, 3), decode_offset_fetch_v8_groups)) /* groups */
        && put(made, 1, read_boolean(c)) /* require_stable */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v8(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v8, python, args, count);
}

static PyObject *
decode_offset_fetch_v9_group_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partition_indexes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v9_groups(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_compact_nullable_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* member_epoch */
        && put(made, 3, read_nullable_list(c, read_count(c, true, 3), decode_offset_fetch_v9_group_topics)) /* topics */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v9(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_list(c, read_count(c, true, 8), decode_offset_fetch_v9_groups)) /* groups */
        && put(made, 1, read_boolean(c)) /* require_stable */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v9(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v9, python, args, count);
}

static PyObject *
decode_offset_fetch_v10_group_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partition_indexes */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v10_groups(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_compact_nullable_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* member_epoch */
        && put(made, 3, read_nullable_list(c, read_count(c, true, 18), decode_offset_fetch_v10_group_topics)) /* topics */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_offset_fetch_v10(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_list(c, read_count(c, true, 8), decode_offset_fetch_v10_groups)) /* groups */
        && put(made, 1, read_boolean(c)) /* require_stable */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_offset_fetch_v10(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_offset_fetch_v10, python, args, count);
}

static bool
encode_offset_fetch_v0_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_text(o, values[0], false, false) /* name */
        && write_offsets(o, values[1], values[2], NULL, values[4], values[5], false, true);
}

static bool
encode_offset_fetch_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    /* group */
    PyObject *of_groups[1];
    /* _, _, topics */
    PyObject *of_group[3];
    return unpack(values[2], of_groups, 1)
        && unpack(of_groups[0], of_group, 3)
        && write_list(o, of_group[2], false, encode_offset_fetch_v0_topics);
}

static PyObject *
call_encode_offset_fetch_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v0, 3, false, python, args, count);
}

static bool
encode_offset_fetch_v2_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_text(o, values[0], false, false) /* name */
        && write_offsets(o, values[1], values[2], NULL, values[4], values[5], false, true);
}

static bool
encode_offset_fetch_v2(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    /* group */
    PyObject *of_groups[1];
    /* _, error_code, topics */
    PyObject *of_group[3];
    return unpack(values[2], of_groups, 1)
        && unpack(of_groups[0], of_group, 3)
        && write_list(o, of_group[2], false, encode_offset_fetch_v2_topics)
        && write_int16(o, of_group[1]) /* error_code */;
}

static PyObject *
call_encode_offset_fetch_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v2, 3, false, python, args, count);
}

static bool
encode_offset_fetch_v3_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_text(o, values[0], false, false) /* name */
        && write_offsets(o, values[1], values[2], NULL, values[4], values[5], false, true);
}

static bool
encode_offset_fetch_v3(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    /* group */
    PyObject *of_groups[1];
    /* _, error_code, topics */
    PyObject *of_group[3];
    return unpack(values[2], of_groups, 1)
        && unpack(of_groups[0], of_group, 3)
        && write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, of_group[2], false, encode_offset_fetch_v3_topics)
        && write_int16(o, of_group[1]) /* error_code */;
}

static PyObject *
call_encode_offset_fetch_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v3, 3, false, python, args, count);
}

static bool
encode_offset_fetch_v5_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_text(o, values[0], false, false) /* name */
        && write_offsets(o, values[1], values[2], values[3], values[4], values[5], false, true);
}

static bool
encode_offset_fetch_v5(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    /* group */
    PyObject *of_groups[1];
    /* _, error_code, topics */
    PyObject *of_group[3];
    return unpack(values[2], of_groups, 1)
        && unpack(of_groups[0], of_group, 3)
        && write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, of_group[2], false, encode_offset_fetch_v5_topics)
        && write_int16(o, of_group[1]) /* error_code */;
}

static PyObject *
call_encode_offset_fetch_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v5, 3, false, python, args, count);
}

static bool
encode_offset_fetch_v6_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_text(o, values[0], true, false) /* name */
        && write_offsets(o, values[1], values[2], values[3], values[4], values[5], true, true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_fetch_v6(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    /* group */
    PyObject *of_groups[1];
    /* _, error_code, topics */
    PyObject *of_group[3];
    return unpack(values[2], of_groups, 1)
        && unpack(of_groups[0], of_group, 3)
        && write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, of_group[2], true, encode_offset_fetch_v6_topics)
        && write_int16(o, of_group[1]) /* error_code */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_offset_fetch_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v6, 3, true, python, args, count);
}

static bool
encode_offset_fetch_v8_groups_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_text(o, values[0], true, false) /* name */
        && write_offsets(o, values[1], values[2], values[3], values[4], values[5], true, true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_fetch_v8_groups(Output *o, PyObject *element)
{
    /* group_id, error_code, topics */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* group_id */
        && write_list(o, values[2], true, encode_offset_fetch_v8_groups_topics)
        && write_int16(o, values[1]) /* error_code */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_fetch_v8(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], true, encode_offset_fetch_v8_groups)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_offset_fetch_v8(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v8, 3, true, python, args, count);
}

static bool
encode_offset_fetch_v10_groups_topics(Output *o, PyObject *element)
{
    /* topic, partitions, offsets, leader_epochs, metadata, codes */
    PyObject *values[6];
    return unpack(element, values, 6)
        && write_uuid(o, values[0]) /* topic_id */
        && write_offsets(o, values[1], values[2], values[3], values[4], values[5], true, true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_fetch_v10_groups(Output *o, PyObject *element)
{
    /* group_id, error_code, topics */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* group_id */
        && write_list(o, values[2], true, encode_offset_fetch_v10_groups_topics)
        && write_int16(o, values[1]) /* error_code */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_offset_fetch_v10(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, groups */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], true, encode_offset_fetch_v10_groups)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_offset_fetch_v10(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_offset_fetch_v10, 3, true, python, args, count);
}

/* ----------------------------------------------------------------------------------- Produce */

static PyObject *
decode_produce_v0_topic_data_partition_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* index */
        && put(made, 1, read_nullable_bytes(c)) /* records */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v0_topic_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_list(c, read_count(c, false, 8), decode_produce_v0_topic_data_partition_data)) /* partition_data */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 1, read_int16(c)) /* acks */
        && put(made, 2, read_int32(c)) /* timeout_ms */
        && put(made, 3, read_list(c, read_count(c, false, 6), decode_produce_v0_topic_data)) /* topic_data */
        && put(made, 0, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_produce_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_produce_v0, python, args, count);
}

static PyObject *
decode_produce_v3_topic_data_partition_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* index */
        && put(made, 1, read_nullable_bytes(c)) /* records */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v3_topic_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && put(made, 1, read_list(c, read_count(c, false, 8), decode_produce_v3_topic_data_partition_data)) /* partition_data */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v3(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_nullable_string(c)) /* transactional_id */
        && put(made, 1, read_int16(c)) /* acks */
        && put(made, 2, read_int32(c)) /* timeout_ms */
        && put(made, 3, read_list(c, read_count(c, false, 6), decode_produce_v3_topic_data)) /* topic_data */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_produce_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_produce_v3, python, args, count);
}

static PyObject *
decode_produce_v9_topic_data_partition_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* index */
        && put(made, 1, read_compact_nullable_bytes(c)) /* records */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v9_topic_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && put(made, 1, read_list(c, read_count(c, true, 6), decode_produce_v9_topic_data_partition_data)) /* partition_data */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v9(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_nullable_string(c)) /* transactional_id */
        && put(made, 1, read_int16(c)) /* acks */
        && put(made, 2, read_int32(c)) /* timeout_ms */
        && put(made, 3, read_list(c, read_count(c, true, 3), decode_produce_v9_topic_data)) /* topic_data */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_produce_v9(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_produce_v9, python, args, count);
}

static PyObject *
decode_produce_v13_topic_data_partition_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* index */
        && put(made, 1, read_compact_nullable_bytes(c)) /* records */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v13_topic_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_list(c, read_count(c, true, 6), decode_produce_v13_topic_data_partition_data)) /* partition_data */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_produce_v13(Cursor *c)
{
    PyObject *made = PyTuple_New(4);
    if (made != NULL
        && put(made, 0, read_compact_nullable_string(c)) /* transactional_id */
        && put(made, 1, read_int16(c)) /* acks */
        && put(made, 2, read_int32(c)) /* timeout_ms */
        && put(made, 3, read_list(c, read_count(c, true, 18), decode_produce_v13_topic_data)) /* topic_data */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_produce_v13(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_produce_v13, python, args, count);
}

static bool
encode_produce_v0_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */;
}

static bool
encode_produce_v0_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_text(o, values[0], false, false) /* name */
        && write_list(o, values[1], false, encode_produce_v0_responses_partition_responses);
}

static bool
encode_produce_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], false, encode_produce_v0_responses);
}

static PyObject *
call_encode_produce_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v0, 3, false, python, args, count);
}

static bool
encode_produce_v1_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */;
}

static bool
encode_produce_v1_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_text(o, values[0], false, false) /* name */
        && write_list(o, values[1], false, encode_produce_v1_responses_partition_responses);
}

static bool
encode_produce_v1(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], false, encode_produce_v1_responses)
        && write_int32(o, values[2]) /* throttle_time_ms */;
}

static PyObject *
call_encode_produce_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v1, 3, false, python, args, count);
}

static bool
encode_produce_v2_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */
        && write_int64(o, values[3]) /* log_append_time_ms */;
}

static bool
encode_produce_v2_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_text(o, values[0], false, false) /* name */
        && write_list(o, values[1], false, encode_produce_v2_responses_partition_responses);
}

static bool
encode_produce_v2(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], false, encode_produce_v2_responses)
        && write_int32(o, values[2]) /* throttle_time_ms */;
}

static PyObject *
call_encode_produce_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v2, 3, false, python, args, count);
}

static bool
encode_produce_v5_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */
        && write_int64(o, values[3]) /* log_append_time_ms */
        && write_int64(o, values[4]) /* log_start_offset */;
}

static bool
encode_produce_v5_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_text(o, values[0], false, false) /* name */
        && write_list(o, values[1], false, encode_produce_v5_responses_partition_responses);
}

static bool
encode_produce_v5(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], false, encode_produce_v5_responses)
        && write_int32(o, values[2]) /* throttle_time_ms */;
}

static PyObject *
call_encode_produce_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v5, 3, false, python, args, count);
}

static bool
encode_produce_v8_responses_partition_responses_record_errors(Output *o, PyObject *element)
{
    /* batch_index, batch_index_error_message */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_int32(o, values[0]) /* batch_index */
        && write_text(o, values[1], false, true) /* batch_index_error_message */;
}

static bool
encode_produce_v8_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */
        && write_int64(o, values[3]) /* log_append_time_ms */
        && write_int64(o, values[4]) /* log_start_offset */
        && write_list(o, values[5], false, encode_produce_v8_responses_partition_responses_record_errors)
        && write_text(o, values[6], false, true) /* error_message */;
}

static bool
encode_produce_v8_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_text(o, values[0], false, false) /* name */
        && write_list(o, values[1], false, encode_produce_v8_responses_partition_responses);
}

static bool
encode_produce_v8(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], false, encode_produce_v8_responses)
        && write_int32(o, values[2]) /* throttle_time_ms */;
}

static PyObject *
call_encode_produce_v8(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v8, 3, false, python, args, count);
}

static bool
encode_produce_v9_responses_partition_responses_record_errors(Output *o, PyObject *element)
{
    /* batch_index, batch_index_error_message */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_int32(o, values[0]) /* batch_index */
        && write_text(o, values[1], true, true) /* batch_index_error_message */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_produce_v9_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */
        && write_int64(o, values[3]) /* log_append_time_ms */
        && write_int64(o, values[4]) /* log_start_offset */
        && write_list(o, values[5], true, encode_produce_v9_responses_partition_responses_record_errors)
        && write_text(o, values[6], true, true) /* error_message */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_produce_v9_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_text(o, values[0], true, false) /* name */
        && write_list(o, values[1], true, encode_produce_v9_responses_partition_responses)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_produce_v9(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], true, encode_produce_v9_responses)
        && write_int32(o, values[2]) /* throttle_time_ms */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_produce_v9(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v9, 3, true, python, args, count);
}

static bool
encode_produce_v13_responses_partition_responses_record_errors(Output *o, PyObject *element)
{
    /* batch_index, batch_index_error_message */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_int32(o, values[0]) /* batch_index */
        && write_text(o, values[1], true, true) /* batch_index_error_message */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_produce_v13_responses_partition_responses(Output *o, PyObject *element)
{
    /* index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message */
    PyObject *values[7];
    return unpack(element, values, 7)
        && write_int32(o, values[0]) /* index */
        && write_int16(o, values[1]) /* error_code */
        && write_int64(o, values[2]) /* base_offset */
        && write_int64(o, values[3]) /* log_append_time_ms */
        && write_int64(o, values[4]) /* log_start_offset */
        && write_list(o, values[5], true, encode_produce_v13_responses_partition_responses_record_errors)
        && write_text(o, values[6], true, true) /* error_message */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_produce_v13_responses(Output *o, PyObject *element)
{
    /* topic, partitions */
    PyObject *values[2];
    return unpack(element, values, 2)
        && write_uuid(o, values[0]) /* topic_id */
        && write_list(o, values[1], true, encode_produce_v13_responses_partition_responses)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_produce_v13(Output *o, PyObject *const *values)
{
    /* correlation_id, topics, throttle_time_ms */
    return write_list(o, values[1], true, encode_produce_v13_responses)
        && write_int32(o, values[2]) /* throttle_time_ms */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_produce_v13(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_produce_v13, 3, true, python, args, count);
}

/* -------------------------------------------------------------------------------- ShareFetch */

static PyObject *
decode_share_fetch_v0_topic_partition_acknowledgement_batches(Cursor *c)
{
    PyObject *made = PyTuple_New(3);
    if (made != NULL
        && put(made, 0, read_int64(c)) /* first_offset */
        && put(made, 1, read_int64(c)) /* last_offset */
        && put(made, 2, read_tuple(c, read_count(c, true, 1), read_int8)) /* acknowledge_types */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v0_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition_index */
        && skip(read_int32(c)) /* partition_max_bytes */
        && put(made, 1, read_list(c, read_count(c, true, 18), decode_share_fetch_v0_topic_partition_acknowledgement_batches)) /* acknowledgement_batches */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v0_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_list(c, read_count(c, true, 10), decode_share_fetch_v0_topic_partitions)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v0_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(12);
    if (made != NULL
        && put(made, 0, read_compact_nullable_string(c)) /* group_id */
        && put(made, 1, read_compact_nullable_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* share_session_epoch */
        && put(made, 3, read_int32(c)) /* max_wait_ms */
        && put(made, 4, read_int32(c)) /* min_bytes */
        && put(made, 5, read_int32(c)) /* max_bytes */
        && put(made, 10, read_list(c, read_count(c, true, 18), decode_share_fetch_v0_topics)) /* topics */
        && put(made, 11, read_list(c, read_count(c, true, 18), decode_share_fetch_v0_forgotten_topics_data)) /* forgotten_topics_data */
        && no_tags(c)
        && put(made, 6, PyLong_FromLong(2147483647))
        && put(made, 7, PyLong_FromLong(2147483647))
        && put(made, 8, PyLong_FromLong(0))
        && put(made, 9, Py_NewRef(Py_False)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_share_fetch_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_share_fetch_v0, python, args, count);
}

static PyObject *
decode_share_fetch_v1_topic_partition_acknowledgement_batches(Cursor *c)
{
    PyObject *made = PyTuple_New(3);
    if (made != NULL
        && put(made, 0, read_int64(c)) /* first_offset */
        && put(made, 1, read_int64(c)) /* last_offset */
        && put(made, 2, read_tuple(c, read_count(c, true, 1), read_int8)) /* acknowledge_types */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v1_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition_index */
        && put(made, 1, read_list(c, read_count(c, true, 18), decode_share_fetch_v1_topic_partition_acknowledgement_batches)) /* acknowledgement_batches */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v1_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_list(c, read_count(c, true, 6), decode_share_fetch_v1_topic_partitions)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v1_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v1(Cursor *c)
{
    PyObject *made = PyTuple_New(12);
    if (made != NULL
        && put(made, 0, read_compact_nullable_string(c)) /* group_id */
        && put(made, 1, read_compact_nullable_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* share_session_epoch */
        && put(made, 3, read_int32(c)) /* max_wait_ms */
        && put(made, 4, read_int32(c)) /* min_bytes */
        && put(made, 5, read_int32(c)) /* max_bytes */
        && put(made, 6, read_int32(c)) /* max_records */
        && put(made, 7, read_int32(c)) /* batch_size */
        && put(made, 10, read_list(c, read_count(c, true, 18), decode_share_fetch_v1_topics)) /* topics */
        && put(made, 11, read_list(c, read_count(c, true, 18), decode_share_fetch_v1_forgotten_topics_data)) /* forgotten_topics_data */
        && no_tags(c)
        && put(made, 8, PyLong_FromLong(0))
        && put(made, 9, Py_NewRef(Py_False)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_share_fetch_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_share_fetch_v1, python, args, count);
}

static PyObject *
decode_share_fetch_v2_topic_partition_acknowledgement_batches(Cursor *c)
{
    PyObject *made = PyTuple_New(3);
    if (made != NULL
        && put(made, 0, read_int64(c)) /* first_offset */
        && put(made, 1, read_int64(c)) /* last_offset */
        && put(made, 2, read_tuple(c, read_count(c, true, 1), read_int8)) /* acknowledge_types */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v2_topic_partitions(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_int32(c)) /* partition_index */
        && put(made, 1, read_list(c, read_count(c, true, 18), decode_share_fetch_v2_topic_partition_acknowledgement_batches)) /* acknowledgement_batches */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v2_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_list(c, read_count(c, true, 6), decode_share_fetch_v2_topic_partitions)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v2_forgotten_topics_data(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && put(made, 1, read_tuple(c, read_count(c, true, 4), read_int32)) /* partitions */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_share_fetch_v2(Cursor *c)
{
    PyObject *made = PyTuple_New(12);
    if (made != NULL
        && put(made, 0, read_compact_nullable_string(c)) /* group_id */
        && put(made, 1, read_compact_nullable_string(c)) /* member_id */
        && put(made, 2, read_int32(c)) /* share_session_epoch */
        && put(made, 3, read_int32(c)) /* max_wait_ms */
        && put(made, 4, read_int32(c)) /* min_bytes */
        && put(made, 5, read_int32(c)) /* max_bytes */
        && put(made, 6, read_int32(c)) /* max_records */
        && put(made, 7, read_int32(c)) /* batch_size */
        && put(made, 8, read_int8(c)) /* share_acquire_mode */
        && put(made, 9, read_boolean(c)) /* is_renew_ack */
        && put(made, 10, read_list(c, read_count(c, true, 18), decode_share_fetch_v2_topics)) /* topics */
        && put(made, 11, read_list(c, read_count(c, true, 18), decode_share_fetch_v2_forgotten_topics_data)) /* forgotten_topics_data */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_share_fetch_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_share_fetch_v2, python, args, count);
}

/* --------------------------------------------------------------------------------- SyncGroup */

static PyObject *
decode_sync_group_v0_assignments(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* member_id */
        && put(made, 1, read_bytes(c)) /* assignment */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_sync_group_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(7);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 6, read_list(c, read_count(c, false, 6), decode_sync_group_v0_assignments)) /* assignments */
        && put(made, 3, Py_NewRef(Py_None))
        && put(made, 4, Py_NewRef(Py_None))
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_sync_group_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_sync_group_v0, python, args, count);
}

static PyObject *
decode_sync_group_v3_assignments(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_string(c)) /* member_id */
        && put(made, 1, read_bytes(c)) /* assignment */)
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_sync_group_v3(Cursor *c)
{
    PyObject *made = PyTuple_New(7);
    if (made != NULL
        && put(made, 0, read_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_string(c)) /* member_id */
        && put(made, 3, read_nullable_string(c)) /* group_instance_id */
        && put(made, 6, read_list(c, read_count(c, false, 6), decode_sync_group_v3_assignments)) /* assignments */
        && put(made, 4, Py_NewRef(Py_None))
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_sync_group_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_sync_group_v3, python, args, count);
}

static PyObject *
decode_sync_group_v4_assignments(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* member_id */
        && put(made, 1, read_compact_bytes(c)) /* assignment */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_sync_group_v4(Cursor *c)
{
    PyObject *made = PyTuple_New(7);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_compact_string(c)) /* member_id */
        && put(made, 3, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 6, read_list(c, read_count(c, true, 3), decode_sync_group_v4_assignments)) /* assignments */
        && no_tags(c)
        && put(made, 4, Py_NewRef(Py_None))
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_sync_group_v4(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_sync_group_v4, python, args, count);
}

static PyObject *
decode_sync_group_v5_assignments(Cursor *c)
{
    PyObject *made = PyTuple_New(2);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* member_id */
        && put(made, 1, read_compact_bytes(c)) /* assignment */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_sync_group_v5(Cursor *c)
{
    PyObject *made = PyTuple_New(7);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* group_id */
        && put(made, 1, read_int32(c)) /* generation_id */
        && put(made, 2, read_compact_string(c)) /* member_id */
        && put(made, 3, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 4, read_compact_nullable_string(c)) /* protocol_type */
        && put(made, 5, read_compact_nullable_string(c)) /* protocol_name */
        && put(made, 6, read_list(c, read_count(c, true, 3), decode_sync_group_v5_assignments)) /* assignments */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_sync_group_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_sync_group_v5, python, args, count);
}

static bool
encode_sync_group_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, protocol_type, protocol_name, assignment */
    return write_int16(o, values[2]) /* error_code */
        && write_data(o, values[5], false) /* assignment */;
}

static PyObject *
call_encode_sync_group_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_sync_group_v0, 6, false, python, args, count);
}

static bool
encode_sync_group_v1(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, protocol_type, protocol_name, assignment */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_data(o, values[5], false) /* assignment */;
}

static PyObject *
call_encode_sync_group_v1(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_sync_group_v1, 6, false, python, args, count);
}

static bool
encode_sync_group_v4(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, protocol_type, protocol_name, assignment */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_data(o, values[5], true) /* assignment */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_sync_group_v4(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_sync_group_v4, 6, true, python, args, count);
}

static bool
encode_sync_group_v5(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, error_code, protocol_type, protocol_name, assignment */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_int16(o, values[2]) /* error_code */
        && write_text(o, values[3], true, true) /* protocol_type */
        && write_text(o, values[4], true, true) /* protocol_name */
        && write_data(o, values[5], true) /* assignment */
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_sync_group_v5(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_sync_group_v5, 6, true, python, args, count);
}

/* --------------------------------------------------------------------------- TxnOffsetCommit */

static bool
decode_txn_offset_commit_v0_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 14);
    PyObject *partitions, *offsets, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))
        && put(row, 3, minus_ones(count))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_txn_offset_commit_v0_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_txn_offset_commit_v0_topic_partitions(c, made)
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_txn_offset_commit_v0(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_string(c)) /* transactional_id */
        && put(made, 1, read_string(c)) /* group_id */
        && put(made, 2, read_int64(c)) /* producer_id */
        && put(made, 3, read_int16(c)) /* producer_epoch */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_txn_offset_commit_v0_topics)) /* topics */
        && put(made, 4, PyLong_FromLong(-1))
        && put(made, 5, PyUnicode_FromString(""))
        && put(made, 6, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_txn_offset_commit_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_txn_offset_commit_v0, python, args, count);
}

static bool
decode_txn_offset_commit_v2_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, false, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_nullable_string(c), &has_metadata))))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_txn_offset_commit_v2_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_string(c)) /* name */
        && decode_txn_offset_commit_v2_topic_partitions(c, made)
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_txn_offset_commit_v2(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_string(c)) /* transactional_id */
        && put(made, 1, read_string(c)) /* group_id */
        && put(made, 2, read_int64(c)) /* producer_id */
        && put(made, 3, read_int16(c)) /* producer_epoch */
        && put(made, 7, read_list(c, read_count(c, false, 6), decode_txn_offset_commit_v2_topics)) /* topics */
        && put(made, 4, PyLong_FromLong(-1))
        && put(made, 5, PyUnicode_FromString(""))
        && put(made, 6, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_txn_offset_commit_v2(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_txn_offset_commit_v2, python, args, count);
}

static bool
decode_txn_offset_commit_v3_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, true, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_compact_nullable_string(c), &has_metadata))
        && no_tags(c)))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_txn_offset_commit_v3_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* name */
        && decode_txn_offset_commit_v3_topic_partitions(c, made)
        && no_tags(c)
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_txn_offset_commit_v3(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* transactional_id */
        && put(made, 1, read_compact_string(c)) /* group_id */
        && put(made, 2, read_int64(c)) /* producer_id */
        && put(made, 3, read_int16(c)) /* producer_epoch */
        && put(made, 4, read_int32(c)) /* generation_id */
        && put(made, 5, read_compact_string(c)) /* member_id */
        && put(made, 6, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 7, read_list(c, read_count(c, true, 3), decode_txn_offset_commit_v3_topics)) /* topics */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_txn_offset_commit_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_txn_offset_commit_v3, python, args, count);
}

static bool
decode_txn_offset_commit_v6_topic_partitions(Cursor *c, PyObject *row)
{
    Py_ssize_t count = read_count(c, true, 18);
    PyObject *partitions, *offsets, *leader_epochs, *metadata;
    bool has_metadata = false;
    if (!(count >= 0 && put(row, 1, partitions = PyTuple_New(count))
        && put(row, 2, offsets = PyTuple_New(count))
        && put(row, 3, leader_epochs = PyTuple_New(count))
        && put(row, 4, metadata = PyTuple_New(count))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(put(partitions, i, read_int32(c))
        && put(offsets, i, read_int64(c))
        && put(leader_epochs, i, read_int32(c))
        && put(metadata, i, noted(read_compact_nullable_string(c), &has_metadata))
        && no_tags(c)))
            return false;
    return has_metadata || put(row, 4, Py_NewRef(Py_None));
}

static PyObject *
decode_txn_offset_commit_v6_topics(Cursor *c)
{
    PyObject *made = PyTuple_New(6);
    if (made != NULL
        && put(made, 0, read_uuid(c)) /* topic_id */
        && decode_txn_offset_commit_v6_topic_partitions(c, made)
        && no_tags(c)
        && put(made, 5, Py_NewRef(Py_None)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
decode_txn_offset_commit_v6(Cursor *c)
{
    PyObject *made = PyTuple_New(8);
    if (made != NULL
        && put(made, 0, read_compact_string(c)) /* transactional_id */
        && put(made, 1, read_compact_string(c)) /* group_id */
        && put(made, 2, read_int64(c)) /* producer_id */
        && put(made, 3, read_int16(c)) /* producer_epoch */
        && put(made, 4, read_int32(c)) /* generation_id */
        && put(made, 5, read_compact_string(c)) /* member_id */
        && put(made, 6, read_compact_nullable_string(c)) /* group_instance_id */
        && put(made, 7, read_list(c, read_count(c, true, 18), decode_txn_offset_commit_v6_topics)) /* topics */
        && no_tags(c))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
call_decode_txn_offset_commit_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return decoded(decode_txn_offset_commit_v6, python, args, count);
}

static bool
encode_txn_offset_commit_v0_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], false, false) /* name */
        && write_codes(o, values[1], values[2], false);
}

static bool
encode_txn_offset_commit_v0(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], false, encode_txn_offset_commit_v0_topics);
}

static PyObject *
call_encode_txn_offset_commit_v0(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_txn_offset_commit_v0, 3, false, python, args, count);
}

static bool
encode_txn_offset_commit_v3_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_text(o, values[0], true, false) /* name */
        && write_codes(o, values[1], values[2], true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_txn_offset_commit_v3(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], true, encode_txn_offset_commit_v3_topics)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_txn_offset_commit_v3(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_txn_offset_commit_v3, 3, true, python, args, count);
}

static bool
encode_txn_offset_commit_v6_topics(Output *o, PyObject *element)
{
    /* topic, partitions, codes */
    PyObject *values[3];
    return unpack(element, values, 3)
        && write_uuid(o, values[0]) /* topic_id */
        && write_codes(o, values[1], values[2], true)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static bool
encode_txn_offset_commit_v6(Output *o, PyObject *const *values)
{
    /* correlation_id, throttle_time_ms, topics */
    return write_int32(o, values[1]) /* throttle_time_ms */
        && write_list(o, values[2], true, encode_txn_offset_commit_v6_topics)
        && write_number(o, 0, 1) /* no tagged fields */;
}

static PyObject *
call_encode_txn_offset_commit_v6(PyObject *python, PyObject *const *args, Py_ssize_t count)
{
    return encoded(encode_txn_offset_commit_v6, 3, true, python, args, count);
}

/* A codec, by its name: `decode` or `encode`, the module of protocol/generated, the version. */
typedef struct {
    const char *name;
    PyMethodDef method;
} Codec;

#define CODEC(name, function) \
    {name, {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}}

static Codec codecs[] = {
    CODEC("decode consumer_group_heartbeat 0", call_decode_consumer_group_heartbeat_v0),
    CODEC("decode consumer_group_heartbeat 1", call_decode_consumer_group_heartbeat_v1),
    CODEC("encode consumer_group_heartbeat 0", call_encode_consumer_group_heartbeat_v0),
    CODEC("encode consumer_group_heartbeat 1", call_encode_consumer_group_heartbeat_v0),
    CODEC("decode end_txn 0", call_decode_end_txn_v0),
    CODEC("decode end_txn 1", call_decode_end_txn_v0),
    CODEC("decode end_txn 2", call_decode_end_txn_v0),
    CODEC("decode end_txn 3", call_decode_end_txn_v3),
    CODEC("decode end_txn 4", call_decode_end_txn_v3),
    CODEC("decode end_txn 5", call_decode_end_txn_v3),
    CODEC("encode end_txn 0", call_encode_end_txn_v0),
    CODEC("encode end_txn 1", call_encode_end_txn_v0),
    CODEC("encode end_txn 2", call_encode_end_txn_v0),
    CODEC("encode end_txn 3", call_encode_end_txn_v3),
    CODEC("encode end_txn 4", call_encode_end_txn_v3),
    CODEC("encode end_txn 5", call_encode_end_txn_v5),
    CODEC("decode fetch 0", call_decode_fetch_v0),
    CODEC("decode fetch 1", call_decode_fetch_v0),
    CODEC("decode fetch 2", call_decode_fetch_v0),
    CODEC("decode fetch 3", call_decode_fetch_v3),
    CODEC("decode fetch 4", call_decode_fetch_v4),
    CODEC("decode fetch 5", call_decode_fetch_v5),
    CODEC("decode fetch 6", call_decode_fetch_v5),
    CODEC("decode fetch 7", call_decode_fetch_v7),
    CODEC("decode fetch 8", call_decode_fetch_v7),
    CODEC("decode fetch 9", call_decode_fetch_v9),
    CODEC("decode fetch 10", call_decode_fetch_v9),
    CODEC("decode fetch 11", call_decode_fetch_v11),
    CODEC("decode fetch 12", call_decode_fetch_v12),
    CODEC("decode fetch 13", call_decode_fetch_v13),
    CODEC("decode fetch 14", call_decode_fetch_v13),
    CODEC("decode fetch 15", call_decode_fetch_v15),
    CODEC("decode fetch 16", call_decode_fetch_v15),
    CODEC("decode fetch 17", call_decode_fetch_v15),
    CODEC("decode fetch 18", call_decode_fetch_v15),
    CODEC("decode heartbeat 0", call_decode_heartbeat_v0),
    CODEC("decode heartbeat 1", call_decode_heartbeat_v0),
    CODEC("decode heartbeat 2", call_decode_heartbeat_v0),
    CODEC("decode heartbeat 3", call_decode_heartbeat_v3),
    CODEC("decode heartbeat 4", call_decode_heartbeat_v4),
    CODEC("encode heartbeat 0", call_encode_heartbeat_v0),
    CODEC("encode heartbeat 1", call_encode_heartbeat_v1),
    CODEC("encode heartbeat 2", call_encode_heartbeat_v1),
    CODEC("encode heartbeat 3", call_encode_heartbeat_v1),
    CODEC("encode heartbeat 4", call_encode_heartbeat_v4),
    CODEC("decode join_group 0", call_decode_join_group_v0),
    CODEC("decode join_group 1", call_decode_join_group_v1),
    CODEC("decode join_group 2", call_decode_join_group_v1),
    CODEC("decode join_group 3", call_decode_join_group_v1),
    CODEC("decode join_group 4", call_decode_join_group_v1),
    CODEC("decode join_group 5", call_decode_join_group_v5),
    CODEC("decode join_group 6", call_decode_join_group_v6),
    CODEC("decode join_group 7", call_decode_join_group_v6),
    CODEC("decode join_group 8", call_decode_join_group_v8),
    CODEC("decode join_group 9", call_decode_join_group_v8),
    CODEC("encode join_group 0", call_encode_join_group_v0),
    CODEC("encode join_group 1", call_encode_join_group_v0),
    CODEC("encode join_group 2", call_encode_join_group_v2),
    CODEC("encode join_group 3", call_encode_join_group_v2),
    CODEC("encode join_group 4", call_encode_join_group_v2),
    CODEC("encode join_group 5", call_encode_join_group_v5),
    CODEC("encode join_group 6", call_encode_join_group_v6),
    CODEC("encode join_group 7", call_encode_join_group_v7),
    CODEC("encode join_group 8", call_encode_join_group_v7),
    CODEC("encode join_group 9", call_encode_join_group_v9),
    CODEC("decode offset_commit 0", call_decode_offset_commit_v0),
    CODEC("decode offset_commit 1", call_decode_offset_commit_v1),
    CODEC("decode offset_commit 2", call_decode_offset_commit_v2),
    CODEC("decode offset_commit 3", call_decode_offset_commit_v2),
    CODEC("decode offset_commit 4", call_decode_offset_commit_v2),
    CODEC("decode offset_commit 5", call_decode_offset_commit_v5),
    CODEC("decode offset_commit 6", call_decode_offset_commit_v6),
    CODEC("decode offset_commit 7", call_decode_offset_commit_v7),
    CODEC("decode offset_commit 8", call_decode_offset_commit_v8),
    CODEC("decode offset_commit 9", call_decode_offset_commit_v8),
    CODEC("decode offset_commit 10", call_decode_offset_commit_v10),
    CODEC("encode offset_commit 0", call_encode_offset_commit_v0),
    CODEC("encode offset_commit 1", call_encode_offset_commit_v0),
    CODEC("encode offset_commit 2", call_encode_offset_commit_v0),
    CODEC("encode offset_commit 3", call_encode_offset_commit_v3),
    CODEC("encode offset_commit 4", call_encode_offset_commit_v3),
    CODEC("encode offset_commit 5", call_encode_offset_commit_v3),
    CODEC("encode offset_commit 6", call_encode_offset_commit_v3),
    CODEC("encode offset_commit 7", call_encode_offset_commit_v3),
    CODEC("encode offset_commit 8", call_encode_offset_commit_v8),
    CODEC("encode offset_commit 9", call_encode_offset_commit_v8),
    CODEC("encode offset_commit 10", call_encode_offset_commit_v10),
    CODEC("decode offset_fetch 0", call_decode_offset_fetch_v0),
    CODEC("decode offset_fetch 1", call_decode_offset_fetch_v0),
    CODEC("decode offset_fetch 2", call_decode_offset_fetch_v2),
    CODEC("decode offset_fetch 3", call_decode_offset_fetch_v2),
    CODEC("decode offset_fetch 4", call_decode_offset_fetch_v2),
    CODEC("decode offset_fetch 5", call_decode_offset_fetch_v2),
    CODEC("decode offset_fetch 6", call_decode_offset_fetch_v6),
    CODEC("decode offset_fetch 7", call_decode_offset_fetch_v7),
    CODEC("decode offset_fetch 8", call_decode_offset_fetch_v8),
    CODEC("decode offset_fetch 9", call_decode_offset_fetch_v9),
    CODEC("decode offset_fetch 10", call_decode_offset_fetch_v10),
    CODEC("encode offset_fetch 0", call_encode_offset_fetch_v0),
    CODEC("encode offset_fetch 1", call_encode_offset_fetch_v0),
    CODEC("encode offset_fetch 2", call_encode_offset_fetch_v2),
    CODEC("encode offset_fetch 3", call_encode_offset_fetch_v3),
    CODEC("encode offset_fetch 4", call_encode_offset_fetch_v3),
    CODEC("encode offset_fetch 5", call_encode_offset_fetch_v5),
    CODEC("encode offset_fetch 6", call_encode_offset_fetch_v6),
    CODEC("encode offset_fetch 7", call_encode_offset_fetch_v6),
    CODEC("encode offset_fetch 8", call_encode_offset_fetch_v8),
    CODEC("encode offset_fetch 9", call_encode_offset_fetch_v8),
    CODEC("encode offset_fetch 10", call_encode_offset_fetch_v10),
    CODEC("decode produce 0", call_decode_produce_v0),
    CODEC("decode produce 1", call_decode_produce_v0),
    CODEC("decode produce 2", call_decode_produce_v0),
    CODEC("decode produce 3", call_decode_produce_v3),
    CODEC("decode produce 4", call_decode_produce_v3),
    CODEC("decode produce 5", call_decode_produce_v3),
    CODEC("decode produce 6", call_decode_produce_v3),
    CODEC("decode produce 7", call_decode_produce_v3),
    CODEC("decode produce 8", call_decode_produce_v3),
    CODEC("decode produce 9", call_decode_produce_v9),
    CODEC("decode produce 10", call_decode_produce_v9),
    CODEC("decode produce 11", call_decode_produce_v9),
    CODEC("decode produce 12", call_decode_produce_v9),
    CODEC("decode produce 13", call_decode_produce_v13),
    CODEC("encode produce 0", call_encode_produce_v0),
    CODEC("encode produce 1", call_encode_produce_v1),
    CODEC("encode produce 2", call_encode_produce_v2),
    CODEC("encode produce 3", call_encode_produce_v2),
    CODEC("encode produce 4", call_encode_produce_v2),
    CODEC("encode produce 5", call_encode_produce_v5),
    CODEC("encode produce 6", call_encode_produce_v5),
    CODEC("encode produce 7", call_encode_produce_v5),
    CODEC("encode produce 8", call_encode_produce_v8),
    CODEC("encode produce 9", call_encode_produce_v9),
    CODEC("encode produce 10", call_encode_produce_v9),
    CODEC("encode produce 11", call_encode_produce_v9),
    CODEC("encode produce 12", call_encode_produce_v9),
    CODEC("encode produce 13", call_encode_produce_v13),
    CODEC("decode share_fetch 0", call_decode_share_fetch_v0),
    CODEC("decode share_fetch 1", call_decode_share_fetch_v1),
    CODEC("decode share_fetch 2", call_decode_share_fetch_v2),
    CODEC("decode sync_group 0", call_decode_sync_group_v0),
    CODEC("decode sync_group 1", call_decode_sync_group_v0),
    CODEC("decode sync_group 2", call_decode_sync_group_v0),
    CODEC("decode sync_group 3", call_decode_sync_group_v3),
    CODEC("decode sync_group 4", call_decode_sync_group_v4),
    CODEC("decode sync_group 5", call_decode_sync_group_v5),
    CODEC("encode sync_group 0", call_encode_sync_group_v0),
    CODEC("encode sync_group 1", call_encode_sync_group_v1),
    CODEC("encode sync_group 2", call_encode_sync_group_v1),
    CODEC("encode sync_group 3", call_encode_sync_group_v1),
    CODEC("encode sync_group 4", call_encode_sync_group_v4),
    CODEC("encode sync_group 5", call_encode_sync_group_v5),
    CODEC("decode txn_offset_commit 0", call_decode_txn_offset_commit_v0),
    CODEC("decode txn_offset_commit 1", call_decode_txn_offset_commit_v0),
    CODEC("decode txn_offset_commit 2", call_decode_txn_offset_commit_v2),
    CODEC("decode txn_offset_commit 3", call_decode_txn_offset_commit_v3),
    CODEC("decode txn_offset_commit 4", call_decode_txn_offset_commit_v3),
    CODEC("decode txn_offset_commit 5", call_decode_txn_offset_commit_v3),
    CODEC("decode txn_offset_commit 6", call_decode_txn_offset_commit_v6),
    CODEC("encode txn_offset_commit 0", call_encode_txn_offset_commit_v0),
    CODEC("encode txn_offset_commit 1", call_encode_txn_offset_commit_v0),
    CODEC("encode txn_offset_commit 2", call_encode_txn_offset_commit_v0),
    CODEC("encode txn_offset_commit 3", call_encode_txn_offset_commit_v3),
    CODEC("encode txn_offset_commit 4", call_encode_txn_offset_commit_v3),
    CODEC("encode txn_offset_commit 5", call_encode_txn_offset_commit_v3),
    CODEC("encode txn_offset_commit 6", call_encode_txn_offset_commit_v6),
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
