// SPDX-License-Identifier: Apache-2.0
//
// Running objects through preparation and validation as the server does, for tests. Objects are
// written as JSON with ' in place of ".
#ifndef UNIT_VALIDATE_CASES_H
#define UNIT_VALIDATE_CASES_H

#include "api/validate.h"
#include "base/mem.h"
#include "unit.h"

// One case. want: one line a cause, "Reason field: message", where the message may be left out and
// Reason lacks "FieldValue"; empty when the object is to be accepted.
struct row {
    const char *title;
    const char *version; // of resource.k8s.io unless it has a '/' or is core's v1 (written "core")
    const char *kind;
    enum api_op op;
    const char *gates; // "A=true,B=false" on top of 1.37's
    const char *object;
    const char *old;
    const char *want;
};

struct run {
    struct arena arena;
    struct features features;
    struct api_rules rules;
    struct api_object object, old; // in the hub version
    const struct api_kind *kind;
    struct causes causes;
};

// Whether a text begins as wanted; a ' in want stands for either quote.
static inline bool begins(struct str have, struct str want)
{
    if (have.n < want.n)
        return false;
    for (size_t i = 0; i < want.n; i++)
        if (have.p[i] != want.p[i] && !(want.p[i] == '\'' && have.p[i] == '"'))
            return false;
    return true;
}

static inline void run_decode(struct run *r, const char *text, struct api_object *ret)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    struct api_object decoded;
    struct api_default_options options = {.now = r->rules.now};
    size_t n = strlen(text);
    char *copy = arena_alloc(&r->arena, n + 1, 1);
    for (size_t i = 0; i < n; i++)
        copy[i] = text[i] == '\'' ? '"' : text[i];
    if (json_parse(str_make(copy, n), NULL, &doc, &err) < 0 ||
        api_decode_as(r->kind, &doc, doc.root, &r->arena, NULL, &decoded, &err) < 0)
        fail_msg("%s: %s in %s", err.path, err.msg, copy);
    api_default(r->kind->type, decoded.value, &options, &r->arena);
    assert_int_equal(api_convert(&decoded, api_hub_kind(r->kind), &r->arena, ret, &err), 0);
}

// run_start sets up the world for a kind; features may be changed before run_go.
static inline void run_start(struct run *r, const char *version, const char *kind,
                             const char *gates)
{
    struct err err = {0};
    *r = (struct run){0};
    features_init(&r->features, FEATURES_MINOR);
    if (gates && features_parse(&r->features, str_z(gates), &err) < 0)
        fail_msg("%s", err.msg);
    r->rules = (struct api_rules){.features = &r->features, .admin_namespace = true};
    struct str api_version = strcmp(version, "core") == 0 ? STR("v1")
                             : strchr(version, '/')
                                 ? str_z(version)
                                 : arena_strf(&r->arena, "resource.k8s.io/%s", version);
    r->kind = api_kind_find(api_version, str_z(kind));
    assert_non_null(r->kind);
    r->causes.arena = &r->arena;
}

static inline void run_go(struct run *r, enum api_op op, const char *object, const char *old)
{
    run_decode(r, object, &r->object);
    if (old)
        run_decode(r, old, &r->old);
    const struct api_object *before = op == API_CREATE ? NULL : &r->old;
    api_prepare(op, &r->object, before, &r->rules, &r->arena);
    api_validate(op, &r->object, before, r->kind, &r->rules, &r->causes);
}

// run_object is the JSON of the prepared object in the version of the request.
static inline struct str run_object(struct run *r)
{
    struct sbuf b = {0};
    struct json_writer w = {.out = &b};
    struct api_object o;
    assert_int_equal(api_convert(&r->object, r->kind, &r->arena, &o, NULL), 0);
    assert_int_equal(api_json_write(r->kind->type, o.value, &w, NULL), 0);
    struct str text = arena_str(&r->arena, sbuf_str(&b));
    sbuf_done(&b);
    return text;
}

static inline bool cause_is(const struct cause *c, struct str want)
{
    struct str reason, rest, field, message;
    str_cut(want, ' ', &reason, &rest);
    bool with_message = str_contains(rest, STR(": "));
    ptrdiff_t at = with_message ? str_find(rest, STR(": ")) : (ptrdiff_t)rest.n;
    field = str_upto(rest, (size_t)at);
    message = with_message ? str_from(rest, (size_t)at + 2) : STR("");
    struct str have = str_z(cause_reason(c->type));
    if (str_starts(have, STR("FieldValue")))
        have = str_from(have, 10);
    return str_eq(have, reason) && str_eq(c->field, field) && begins(c->message, message);
}

// run_expect compares causes with lines, in order.
static inline void run_expect(struct run *r, const char *title, const char *want)
{
    struct str rest = str_z(want), line;
    size_t n = 0;
    bool good = true;
    while (rest.n) {
        str_cut(rest, '\n', &line, &rest);
        good = good && n < r->causes.n && cause_is(&r->causes.p[n], line);
        n++;
    }
    if (good && n == r->causes.n)
        return;
    print_message("%s: want\n%s\ngot\n", title, want);
    for (size_t i = 0; i < r->causes.n; i++)
        print_message("%s %.*s: %.*s\n", cause_reason(r->causes.p[i].type),
                      STR_ARG(r->causes.p[i].field), STR_ARG(r->causes.p[i].message));
    fail_msg("%s: causes differ", title);
}

static inline void run_row(const struct row *row)
{
    struct run r;
    run_start(&r, row->version, row->kind, row->gates);
    run_go(&r, row->op, row->object, row->old);
    run_expect(&r, row->title, row->want);
    arena_done(&r.arena);
}

#define run_rows(rows)                               \
    do {                                             \
        for (size_t i = 0; i < array_len(rows); i++) \
            run_row(&(rows)[i]);                     \
    } while (0)

#endif
