// SPDX-License-Identifier: Apache-2.0
//
// include/dray/validate.h: the objects of a text through decoding, preparation and validation, each
// problem handed to the caller with its line.
#include <stdlib.h>

#include "api/cel_check.h"
#include "base/mem.h"
#include "dray/validate.h"
#include "embed/embed_int.h"
#include "embed/judge.h"

#include "base/banned.h"

struct dray_validator {
    struct features features;
    struct api_rules rules;
    struct api_cel_engine *engine;
};

int dray_validator_new(const struct dray_validate_options *options, struct dray_validator **ret,
                       struct dray_error *err)
{
    static const struct dray_validate_options defaults = {0};
    const struct dray_validate_options *o = options ? options : &defaults;
    struct dray_validator *v = xcalloc(1, sizeof(*v));
    struct err failure = {0};
    if (embed_text_features(o->release, o->feature_gates, &v->features, &failure) < 0) {
        free(v);
        return err_to_public(err, &failure);
    }
    v->engine = api_cel_engine_new();
    v->rules = (struct api_rules){.features = &v->features,
                                  .cel = api_cel_engine_rules(v->engine),
                                  .admin_namespace = !o->no_admin_access};
    *ret = v;
    return 0;
}

void dray_validator_free(struct dray_validator *v)
{
    if (v)
        api_cel_engine_free(v->engine);
    free(v);
}

// --- One object ----------------------------------------------------------------------------------

struct validating {
    const struct dray_validator *v;
    dray_problem_fn fn;
    void *arg;
    size_t problems;
    const struct json_doc *doc;
    const yyjson_val *object;
    struct arena arena; // of the object
};

static size_t embed_validate_line(const struct validating *x, struct str field)
{
    struct json_pos pos;
    const yyjson_val *at = json_at_path(x->object, field, NULL);
    return json_locate(x->doc, at ? at : x->object, &pos) ? pos.line : 0;
}

static const char *embed_validate_text(struct validating *x, struct str text)
{
    return arena_strf(&x->arena, "%.*s", STR_ARG(text)).p;
}

static void embed_validate_report(struct validating *x, struct str field, struct str reason,
                                  struct str message)
{
    x->problems++;
    if (!x->fn)
        return;
    const yyjson_val *meta = json_get(x->object, STR("metadata"));
    const struct dray_problem problem = {
        .line = embed_validate_line(x, field),
        .kind = embed_validate_text(x, embed_text_field(x->object, STR("kind"))),
        .name = meta ? embed_validate_text(x, embed_text_field(meta, STR("name"))) : "",
        .field = embed_validate_text(x, field),
        .reason = embed_validate_text(x, reason),
        .message = embed_validate_text(x, message),
    };
    x->fn(x->arg, &problem);
}

static void embed_validate_report_err(struct validating *x, const struct err *err)
{
    embed_validate_report(x, str_z(err->path), str_z(err_reason(err->code)), str_z(err->msg));
}

// Strict decoding reports `unknown field "spec.foo"`; the path goes where the others have theirs.
static void embed_validate_report_strict(struct validating *x, const struct json_strict *strict)
{
    for (size_t i = 0; i < strict->reports.n; i++) {
        struct str what, quoted = STR("");
        (void)str_cut(strict->reports.p[i], '"', &what, &quoted);
        embed_validate_report(x, quoted.n ? str_upto(quoted, quoted.n - 1) : quoted,
                              STR("BadRequest"), str_trim(what));
    }
}

static void embed_validate_decoded(struct validating *x, const struct api_object *decoded)
{
    const struct api_rules *rules = &x->v->rules;
    struct causes causes = {.arena = &x->arena};
    struct judged j;
    struct err err = {0};
    if (judge_decode(decoded, rules, &x->arena, &j, &err) < 0) {
        embed_validate_report_err(x, &err);
        return;
    }
    if (api_object_meta(&j.hub))
        (void)judge_name(&j, &x->arena);
    api_prepare(API_CREATE, &j.hub, NULL, rules, &x->arena);
    api_validate(API_CREATE, &j.hub, NULL, j.version, rules, &causes);
    for (size_t i = 0; i < causes.n; i++)
        embed_validate_report(x, causes.p[i].field, str_z(cause_reason(causes.p[i].type)),
                              causes.p[i].message);
}

static int embed_validate_object(void *arg, const struct json_doc *doc, const yyjson_val *object,
                                 struct err *unused)
{
    (void)unused; // an object that cannot be decoded is a problem of its own
    struct validating *x = arg;
    cleanup_json_strict struct json_strict strict = {0};
    struct api_object decoded;
    struct err err = {0};
    x->doc = doc;
    x->object = object;
    if (api_decode(doc, object, &x->arena, &strict, &decoded, &err) < 0) {
        embed_validate_report_err(x, &err);
    } else {
        embed_validate_report_strict(x, &strict);
        embed_validate_decoded(x, &decoded);
    }
    arena_done(&x->arena);
    x->arena = (struct arena){0};
    return 0;
}

int dray_validate(struct dray_validator *v, const char *text, size_t len, dray_problem_fn fn,
                  void *arg, struct dray_error *err)
{
    struct validating x = {.v = v, .fn = fn, .arg = arg};
    struct err failure = {0};
    if (embed_text_foreach(str_make(text, len), embed_validate_object, &x, &failure) < 0)
        return err_to_public(err, &failure);
    return x.problems ? 1 : 0;
}
