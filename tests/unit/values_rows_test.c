// SPDX-License-Identifier: Apache-2.0
//
// Compares quantity and semver with upstream's answers, row by row (tests/oracle/values makes the
// rows). Reads the sample in the tree, or the file named by VALUES_ROWS.
#include <math.h>

#include "base/vec.h"
#include "codec/quantity.h"
#include "codec/semver.h"
#include "unit.h"

#include "base/banned.h"

enum { COLUMNS_MAX = 32 };

struct row {
    struct str column[COLUMNS_MAX];
    size_t n;
};

static struct row split_row(struct str line)
{
    struct row r = {0};
    for (bool more = true; more && r.n < COLUMNS_MAX;)
        more = str_cut(line, '\t', &r.column[r.n++], &line);
    return r;
}

static size_t differences;

static void expect(const struct row *r, size_t column, const char *what, struct str got)
{
    if (column < r->n && str_eq(r->column[column], got))
        return;
    if (differences++ < 20)
        print_error("%.*s %.*s: %s is %.*s, want %.*s\n", STR_ARG(r->column[1]),
                    STR_ARG(r->column[2]), what, STR_ARG(got),
                    STR_ARG(column < r->n ? r->column[column] : STR("nothing")));
}

static void expect_i64(const struct row *r, size_t column, const char *what, int64_t got)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_i64(&b, got);
    expect(r, column, what, sbuf_str(&b));
}

static void expect_quantity(const struct row *r, size_t column, const char *what,
                            const struct quantity *q)
{
    cleanup_sbuf struct sbuf b = {0};
    quantity_write(q, &b);
    expect(r, column, what, sbuf_str(&b));
}

static void expect_whole(const struct row *r, size_t column, const char *what,
                         const struct quantity *q)
{
    int64_t v;
    if (quantity_as_i64(q, &v))
        expect_i64(r, column, what, v);
    else
        expect(r, column, what, STR("-"));
}

static void expect_rounded(const struct row *r, size_t column, const struct quantity *q,
                           int32_t scale, struct arena *a)
{
    cleanup_sbuf struct sbuf b = {0};
    struct quantity rounded;
    sbuf_addz(&b, quantity_round_up(&rounded, q, scale, a) ? "true:" : "false:");
    quantity_write(&rounded, &b);
    expect(r, column, "rounded", sbuf_str(&b));
}

static void check_two(const struct row *r, const struct quantity *a, struct arena *arena)
{
    struct quantity b, out;
    bool b_ok = quantity_parse(r->column[2], arena, &b, NULL) == 0;
    if (b_ok != (r->n > 16)) {
        expect(r, 16, "second quantity", STR("accepted or refused wrongly"));
        return;
    }
    if (!b_ok)
        return;
    expect_i64(r, 16, "cmp", quantity_cmp(a, &b));
    quantity_add(&out, a, &b, arena);
    expect_quantity(r, 17, "sum", &out);
    expect_whole(r, 18, "whole sum", &out);
    quantity_sub(&out, a, &b, arena);
    expect_quantity(r, 19, "difference", &out);
    expect_i64(r, 20, "value of difference", quantity_value(&out));
    quantity_neg(&out, a, arena);
    expect_quantity(r, 21, "negated", &out);
}

static void check_quantity(const struct row *r, struct arena *arena)
{
    struct quantity q;
    struct err err = {0};
    if (quantity_parse(r->column[1], arena, &q, &err) < 0) {
        expect(r, 3, "verdict", STR("error"));
        expect(r, 4, "message", str_z(err.msg));
        return;
    }
    cleanup_sbuf struct sbuf text = {0};
    expect_quantity(r, 3, "text", &q);
    quantity_write_canonical(&q, &text);
    expect(r, 4, "canonical", sbuf_str(&text));
    expect_whole(r, 5, "whole", &q);
    expect_i64(r, 6, "value", quantity_value(&q));
    expect_i64(r, 7, "milli", quantity_milli(&q));
    expect_i64(r, 8, "kilo", quantity_scaled(&q, 3));
    expect_i64(r, 9, "nano", quantity_scaled(&q, -9));
    expect_i64(r, 10, "10^7", quantity_scaled(&q, 7));
    double d = quantity_as_double(&q);
    uint64_t bits;
    memcpy(&bits, &d, sizeof(bits));
    // The sign of a NaN that arithmetic gives is the processor's; the rows were made on x86-64.
    if (isnan(d))
        bits |= UINT64_C(1) << 63;
    sbuf_clear(&text);
    sbuf_addf(&text, "%llx", (unsigned long long)bits);
    expect(r, 11, "double", sbuf_str(&text));
    expect_i64(r, 12, "sign", quantity_sign(&q));
    expect_rounded(r, 13, &q, 0, arena);
    expect_rounded(r, 14, &q, -3, arena);
    expect_rounded(r, 15, &q, 4, arena);
    struct quantity copied = quantity_copy(&q, arena);
    expect_quantity(r, 3, "copy", &copied);
    check_two(r, &q, arena);
}

static void check_version(const struct row *r, struct arena *arena)
{
    struct semver v, other;
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    if (semver_parse_tolerant(r->column[1], arena, &v, NULL) == 0)
        semver_write(&v, &text);
    else
        sbuf_addz(&text, "error");
    expect(r, 3, "tolerant", sbuf_str(&text));
    if (semver_parse(r->column[1], &v, &err) < 0) {
        expect(r, 4, "verdict", STR("error"));
        expect(r, 5, "message", str_z(err.msg));
        return;
    }
    sbuf_clear(&text);
    semver_write(&v, &text);
    expect(r, 7, "text", sbuf_str(&text));
    sbuf_clear(&text);
    sbuf_add_u64(&text, v.major);
    expect(r, 4, "major", sbuf_str(&text));
    bool comparable = semver_parse(r->column[2], &other, NULL) == 0;
    if (comparable)
        expect_i64(r, 8, "cmp", semver_cmp(&v, &other));
    else
        assert_int_equal(r->n, 8);
}

static void agrees_with_upstream_row_by_row(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    const char *rows_file = getenv("VALUES_ROWS");
    if (rows_file)
        sbuf_addz(&path, rows_file);
    else
        sbuf_addf(&path, "%s/values_rows.tsv", getenv("TEST_DATA"));
    read_file(path.p, &text);
    size_t rows = 0;
    cleanup_arena struct arena arena = {0};
    for (struct str rest = sbuf_str(&text), line; rest.n; rows++) {
        (void)str_cut(rest, '\n', &line, &rest);
        struct row r = split_row(line);
        if (str_eq(r.column[0], STR("q")))
            check_quantity(&r, &arena);
        else
            check_version(&r, &arena);
        arena_reset(&arena);
    }
    print_message("%zu rows, %zu differences\n", rows, differences);
    assert_true(rows > 1000);
    assert_int_equal(differences, 0);
}

RUN_TESTS(TEST_CASE(agrees_with_upstream_row_by_row))
