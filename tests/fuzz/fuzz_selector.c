// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a label selector and as a field selector of several kinds. The canonical form of what is
// read must read back as itself and match the same.
#include <assert.h>

#include "api/match/field_selector.h"
#include "api/match/label_selector.h"
#include "fuzz.h"

#include "base/banned.h"

static void check_label(struct str text)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf canonical = {0}, again = {0};
    struct label_selector s, back;
    struct err err = {0};
    if (label_selector_parse(text, &arena, &s, &err) < 0) {
        assert(err.msg[0]);
        return;
    }
    label_selector_write(&s, &canonical);
    int rc = label_selector_parse(sbuf_str(&canonical), &arena, &back, &err);
    assert(rc == 0 && back.n == s.n);
    label_selector_write(&back, &again);
    assert(str_eq(sbuf_str(&canonical), sbuf_str(&again)));
    struct api_str_entry entries[] = {{STR("a"), STR("1")}, {STR("b"), STR("")}};
    for (size_t n = 0; n <= array_len(entries); n++) {
        struct api_str_map labels = {entries, n};
        assert(label_selector_matches(&s, &labels) == label_selector_matches(&back, &labels));
    }
}

static void check_field(struct str text, struct str version, struct str name)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf canonical = {0}, again = {0};
    struct field_selector s, back;
    struct err err = {0};
    const struct api_kind *kind = api_kind_find(version, name);
    if (field_selector_parse(text, kind, NULL, &arena, &s, &err) < 0) {
        assert(err.msg[0]);
        return;
    }
    field_selector_write(&s, &canonical);
    int rc = field_selector_parse(sbuf_str(&canonical), kind, NULL, &arena, &back, &err);
    assert(rc == 0 && back.n == s.n);
    field_selector_write(&back, &again);
    // Requirements are sorted as they were written, so only the second form is stable.
    const void *object = arena_alloc(&arena, kind->type->size, _Alignof(max_align_t));
    assert(field_selector_matches(&s, object) == field_selector_matches(&back, object));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    check_label(text);
    check_field(text, STR("v1"), STR("Pod"));
    check_field(text, STR("v1"), STR("Event"));
    check_field(text, STR("batch/v1"), STR("Job"));
    check_field(text, STR("resource.k8s.io/v1"), STR("ResourceSlice"));
    check_field(text, STR("resource.k8s.io/v1"), STR("ResourceClaim"));
    return 0;
}
