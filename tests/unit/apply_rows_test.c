// SPDX-License-Identifier: Apache-2.0
//
// Histories of objects, written and applied by several managers, with the answers of Kubernetes' own field
// manager (tests/oracle/apply). The file that APPLY_ROWS names replaces the sample.
#include "api/managed.h"
#include "codec/json_writer.h"
#include "unit.h"

#include "base/banned.h"

#define SHOWN 5

// The rows' only times: earlier steps, and the one that is taken.
#define BEFORE_SEC INT64_C(1700000000)
#define NOW_SEC    INT64_C(1700000001)

static size_t differences, steps_seen, conflicts_seen;

struct history {
    const struct api_kind *kind;
    struct arena arena;
    struct sbuf live; // without managedFields
    struct api_managed_fields_entry_array entries;
    bool exists;
};

static void parse(struct str text, struct json_doc *ret)
{
    struct json_options options = {.max_bytes = (size_t)64 << 20,
                                   .duplicates = JSON_DUPLICATES_LAST};
    struct err err = {0};
    if (json_parse(text, &options, ret, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(str_upto(text, 500)));
}

// The typed form of a JSON text, written again: what a body becomes. Its managedFields are taken out.
static void canonical(struct history *h, const struct json_doc *doc, const yyjson_val *v,
                      struct sbuf *out, struct api_managed_fields_entry_array *ret)
{
    struct api_object o;
    struct err err = {0};
    struct json_writer w = {.out = out};
    if (api_decode_as(h->kind, doc, v, &h->arena, NULL, &o, &err) < 0)
        fail_msg("%s: %s", err.path, err.msg);
    struct api_object_meta *meta = api_object_meta(&o);
    if (ret)
        *ret = meta->managed_fields;
    meta->managed_fields = (struct api_managed_fields_entry_array){0};
    assert_int_equal(api_json_write(h->kind->type, o.value, &w, &err), 0);
}

static void show_entries(const struct api_managed_fields_entry_array *l, struct sbuf *out)
{
    for (size_t i = 0; i < l->n; i++)
        sbuf_addf(out, "%.*s %.*s %.*s %.*s %s %.*s\n", STR_ARG(l->p[i].manager),
                  STR_ARG(l->p[i].operation), STR_ARG(l->p[i].api_version),
                  STR_ARG(l->p[i].subresource),
                  !l->p[i].time.set                   ? "never"
                  : l->p[i].time.at.sec == BEFORE_SEC ? "before"
                                                      : "now",
                  STR_ARG(l->p[i].fields_v1));
}

static void differs(const char *what, struct str got, struct str want, const struct history *h,
                    const yyjson_val *step)
{
    cleanup_sbuf struct sbuf text = {0}, before = {0};
    struct json_writer w = {.out = &text};
    json_write_value(&w, step);
    show_entries(&h->entries, &before);
    differences++;
    (void)fprintf(stderr,
                  "%s differs (step %zu)\n got  %.*s\n want %.*s\n live %.*s\n entries %.*s\n step "
                  "%.*s\n\n",
                  what, steps_seen, STR_ARG(str_upto(got, 3000)), STR_ARG(str_upto(want, 3000)),
                  STR_ARG(str_upto(sbuf_str(&h->live), 3000)),
                  STR_ARG(str_upto(sbuf_str(&before), 3000)),
                  STR_ARG(str_upto(sbuf_str(&text), 3000)));
    if (differences >= SHOWN)
        fail_msg("too many differences");
}

static bool json_same(struct str x, struct str y)
{
    cleanup_json_doc struct json_doc a = {0}, b = {0};
    parse(x, &a);
    parse(y, &b);
    return json_equal(a.root, b.root);
}

static struct str text_of(const yyjson_val *v, const char *key)
{
    const yyjson_val *m = json_get(v, str_z(key));
    return m && json_is_string(m) ? json_str(m) : STR("");
}

static int run_step(struct history *h, const struct json_doc *doc, const yyjson_val *step,
                    struct sbuf *out, struct managed_applied *applied, struct err *err)
{
    const struct field_elem gone = {
        .kind = FIELD_NAME,
        .name = str_eqz(text_of(step, "subresource"), "status") ? STR("spec") : STR("status")};
    struct field_set ignored = {0};
    field_set_add(&ignored, &(struct field_path){NULL, &gone}, &h->arena);
    const yyjson_val *force = json_get(step, STR("force"));
    const struct managed_request q = {.kind = h->kind,
                                      .manager = text_of(step, "manager"),
                                      .subresource = text_of(step, "subresource"),
                                      .now = {NOW_SEC, 0},
                                      .force = force != NULL,
                                      .ignored = &ignored};
    const yyjson_val *object = json_get(step, STR("object"));
    cleanup_json_doc struct json_doc live = {0}, body = {0}, merged = {0};
    parse(sbuf_str(&h->live), &live);
    int r;
    if (str_eqz(text_of(step, "op"), "apply")) {
        r = managed_apply(&q, live.root, object, &h->entries, &h->arena, applied, err);
        if (r == 0 && applied->changed) {
            parse(sbuf_str(&applied->object), &merged);
            canonical(h, &merged, merged.root, out, NULL);
        } else {
            sbuf_add(out, sbuf_str(&h->live));
        }
        return r;
    }
    canonical(h, doc, object, out, NULL);
    parse(sbuf_str(out), &body);
    if (h->exists && h->entries.n == 0) { // upstream does not begin with it then
        return 0;
    }
    return managed_update(&q, live.root, body.root, &h->entries, &h->arena, &applied->entries, err);
}

static void check_failure(const struct history *h, const yyjson_val *step, int r,
                          const struct managed_applied *applied, const struct err *err)
{
    const yyjson_val *want = json_get(step, STR("conflicts"));
    cleanup_sbuf struct sbuf got = {0};
    if (!want) {
        // The order of what is wrong is Go's, by chance; one thing must be said alike.
        struct str said = text_of(step, "error");
        bool alike = !str_starts(said, STR("failed to create typed patch")) ||
                     str_eq(str_z(err->msg), said) || str_contains(said, STR("\n")) ||
                     str_contains(said, STR("expected ")) || said.n > 400;
        if (r == 0 || r == -ERR_CONFLICT || !alike)
            differs("failure", str_z(err->msg), said, h, step);
        return;
    }
    conflicts_seen++;
    if (r == -ERR_CONFLICT) {
        struct arena a = {0};
        sbuf_add(&got, managed_conflict_message(applied->conflicts, applied->conflicts_len, &a));
        arena_done(&a);
    }
    if (!str_eq(sbuf_str(&got), text_of(step, "error")))
        differs("conflicts", sbuf_str(&got), text_of(step, "error"), h, step);
}

static void check_step(struct history *h, const struct json_doc *doc, const yyjson_val *step)
{
    struct managed_applied applied = {0};
    struct err err = {0};
    struct sbuf out = {0};
    const yyjson_val *want = json_get(step, STR("result"));
    steps_seen++;
    int r = run_step(h, doc, step, &out, &applied, &err);
    sbuf_done(&applied.object);
    if (!want) {
        check_failure(h, step, r, &applied, &err);
        sbuf_done(&out);
        return;
    }
    cleanup_sbuf struct sbuf object = {0}, got = {0}, expected = {0};
    struct api_managed_fields_entry_array entries;
    canonical(h, doc, want, &object, &entries);
    if (r < 0) {
        differs("success", str_z(err.msg), STR(""), h, step);
    } else {
        // The UID is the row's own way to say that it exists.
        cleanup_json_doc struct json_doc mine = {0};
        struct sbuf with_uid = {0};
        struct api_object o;
        struct json_writer w = {.out = &with_uid};
        parse(sbuf_str(&out), &mine);
        assert_int_equal(api_decode_as(h->kind, &mine, mine.root, &h->arena, NULL, &o, NULL), 0);
        api_object_meta(&o)->uid = STR("uid");
        assert_int_equal(api_json_write(h->kind->type, o.value, &w, NULL), 0);
        if (!json_same(sbuf_str(&with_uid), sbuf_str(&object)))
            differs("object", sbuf_str(&with_uid), sbuf_str(&object), h, step);
        sbuf_done(&with_uid);
        show_entries(&applied.entries, &got);
        show_entries(&entries, &expected);
        if (!str_eq(sbuf_str(&got), sbuf_str(&expected)))
            differs("entries", sbuf_str(&got), sbuf_str(&expected), h, step);
    }
    sbuf_done(&out);
    sbuf_clear(&h->live);
    sbuf_add(&h->live, sbuf_str(&object));
    for (size_t i = 0; i < entries.n; i++)
        entries.p[i].time.at.sec = BEFORE_SEC;
    h->entries = entries;
    h->exists = true;
}

static void check_row(struct str row)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct history h = {0};
    parse(row, &doc);
    h.kind = api_kind_find(text_of(doc.root, "apiVersion"), text_of(doc.root, "kind"));
    assert_non_null(h.kind);
    assert_int_equal(managed_empty(h.kind, &h.arena, &h.live, NULL), 0);
    json_arr_foreach(json_get(doc.root, STR("steps")), step)
        check_step(&h, &doc, step);
    sbuf_done(&h.live);
    arena_done(&h.arena);
}

static void answers_as_upstream(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    const char *path = getenv("APPLY_ROWS"); // NOLINT(concurrency-mt-unsafe): one thread
    char sample[4096];
    (void)snprintf(sample, sizeof(sample), "%s/apply_rows.jsonl",
                   getenv("TEST_DATA")); // NOLINT(concurrency-mt-unsafe): one thread
    read_file(path ? path : sample, &text);
    for (struct str rest = sbuf_str(&text); rest.n;) {
        struct str row;
        str_cut(rest, '\n', &row, &rest);
        check_row(row);
    }
    (void)fprintf(stderr, "%zu steps, %zu conflicts, %zu differences\n", steps_seen, conflicts_seen,
                  differences);
    assert_int_equal(differences, 0);
    assert_true(steps_seen > 0 && conflicts_seen > 0);
}

RUN_TESTS(TEST_CASE(answers_as_upstream))
