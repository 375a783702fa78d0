// SPDX-License-Identifier: Apache-2.0
//
// dray validate --jsonl: cases from standard input, one JSON object a line, and an answer to each.
//
//     {"name", "kind", "apiVersion", "op", "features", "emulationVersion", "old", "new"}
//     -> {"name", "causes": [{"reason", "field", "message"}], "object"}
//
// object is there when the server would take it: the object after defaulting and preparation. A
// line that cannot be understood is answered with a cause of reason BadRequest.
//
// Causes with "unprepared": true are no answer of the server's. They tell what metadata rules and
// declarative rules say of the object as it was sent, in places that defaults, dropped fields or
// reset ones keep the server from seeing; docs/reference/validation.md has the reason.
// --server-only leaves them out.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/cel_check.h"
#include "base/limits.h"
#include "base/vec.h"
#include "cmd/tools/validate.h"
#include "cmd/verb.h"
#include "codec/json_writer.h"

#include "base/banned.h"

struct test_case {
    bool server_only;
    struct sbuf text; // of the case, compact
    struct json_doc doc;
    struct arena arena;
    struct str name;
    const struct api_kind *kind;
    enum api_op op;
    struct features features;
    const struct api_cel *cel;
};

static void case_done(struct test_case *c)
{
    json_doc_done(&c->doc);
    sbuf_done(&c->text);
    arena_done(&c->arena);
}
#define cleanup_case cleanup_with(case_done)

// --- Reading -------------------------------------------------------------------------------------

// Gates that are not named have the defaults of the release: 1.37 unless another one is emulated.
static int read_features(struct test_case *c, struct err *err)
{
    struct str version = json_get_str(c->doc.root, "emulationVersion");
    const yyjson_val *gates = json_get(c->doc.root, STR("features"));
    uint32_t minor = FEATURES_MINOR;
    int r = version.n ? features_parse_version(version, &minor, err) : 0;
    if (r < 0)
        return r;
    features_init(&c->features, minor);
    if (!gates || json_is_null(gates))
        return 0;
    if (!json_is_object(gates))
        return err_set(err, ERR_BAD_REQUEST, "features: want an object of gates");
    json_obj_foreach(gates, key, value) {
        enum feature which = feature_find(json_str(key));
        if (which == FEATURE_NONE)
            continue; // a gate that changes nothing here
        r = json_to_bool(value, &c->features.on[which], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_op(struct test_case *c, struct err *err)
{
    struct str op = json_get_str(c->doc.root, "op");
    if (str_eqz(op, "create"))
        c->op = API_CREATE;
    else if (str_eqz(op, "update"))
        c->op = API_UPDATE;
    else if (str_eqz(op, "statusUpdate"))
        c->op = API_STATUS_UPDATE;
    else
        return err_set(err, ERR_BAD_REQUEST, "op \"%.*s\": want create, update or statusUpdate",
                       STR_ARG(op));
    return 0;
}

static int read_case(struct test_case *c, struct str line, struct err *err)
{
    struct json_options options = {DRAY_FILE_BYTES_MAX, JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc loose = {0};
    int r = json_parse(line, &options, &loose, err);
    if (r < 0)
        return r;
    // Some limits count the bytes of embedded JSON; white space in a case is not part of it.
    struct json_writer w = {.out = &c->text};
    json_write_value(&w, loose.root);
    r = json_parse(sbuf_str(&c->text), &options, &c->doc, err);
    if (r < 0)
        return r;
    if (!json_is_object(c->doc.root))
        return err_set(err, ERR_BAD_REQUEST, "want a JSON object");
    c->name = json_get_str(c->doc.root, "name");
    struct str kind = json_get_str(c->doc.root, "kind"),
               version = json_get_str(c->doc.root, "apiVersion");
    c->kind = api_kind_find(version, kind);
    if (!c->kind)
        return err_set(err, ERR_BAD_REQUEST, "no kind \"%.*s\" in version \"%.*s\"", STR_ARG(kind),
                       STR_ARG(version));
    r = read_op(c, err);
    return r < 0 ? r : read_features(c, err);
}

// Decodes "old" or "new" and converts it to the hub version, with or without defaults.
static int validate_jsonl_read_object(struct test_case *c, const char *key,
                                      const struct api_rules *rules, struct judged *ret,
                                      struct err *err)
{
    const yyjson_val *v = json_get(c->doc.root, str_z(key));
    struct api_object decoded;
    if (!v || !json_is_object(v))
        return err_set(err, ERR_BAD_REQUEST, "want an object \"%s\"", key);
    int r = api_decode_as(c->kind, &c->doc, v, &c->arena, NULL, &decoded, err);
    if (r < 0)
        return r;
    if (rules)
        return judge_decode(&decoded, rules, &c->arena, ret, err);
    ret->version = c->kind;
    return api_convert(&decoded, api_hub_kind(c->kind), &c->arena, &ret->hub, err);
}

// --- Answering -----------------------------------------------------------------------------------

static void write_cause(struct json_writer *w, struct str reason, struct str field,
                        struct str message, bool unprepared)
{
    json_write_object_begin(w);
    json_write_key(w, STR("reason"));
    json_write_str(w, reason);
    json_write_key(w, STR("field"));
    json_write_str(w, field);
    json_write_key(w, STR("message"));
    json_write_str(w, message);
    if (unprepared) {
        json_write_key(w, STR("unprepared"));
        json_write_bool(w, true);
    }
    json_write_object_end(w);
}

static void write_causes(struct json_writer *w, const struct causes *causes, bool unprepared)
{
    for (size_t i = 0; i < causes->n; i++)
        write_cause(w, str_z(cause_reason(causes->p[i].type)), causes->p[i].field,
                    causes->p[i].message, unprepared);
}

static int validate_jsonl_write_object(struct test_case *c, const struct api_object *hub,
                                       struct json_writer *w, struct err *err)
{
    struct api_object o;
    int r = api_convert(hub, c->kind, &c->arena, &o, err);
    if (r < 0)
        return r;
    api_set_type_meta(&o);
    json_write_key(w, STR("object"));
    return api_json_write(c->kind->type, o.value, w, err);
}

// Whether a cause found in the object as it was sent is one to report. That a closed field
// is set is not: such a field is dropped, and that is all.
static bool worth_telling(const struct cause *cause)
{
    bool general = str_starts(cause->field, STR("metadata.")) ||
                   str_starts(cause->field, STR("status.conditions"));
    bool of_rule = cause->declared || (cause->covered && cause->origin);
    return general || (of_rule && cause->type != CAUSE_FORBIDDEN);
}

// How often the first n causes say the same of the same field.
static size_t count_like(const struct causes *causes, size_t n, const struct cause *like)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += causes->p[i].type == like->type && str_eq(causes->p[i].field, like->field);
    return count;
}

static void add_unprepared(const struct test_case *c, enum api_op op, const struct judged *object,
                           const struct judged *old, const struct api_rules *rules,
                           const struct causes *told, struct causes *ret)
{
    struct causes found = {.arena = ret->arena};
    api_validate(op, &object->hub, c->op == API_CREATE ? NULL : &old->hub, c->kind, rules, &found);
    for (size_t i = 0; i < found.n; i++) {
        const struct cause *cause = &found.p[i];
        size_t have = count_like(told, told->n, cause) + count_like(ret, ret->n, cause);
        if (worth_telling(cause) && count_like(&found, i + 1, cause) > have)
            vec_push_arena(ret->arena, ret, *cause);
    }
}

// What the rules say of the object as it was sent.
static int find_unprepared(struct test_case *c, const struct api_rules *rules,
                           const struct causes *told, struct causes *ret, struct err *err)
{
    struct judged object, old = {0};
    if (c->server_only || !features_on(rules->features, FEATURE_DECLARATIVE_VALIDATION_BETA))
        return 0;
    int r = validate_jsonl_read_object(c, "new", NULL, &object, err);
    if (r == 0 && c->op != API_CREATE)
        r = validate_jsonl_read_object(c, "old", NULL, &old, err);
    if (r < 0)
        return r;
    add_unprepared(c, c->op, &object, &old, rules, told, ret);
    if (c->op == API_UPDATE && c->kind->subresources)
        add_unprepared(c, API_STATUS_UPDATE, &object, &old, rules, told, ret);
    return 0;
}

static int validate_jsonl_check_case(struct test_case *c, struct json_writer *w, struct err *err)
{
    struct api_rules rules = {.features = &c->features, .cel = c->cel, .admin_namespace = true};
    struct causes causes = {.arena = &c->arena}, unprepared = {.arena = &c->arena};
    struct judged object, old = {0};
    int r = validate_jsonl_read_object(c, "new", &rules, &object, err);
    if (r == 0 && c->op != API_CREATE)
        r = validate_jsonl_read_object(c, "old", &rules, &old, err);
    if (r < 0)
        return r;
    const struct api_object *before = c->op == API_CREATE ? NULL : &old.hub;
    struct api_object_meta *meta = api_object_meta(&object.hub);
    struct str name = meta && !before ? judge_name(&object, &c->arena) : STR("");
    api_prepare(c->op, &object.hub, before, &rules, &c->arena);
    api_validate(c->op, &object.hub, before, c->kind, &rules, &causes);
    r = find_unprepared(c, &rules, &causes, &unprepared, err);
    if (r < 0)
        return r;
    if (meta && !before)
        meta->name = name;
    json_write_key(w, STR("causes"));
    json_write_array_begin(w);
    write_causes(w, &causes, false);
    write_causes(w, &unprepared, true);
    json_write_array_end(w);
    return causes.n ? 0 : validate_jsonl_write_object(c, &object.hub, w, err);
}

static void write_name(const struct test_case *c, struct json_writer *w)
{
    json_write_object_begin(w);
    json_write_key(w, STR("name"));
    json_write_str(w, c->name);
}

static void validate_jsonl_answer_line(struct str line, bool server_only, const struct api_cel *cel,
                                       struct sbuf *out)
{
    cleanup_case struct test_case c = {.server_only = server_only, .cel = cel};
    struct err err = {0};
    struct json_writer w = {.out = out};
    int r = read_case(&c, line, &err);
    if (r == 0) {
        write_name(&c, &w);
        r = validate_jsonl_check_case(&c, &w, &err);
    }
    if (r < 0) {
        char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX + 64];
        err_text(&err, text, sizeof(text));
        sbuf_clear(out);
        w = (struct json_writer){.out = out};
        write_name(&c, &w);
        json_write_key(&w, STR("causes"));
        json_write_array_begin(&w);
        write_cause(&w, STR("BadRequest"), str_z(err.path), str_z(text), false);
        json_write_array_end(&w);
    }
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}

int validate_jsonl(bool server_only)
{
    char *line = NULL;
    size_t cap = 0;
    cleanup_sbuf struct sbuf out = {0};
    struct api_cel_engine *engine = api_cel_engine_new();
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        struct str text = str_trim(str_make(line, (size_t)n));
        if (text.n == 0)
            continue;
        sbuf_clear(&out);
        validate_jsonl_answer_line(text, server_only, api_cel_engine_rules(engine), &out);
        if (fwrite(out.p, 1, out.n, stdout) != out.n)
            break;
    }
    free(line);
    api_cel_engine_free(engine);
    if (ferror(stdin) || fflush(stdout) != 0)
        (void)fprintf(stderr, "dray validate: cannot go on: input or output failed\n");
    return VERB_OK;
}
