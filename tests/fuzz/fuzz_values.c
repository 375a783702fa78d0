// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as quantity, version, time and base64. What is accepted must survive being written and
// read again; arithmetic must undo itself.
#include <assert.h>

#include "codec/base64.h"
#include "codec/quantity.h"
#include "codec/rfc3339.h"
#include "codec/semver.h"
#include "fuzz.h"

#include "base/banned.h"

static void check_pair(const struct quantity *a, const struct quantity *b, struct arena *arena)
{
    struct quantity sum, back;
    assert(quantity_cmp(a, b) == -quantity_cmp(b, a));
    quantity_add(&sum, a, b, arena);
    assert(quantity_cmp(&sum, a) == quantity_sign(b));
    quantity_sub(&back, &sum, b, arena);
    assert(quantity_cmp(&back, a) == 0);
}

static void check_quantity(struct str text, struct arena *arena)
{
    struct str first, second;
    struct quantity a, b;
    (void)str_cut(text, ' ', &first, &second);
    if (quantity_parse(first, arena, &a, NULL) < 0)
        return;
    cleanup_sbuf struct sbuf out = {0};
    quantity_write(&a, &out);
    quantity_write_canonical(&a, &out);
    (void)quantity_value(&a);
    (void)quantity_milli(&a);
    (void)quantity_as_double(&a);
    if (quantity_parse(second, arena, &b, NULL) == 0)
        check_pair(&a, &b, arena);
    // Exponents that have no suffix lose their magnitude upstream too; DecimalExponent never does.
    if (a.format == QUANTITY_DECIMAL_EXPONENT && a.scale > -1000 && a.scale < 1000) {
        sbuf_clear(&out);
        quantity_write_canonical(&a, &out);
        struct quantity again;
        if (out.n <= DRAY_QUANTITY_TEXT_MAX) {
            int r = quantity_parse(sbuf_str(&out), arena, &again, NULL);
            assert(r == 0 && quantity_cmp(&a, &again) == 0);
        }
    }
}

static void check_version(struct str text, struct arena *arena)
{
    struct semver v;
    if (semver_parse(text, &v, NULL) == 0) {
        cleanup_sbuf struct sbuf out = {0};
        semver_write(&v, &out);
        assert(str_eq(sbuf_str(&out), text));
        assert(semver_cmp(&v, &v) == 0);
    }
    if (semver_parse_tolerant(text, arena, &v, NULL) == 0)
        assert(semver_cmp(&v, &v) == 0);
}

static void check_time(struct str text)
{
    struct moment m, again;
    if (rfc3339_parse(text, &m, NULL) < 0)
        return;
    cleanup_sbuf struct sbuf out = {0};
    rfc3339_write_nanos(m, &out);
    // An offset can push the first or last hours of the calendar out of its four-digit years.
    if (out.n && out.p[0] != '-' && out.p[4] == '-') {
        int r = rfc3339_parse(sbuf_str(&out), &again, NULL);
        assert(r == 0 && moment_cmp(m, again) == 0);
    }
}

static void check_base64(struct str bytes)
{
    for (enum base64_form form = BASE64_STD; form <= BASE64_URL; form++) {
        cleanup_sbuf struct sbuf text = {0}, back = {0};
        base64_encode(bytes, form, &text);
        int r = base64_decode(sbuf_str(&text), form, &back, NULL);
        assert(r == 0 && str_eq(sbuf_str(&back), bytes));
        size_t before = back.n;
        if (base64_decode(bytes, form, &back, NULL) < 0)
            assert(back.n == before);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    struct str text = str_make((const char *)data, size);
    check_quantity(text, &arena);
    check_version(text, &arena);
    check_time(text);
    check_base64(text);
    return 0;
}
