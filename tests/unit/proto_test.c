// SPDX-License-Identifier: Apache-2.0
#include "codec/proto.h"
#include "unit.h"

#include "base/banned.h"

#define BYTES(lit) STR(lit)

static struct proto_field first_field(struct str message)
{
    struct proto_reader r = proto_reader_of(message);
    struct proto_field f = {0};
    struct err err = {0};
    if (proto_next(&r, &f, &err) != 1)
        fail_msg("%s", err.msg);
    return f;
}

static void refuses(struct str message, const char *what)
{
    // On the heap and exactly as long, so that a read past the end is seen.
    cleanup_free char *copy = xmalloc(message.n);
    memcpy(copy, message.p, message.n);
    struct proto_reader r = proto_reader_of(str_make(copy, message.n));
    struct proto_field f;
    struct err err = {0};
    int code;
    while ((code = proto_next(&r, &f, &err)) > 0)
        continue;
    assert_int_equal(code, -ERR_BAD_REQUEST);
    if (!strstr(err.msg, what))
        fail_msg("wanted \"%s\" in: %s", what, err.msg);
}

static void reads_each_wire_type(void **state)
{
    (void)state;
    struct str m = BYTES("\x08\x96\x01" // 1: varint 150
                         "\x12\x03"     // 2: bytes
                         "abc"
                         "\x19\x01\x02\x03\x04\x05\x06\x07\x08" // 3: fixed64
                         "\x25\xff\x00\x00\x80");               // 4: fixed32
    struct proto_reader r = proto_reader_of(m);
    struct proto_field f;
    int64_t i64 = 0;
    struct str s = {0};
    assert_int_equal(proto_next(&r, &f, NULL), 1);
    assert_int_equal(f.number, 1);
    assert_int_equal(proto_to_i64(&r, &f, &i64, NULL), 0);
    assert_int_equal(i64, 150);
    assert_int_equal(f.raw.n, 3);
    assert_int_equal(proto_next(&r, &f, NULL), 1);
    assert_int_equal(proto_to_str(&r, &f, &s, NULL), 0);
    assert_str(s, "abc");
    assert_int_equal(proto_next(&r, &f, NULL), 1);
    assert_int_equal(f.wire, PROTO_FIXED64);
    assert_true(f.value == 0x0807060504030201u);
    assert_int_equal(proto_next(&r, &f, NULL), 1);
    assert_int_equal(f.wire, PROTO_FIXED32);
    assert_int_equal(f.value, 0x800000ffu);
    assert_int_equal(proto_next(&r, &f, NULL), 0);
    struct proto_reader empty = proto_reader_of(STR(""));
    assert_int_equal(proto_next(&empty, &f, NULL), 0);
}

static void bounds_varints(void **state)
{
    (void)state;
    struct proto_field f = first_field(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    assert_true(f.value == UINT64_MAX);
    f = first_field(BYTES("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00")); // long, but legal
    assert_true(f.value == 0);
    refuses(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "longer than 64 bits");
    refuses(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80\x01"), "longer than 64 bits");
    refuses(BYTES("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), "longer than 64 bits");
    refuses(BYTES("\x08"), "cut off");
    refuses(BYTES("\x08\xff"), "cut off");
}

static void converts_numbers(void **state)
{
    (void)state;
    struct proto_field f = first_field(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    struct proto_reader r = proto_reader_of(f.raw);
    int64_t i64 = 0;
    int32_t i32 = 0;
    bool b = false;
    double d = 0;
    assert_int_equal(proto_to_i64(&r, &f, &i64, NULL), 0);
    assert_true(i64 == -1);
    assert_int_equal(proto_to_i32(&r, &f, &i32, NULL), 0);
    assert_int_equal(i32, -1);
    assert_int_equal(proto_to_bool(&r, &f, &b, NULL), 0);
    assert_true(b);
    f = first_field(BYTES("\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"));
    r = proto_reader_of(f.raw);
    assert_int_equal(proto_to_double(&r, &f, &d, NULL), 0);
    assert_true(d == 1.5);
}

static void refuses_wrong_wire_types(void **state)
{
    (void)state;
    struct proto_field f = first_field(BYTES("\x1a\x01x"));
    struct proto_reader r = proto_reader_of(f.raw), inner;
    struct err err = {0};
    int64_t v = 7;
    double d;
    struct str s;
    struct proto_items items;
    assert_int_equal(proto_to_i64(&r, &f, &v, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "invalid protobuf at byte 0: field 3 has wire type 2, not 0");
    assert_int_equal(v, 7);
    assert_int_equal(proto_to_double(&r, &f, &d, &err), -ERR_BAD_REQUEST);
    f = first_field(BYTES("\x18\x01"));
    assert_int_equal(proto_to_str(&r, &f, &s, &err), -ERR_BAD_REQUEST);
    assert_int_equal(proto_enter(&r, &f, &inner, &err), -ERR_BAD_REQUEST);
    assert_int_equal(proto_items_of(&r, &f, PROTO_FIXED32, &items, &err), -ERR_BAD_REQUEST);
}

static void refuses_bad_tags_and_lengths(void **state)
{
    (void)state;
    refuses(BYTES("\x00\x01"), "field number is out of range");
    refuses(BYTES("\x80\x80\x80\x80\x10\x01"), "field number is out of range"); // 2^29
    struct proto_field f = first_field(BYTES("\xf8\xff\xff\xff\x0f\x01"));
    assert_int_equal(f.number, PROTO_FIELD_MAX);
    refuses(BYTES("\x0e\x01"), "wire type");
    refuses(BYTES("\x0f\x01"), "wire type");
    refuses(BYTES("\x0a\x02x"), "past the end");
    refuses(BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "past the end");
    refuses(BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "past the end");
    refuses(BYTES("\x09\x01\x02\x03\x04\x05\x06\x07"), "cut off");
    refuses(BYTES("\x0d\x01\x02\x03"), "cut off");
    struct err err = {0};
    struct str s;
    f = first_field(BYTES("\x0a\x03"
                          "a\xff"
                          "b"));
    struct proto_reader r = proto_reader_of(f.raw);
    assert_int_equal(proto_to_bytes(&r, &f, &s, &err), 0);
    assert_int_equal(proto_to_str(&r, &f, &s, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "invalid protobuf at byte 3: a string is not UTF-8");
}

static void skips_groups(void **state)
{
    (void)state;
    // 1: group { 2: varint, 3: group { 4: bytes } }, then 5: varint.
    struct str m = BYTES("\x0b\x10\x01\x1b\x22\x01x\x1c\x0c\x28\x07");
    struct proto_reader r = proto_reader_of(m);
    struct proto_field f;
    assert_int_equal(proto_next(&r, &f, NULL), 1);
    assert_int_equal(f.wire, PROTO_GROUP);
    assert_int_equal(f.number, 1);
    assert_int_equal(f.raw.n, 9);
    assert_int_equal(f.bytes.n, 7);
    assert_int_equal(proto_next(&r, &f, NULL), 1);
    assert_int_equal(f.number, 5);
    refuses(BYTES("\x0c"), "did not begin");
    refuses(BYTES("\x0b\x10\x01"), "not closed");
    refuses(BYTES("\x0b\x14"), "tag of another");
    refuses(BYTES("\x0b\x1b\x0c"), "tag of another");
    cleanup_sbuf struct sbuf deep = {0};
    sbuf_add_repeat(&deep, '\x0b', 100000);
    refuses(sbuf_str(&deep), "too deep");
}

static void bounds_nesting(void **state)
{
    (void)state;
    cleanup_proto_writer struct proto_writer w = {0};
    for (int i = 0; i < 200; i++)
        proto_close(&w, 1, 0);
    struct proto_reader r = proto_reader_of(proto_written(&w));
    struct err err = {0};
    int levels = 0;
    for (;; levels++) {
        struct proto_field f;
        struct proto_reader inner;
        assert_int_equal(proto_next(&r, &f, &err), 1);
        if (proto_enter(&r, &f, &inner, &err) < 0)
            break;
        r = inner;
    }
    assert_int_equal(levels, DRAY_PROTO_DEPTH_MAX - 1);
    assert_non_null(strstr(err.msg, "too deep"));
}

// Offsets are those of the outermost message, however deep the error is.
static void places_errors(void **state)
{
    (void)state;
    struct str m = BYTES("\x08\x01\x12\x05\x08\x01\x0a\x05x");
    struct proto_reader r = proto_reader_of(m), inner;
    struct proto_field f;
    struct err err = {0};
    assert_int_equal(proto_next(&r, &f, &err), 1);
    assert_int_equal(proto_next(&r, &f, &err), 1);
    assert_int_equal(proto_enter(&r, &f, &inner, &err), 0);
    assert_int_equal(proto_next(&inner, &f, &err), 1);
    assert_int_equal(proto_next(&inner, &f, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "invalid protobuf at byte 7: a length points past the end");
}

static void reads_packed_and_unpacked(void **state)
{
    (void)state;
    struct str m = BYTES("\x0a\x04\x01\xac\x02\x03"
                         "\x08\x05"
                         "\x0a\x00"
                         "\x12\x08\x01\x00\x00\x00\x02\x00\x00\x00"
                         "\x15\x03\x00\x00\x00");
    struct proto_reader r = proto_reader_of(m);
    struct proto_field f;
    static const uint64_t want[] = {1, 300, 3, 5, 1, 2, 3};
    size_t n = 0;
    while (proto_next(&r, &f, NULL) > 0) {
        struct proto_items items;
        uint64_t v;
        assert_int_equal(
            proto_items_of(&r, &f, f.number == 1 ? PROTO_VARINT : PROTO_FIXED32, &items, NULL), 0);
        while (proto_items_next(&items, &v, NULL) > 0)
            assert_true(v == want[n++]);
    }
    assert_int_equal(n, array_len(want));
    f = first_field(BYTES("\x0a\x02\x01\xac"));
    r = proto_reader_of(f.raw);
    struct proto_items items;
    uint64_t v;
    struct err err = {0};
    assert_int_equal(proto_items_of(&r, &f, PROTO_VARINT, &items, NULL), 0);
    assert_int_equal(proto_items_next(&items, &v, &err), 1);
    assert_int_equal(proto_items_next(&items, &v, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "byte 3"));
}

struct label {
    struct str key;
    struct str value;
};

// A message with a map, a nested message, packed numbers and fields kept from elsewhere.
static void writes_messages(void **state)
{
    (void)state;
    struct label labels[] = {{STR("b"), STR("2")}, {STR("a"), STR("1")}, {STR("aa"), STR("")}};
    proto_sort_by_key(labels, array_len(labels), sizeof(labels[0]));
    cleanup_proto_writer struct proto_writer w = {0};
    proto_put_raw(&w, BYTES("\xf8\x01\x07")); // field 31, unknown to us
    size_t packed = proto_mark(&w);
    for (int i = 3; i > 0; i--)
        proto_put_packed_item(&w, (uint64_t)i * 100);
    proto_close(&w, 7, packed);
    proto_put_double(&w, 6, 1.5);
    proto_put_raw(&w, BYTES("\x2d\x04\x03\x02\x01")); // 5: fixed32
    proto_put_bool(&w, 4, true);
    for (size_t i = array_len(labels); i > 0; i--) {
        size_t mark = proto_mark(&w);
        proto_put_bytes(&w, 2, labels[i - 1].value);
        proto_put_bytes(&w, 1, labels[i - 1].key);
        proto_close(&w, 3, mark);
    }
    proto_put_i32(&w, 2, -1);
    proto_put_bytes(&w, 1, STR("name"));
    struct str want = BYTES("\x0a\x04name\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                            "\x1a\x06\x0a\x01"
                            "a\x12\x01"
                            "1\x1a\x06\x0a\x02"
                            "aa\x12\x00\x1a\x06\x0a\x01"
                            "b\x12\x01"
                            "2\x20\x01\x2d\x04\x03\x02\x01\x31\x00\x00\x00\x00\x00\x00\xf8\x3f"
                            "\x3a\x05\x64\xc8\x01\xac\x02\xf8\x01\x07");
    struct str got = proto_written(&w);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, want.n);
    // Unknown fields come back whole.
    struct proto_reader r = proto_reader_of(got);
    struct proto_field f;
    while (proto_next(&r, &f, NULL) > 0)
        continue;
    assert_int_equal(f.number, 31);
    assert_memory_equal(f.raw.p, "\xf8\x01\x07", 3);
    proto_writer_clear(&w);
    assert_int_equal(proto_written(&w).n, 0);
}

static void grows_while_writing(void **state)
{
    (void)state;
    cleanup_proto_writer struct proto_writer w = {0};
    for (uint64_t i = 100000; i > 0; i--)
        proto_put_varint(&w, 1 + (uint32_t)(i % 1000), i);
    struct proto_reader r = proto_reader_of(proto_written(&w));
    struct proto_field f;
    uint64_t n = 0;
    while (proto_next(&r, &f, NULL) > 0) {
        n++;
        assert_true(f.value == n && f.number == 1 + n % 1000);
    }
    assert_int_equal(n, 100000);
}

// Every prefix of a message is a shorter message or an error.
static void takes_every_truncation(void **state)
{
    (void)state;
    struct str m = BYTES("\x0a\x04name\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1b\x08\x01\x1c"
                         "\x2d\x04\x03\x02\x01\x31\x00\x00\x00\x00\x00\x00\xf8\x3f");
    static const size_t whole[] = {0, 6, 17, 21, 26, 35};
    for (size_t n = 0; n <= m.n; n++) {
        cleanup_free char *copy = xstrndup(m.p, n);
        struct proto_reader r = proto_reader_of(str_make(copy, n));
        struct proto_field f;
        int code;
        while ((code = proto_next(&r, &f, NULL)) > 0)
            continue;
        bool good = false;
        for (size_t i = 0; i < array_len(whole); i++)
            good = good || whole[i] == n;
        assert_int_equal(code, good ? 0 : -ERR_BAD_REQUEST);
    }
}

RUN_TESTS(TEST_CASE(reads_each_wire_type), TEST_CASE(bounds_varints), TEST_CASE(converts_numbers),
          TEST_CASE(refuses_wrong_wire_types), TEST_CASE(refuses_bad_tags_and_lengths),
          TEST_CASE(skips_groups), TEST_CASE(bounds_nesting), TEST_CASE(places_errors),
          TEST_CASE(reads_packed_and_unpacked), TEST_CASE(writes_messages),
          TEST_CASE(grows_while_writing), TEST_CASE(takes_every_truncation))
