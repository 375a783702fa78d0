// SPDX-License-Identifier: Apache-2.0
//
// Pod Security with the answers of Kubernetes' own packages (tests/oracle/podsec): every pod at
// both levels in every version, and the labels of namespaces.
#include <zlib.h>

#include "api/api.h"
#include "api/podsec.h"
#include "unit.h"

#include "base/banned.h"

// One more than the newest version, then latest: the versions of the rows.
#define VERSIONS (PODSEC_NEWEST + 3)

// How many rows differ before the test gives up; each is shown.
#define SHOWN 5

static size_t differences, judged, labelled;

struct row {
    struct str text;
    struct json_doc doc;
    struct arena arena;
};

static void differs(const struct row *r, const char *what, struct str want, struct str got)
{
    differences++;
    (void)fprintf(stderr, "%s:\nwant %.*s\ngot  %.*s\nrow  %.*s\n", what, STR_ARG(want),
                  STR_ARG(got), STR_ARG(r->text));
    if (differences >= SHOWN)
        fail_msg("too many differences");
}

static void check_level(struct row *r, const char *name, enum podsec_level level,
                        const struct api_pod *pod)
{
    const yyjson_val *verdicts = json_get(r->doc.root, str_z(name));
    const yyjson_val *v = NULL;
    size_t next = 0;
    for (int64_t minor = 0; minor < VERSIONS; minor++) {
        int64_t since = 0;
        if (next < json_len(verdicts) &&
            json_to_i64(json_at(json_at(verdicts, next), 0), &since, NULL) == 0 && since == minor)
            v = json_at(verdicts, next++);
        const struct podsec_standard s = {level, minor == VERSIONS - 1 ? PODSEC_LATEST : minor};
        struct podsec_verdict got = podsec_judge(&s, &pod->metadata, &pod->spec, &r->arena);
        struct str reasons = json_str(json_at(v, 1)), details = json_str(json_at(v, 2));
        judged++;
        assert_int_equal(got.allowed, got.reasons.n == 0);
        if (!str_eq(got.reasons, reasons))
            differs(r, name, reasons, got.reasons);
        if (!str_eq(got.details, details))
            differs(r, name, details, got.details);
    }
    assert_int_equal(next, json_len(verdicts));
}

static void check_pod(struct row *r, const yyjson_val *v)
{
    struct api_pod pod = {0};
    struct err err = {0};
    if (api_json_read(&api_pod_type, &r->doc, v, &pod, &r->arena, NULL, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(r->text));
    check_level(r, "baseline", PODSEC_BASELINE, &pod);
    check_level(r, "restricted", PODSEC_RESTRICTED, &pod);
    const struct podsec_standard privileged = podsec_unlabelled.enforce;
    assert_true(podsec_judge(&privileged, &pod.metadata, &pod.spec, &r->arena).allowed);
}

static void check_labels(struct row *r, const yyjson_val *set)
{
    struct api_str_map labels = {arena_array(&r->arena, struct api_str_entry, json_len(set) + 1),
                                 0};
    json_obj_foreach(set, key, val) // Go writes maps sorted by key
        labels.p[labels.n++] = (struct api_str_entry){json_str(key), json_str(val)};
    struct causes causes = {.arena = &r->arena};
    struct podsec_policy policy;
    podsec_policy_of(&labels, &podsec_unlabelled, &causes, &policy);
    const struct podsec_standard *modes[] = {&policy.enforce, &policy.audit, &policy.warn};
    for (size_t i = 0; i < array_len(modes); i++) {
        struct str want = json_str(json_at(json_get(r->doc.root, STR("policy")), i));
        struct str got = podsec_text(modes[i], &r->arena);
        if (!str_eq(want, got))
            differs(r, "policy", want, got);
    }
    const yyjson_val *errors = json_get(r->doc.root, STR("errors"));
    assert_int_equal(json_len(errors), causes.n);
    for (size_t i = 0; i < causes.n; i++) {
        struct str want = json_str(json_at(errors, i));
        struct str got = arena_strf(&r->arena, "%.*s: %.*s", STR_ARG(causes.p[i].field),
                                    STR_ARG(causes.p[i].message));
        if (!str_eq(want, got))
            differs(r, "error", want, got);
    }
    labelled++;
}

static void check_row(struct str text)
{
    struct row r = {.text = text};
    struct err err = {0};
    if (json_parse(text, NULL, &r.doc, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(text));
    const yyjson_val *pod = json_get(r.doc.root, STR("pod"));
    if (pod)
        check_pod(&r, pod);
    else
        check_labels(&r, json_get(r.doc.root, STR("labels")));
    json_doc_done(&r.doc);
    arena_done(&r.arena);
}

static void test_rows(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf path = {0}, line = {0};
    sbuf_addf(&path, "%s/podsec_rows.jsonl.gz", getenv("TEST_DATA"));
    gzFile f = gzopen(path.p, "re");
    assert_non_null(f);
    char piece[65536];
    while (gzgets(f, piece, sizeof(piece))) {
        sbuf_addz(&line, piece);
        if (line.p[line.n - 1] != '\n')
            continue;
        check_row(str_trim(sbuf_str(&line)));
        sbuf_clear(&line);
    }
    assert_int_equal(gzclose(f), Z_OK);
    assert_int_equal(differences, 0);
    assert_true(judged > 80000);
    assert_true(labelled > 500);
}

// --- Updates -------------------------------------------------------------------------------------

static struct api_pod read_pod(const char *json, struct arena *arena)
{
    struct json_doc doc = {0};
    struct api_pod pod = {0};
    assert_int_equal(json_parse(str_z(json), NULL, &doc, NULL), 0);
    assert_int_equal(api_json_read(&api_pod_type, &doc, doc.root, &pod, arena, NULL, NULL), 0);
    pod.metadata = (struct api_object_meta){0};
    struct api_pod copy = {0};
    api_copy(&api_pod_type, &pod, &copy, arena);
    json_doc_done(&doc);
    return copy;
}

#define POD(init, containers, debuggers)                                   \
    "{\"spec\":{\"initContainers\":[" init "],\"containers\":[" containers \
    "],\"ephemeralContainers\":[" debuggers "]}}"
#define A     "{\"name\":\"a\",\"image\":\"x\"}"
#define B     "{\"name\":\"b\",\"image\":\"x\"}"
#define OTHER "{\"name\":\"a\",\"image\":\"y\"}"
#define LESS  "{\"name\":\"a\",\"image\":\"x\",\"securityContext\":{\"privileged\":true}}"

static void test_updates(void **state)
{
    (void)state;
    static const struct {
        const char *old, *now;
        bool matters;
    } cases[] = {
        {POD("", A, ""), POD("", A, ""), false},
        {POD("", A, ""), POD("", OTHER, ""), true},
        {POD("", A, ""), POD("", LESS, ""), false}, // validation keeps that from changing
        {POD(A, A, ""), POD(OTHER, A, ""), true},
        {POD("", A, ""), POD(A, A, ""), true},
        {POD("", A, ""), POD("", A "," B, ""), true},
        {POD("", A, ""), POD("", A, A), true},
        {POD("", A, A), POD("", A, A), false},
        {POD("", A, A), POD("", A, OTHER), true},
        {POD("", A, A "," B), POD("", A, B "," A), false},
        {POD("", A, A), POD("", A, A "," B), true},
        {POD("", A, A), POD("", A, ""), false},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct arena arena = {0};
        struct api_pod old = read_pod(cases[i].old, &arena), now = read_pod(cases[i].now, &arena);
        assert_int_equal(podsec_update_matters(&now.spec, &old.spec), cases[i].matters);
        arena_done(&arena);
    }
}

static void test_standards(void **state)
{
    (void)state;
    struct podsec_standard s;
    struct err err = {0};
    assert_int_equal(podsec_standard_parse(STR("baseline"), &s, &err), 0);
    assert_true(s.level == PODSEC_BASELINE && s.minor == PODSEC_LATEST);
    assert_int_equal(podsec_standard_parse(STR("restricted:v1.25"), &s, &err), 0);
    assert_true(s.level == PODSEC_RESTRICTED && s.minor == 25);
    assert_true(podsec_standard_parse(STR("none"), &s, &err) < 0);
    assert_non_null(strstr(err.msg, "must be one of privileged, baseline, restricted"));
    assert_true(podsec_standard_parse(STR("baseline:"), &s, &err) < 0);
    assert_true(podsec_standard_parse(STR("baseline:v1.07"), &s, &err) < 0);
    assert_true(podsec_standard_parse(STR(""), &s, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_standards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
