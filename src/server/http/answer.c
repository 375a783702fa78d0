// SPDX-License-Identifier: Apache-2.0
//
// Answers: bytes, objects, Statuses. Each of them ends its exchange.
#include <assert.h>
#include <stdlib.h>

#include "api/status.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"
#include "server/audit/trail.h"
#include "server/flow/flow.h"
#include "server/http/server_int.h"

#include "base/banned.h"

static const struct str type_json = STR_INIT("application/json");
static const struct str type_yaml = STR_INIT("application/yaml");
static const struct str type_proto = STR_INIT("application/vnd.kubernetes.protobuf");

void exchange_end(struct exchange *ex, int code)
{
    struct server *s = ex->s;
    const struct route *r = &ex->route;
    audit_end(ex, code);
    metrics_count(&s->metrics, r->resource ? r->resource->kind : NULL,
                  r->sub ? r->sub->name : STR(""), ex->verb, code,
                  exec_now_ns(s->exec) - ex->started_ns);
    exec_timer_stop(s->exec, &ex->timer);
    flow_release(ex);
    list_remove(&ex->node);
    if (s->exchanges.spare_len == SERVER_SPARE_EXCHANGES) {
        arena_done(&ex->arena);
        free(ex);
        return;
    }
    arena_reset(&ex->arena);
    list_push_back(&s->exchanges.spare, &ex->node);
    s->exchanges.spare_len++;
}

// --- Headers -------------------------------------------------------------------------------------

// Upstream's bounds on warnings, in characters.
#define WARNINGS_RUNES_MAX ((size_t)4096)
#define WARNING_RUNES_MAX  ((size_t)256)

// And one of ours: Python's HTTP client takes no answer with over 100 headers.
#define WARNINGS_MAX ((size_t)64)

static bool starts_rune(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t count_runes(struct str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += starts_rune(text.p[i]);
    return n;
}

static struct str cut_runes(struct str text, size_t most)
{
    size_t i = 0, n = 0;
    for (; i < text.n; i++) {
        n += starts_rune(text.p[i]);
        if (n > most)
            break;
    }
    return str_upto(text, i);
}

void exchange_warn(struct exchange *ex, struct str text)
{
    if (ex->warnings.runes > WARNINGS_RUNES_MAX && ex->warnings.runes_cut >= WARNINGS_RUNES_MAX)
        return;
    if (text.n == 0 || ex->warnings.texts.n == WARNINGS_MAX ||
        str_listed(ex->warnings.texts.p, ex->warnings.texts.n, text))
        return;
    size_t runes = count_runes(text);
    ex->warnings.runes += runes;
    ex->warnings.runes_cut += runes < WARNING_RUNES_MAX ? runes : WARNING_RUNES_MAX;
    vec_push_arena(&ex->arena, &ex->warnings.texts, arena_str(&ex->arena, text));
}

// warning_header makes one header: 299 - "text", with quotes and backslashes escaped.
static struct http_header warning_header(struct exchange *ex, struct str text)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add(&b, STR("299 - \""));
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '"' || c == '\\')
            sbuf_addc(&b, '\\');
        sbuf_addc(&b, (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c);
    }
    sbuf_addc(&b, '"');
    return (struct http_header){STR("warning"), arena_str(&ex->arena, sbuf_str(&b))};
}

struct header_list {
    struct http_header few[4];
    struct http_header *p;
    size_t n;
};

// answer_make_headers lists those of every answer, with room for one more.
static void answer_make_headers(struct exchange *ex, struct header_list *list)
{
    bool cut = ex->warnings.runes > WARNINGS_RUNES_MAX;
    list->p = ex->warnings.texts.n ? arena_array(&ex->arena, struct http_header,
                                                 ex->warnings.texts.n + array_len(list->few))
                                   : list->few;
    list->n = 0;
    list->p[list->n++] = (struct http_header){STR("cache-control"), STR("no-cache, private")};
    list->p[list->n++] = (struct http_header){STR("audit-id"), ex->audit.id};
    vec_foreach(&ex->warnings.texts, text)
        list->p[list->n++] = warning_header(ex, cut ? cut_runes(*text, WARNING_RUNES_MAX) : *text);
}

// answer_detach_request takes the request out of the exchange: what happens to its bytes from here
// on is HTTP's.
static struct http_request *answer_detach_request(struct exchange *ex)
{
    struct http_request *q = ex->q;
    ex->q = NULL;
    if (q) {
        q->closed = NULL;
        q->drained = NULL;
    }
    return q;
}

static void answer_send_reply(struct exchange *ex, int code, struct str content_type,
                              const struct http_header *headers, size_t headers_len,
                              struct net_buf *body)
{
    struct http_request *q = answer_detach_request(ex);
    if (q)
        http_reply(q, code, content_type, headers, headers_len, body);
    else
        net_buf_unref(body);
    exchange_end(ex, code);
}

void answer_buf(struct exchange *ex, int code, struct str content_type, struct net_buf *body)
{
    struct header_list headers;
    answer_make_headers(ex, &headers);
    answer_send_reply(ex, code, content_type, headers.p, headers.n, body);
}

void answer_bytes(struct exchange *ex, int code, struct str content_type, struct sbuf *b)
{
    answer_buf(ex, code, content_type, net_buf_new(b));
}

void answer_start(struct exchange *ex, int code, struct str content_type)
{
    struct header_list headers;
    answer_make_headers(ex, &headers);
    audit_started(ex, code);
    if (ex->q)
        http_start(ex->q, code, content_type, headers.p, headers.n);
}

// answer_convert_body turns JSON into YAML or indents it. False: it stays as it is.
static bool answer_convert_body(const struct form *f, struct str json, struct sbuf *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    if (json_parse(json, &options, &doc, NULL) < 0)
        return false;
    if (f->media == MEDIA_YAML) {
        yaml_write(doc.root, true, out);
    } else {
        struct json_writer w = {.out = out, .indent = 2};
        json_write_value(&w, doc.root);
    }
    return true;
}

// envelope_json puts an object that was written as JSON into protobuf. False: it is of no kind.
static bool envelope_json(struct exchange *ex, struct str json, struct sbuf *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o = {0};
    if (json_parse(json, NULL, &doc, NULL) < 0 ||
        api_decode(&doc, doc.root, &ex->arena, NULL, &o, NULL) < 0)
        return false;
    api_envelope_write(&o, out);
    return true;
}

void answer_json(struct exchange *ex, int code, struct sbuf *json)
{
    struct sbuf envelope = {0};
    audit_response_body(ex, sbuf_str(json));
    if (ex->form.media == MEDIA_PROTOBUF && envelope_json(ex, sbuf_str(json), &envelope)) {
        sbuf_done(json);
        answer_bytes(ex, code, type_proto, &envelope);
        return;
    }
    bool yaml = ex->form.media == MEDIA_YAML;
    if (yaml || ex->form.pretty) {
        struct sbuf text = {0};
        if (answer_convert_body(&ex->form, sbuf_str(json), &text)) {
            sbuf_done(json);
            answer_bytes(ex, code, yaml ? type_yaml : type_json, &text);
            return;
        }
        sbuf_done(&text);
    }
    answer_bytes(ex, code, type_json, json);
}

struct encode_how exchange_how(const struct exchange *ex)
{
    return (struct encode_how){.as = ex->route.sub ? ex->route.sub->kind : ex->route.resource->kind,
                               .form = ex->form.as,
                               .v1beta1 = ex->form.v1beta1,
                               .protobuf = ex->form.media == MEDIA_PROTOBUF,
                               .include = ex->include,
                               .now_ns = exec_wall_ns(ex->s->exec)};
}

static void answer_scale(struct exchange *ex, int code, const struct object *o)
{
    struct api_scale scale = {0};
    struct err err = {0};
    struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    int r = registry_scale(o, &ex->arena, &scale, &err);
    if (r == 0) {
        struct api_object typed = {ex->route.sub->kind, &scale};
        api_set_type_meta(&typed);
        r = api_json_write(&api_scale_type, &scale, &w, &err);
    }
    if (r == 0) {
        answer_json(ex, code, &json);
        return;
    }
    sbuf_done(&json);
    answer_error(ex, &err);
}

void answer_object(struct exchange *ex, int code, const struct object *o)
{
    if (ex->route.sub && str_eq(ex->route.sub->name, STR("scale"))) {
        answer_scale(ex, code, o);
        return;
    }
    struct encode_how how = exchange_how(ex);
    // An object that answers for a subresource of another kind (a pod for its binding) is shown as
    // what it is.
    if (!str_eq(how.as->kind, o->kind->kind))
        how.as = ex->route.resource->kind;
    audit_response_object(ex, o, how.as);
    bool plain = ex->form.media == MEDIA_JSON && !ex->form.pretty;
    if (plain && how.form == FORM_OBJECT && how.as == o->kind) {
        answer_buf(ex, code, type_json, encode_object_buf(o));
        return;
    }
    struct sbuf json = {0};
    struct err err = {0};
    if (encode_object(o, &how, 0, &json, &err) < 0) {
        sbuf_done(&json);
        answer_error(ex, &err);
        return;
    }
    if (how.protobuf)
        answer_bytes(ex, code, type_proto, &json);
    else
        answer_json(ex, code, &json);
}

// --- Statuses ------------------------------------------------------------------------------------

static void status_json(const struct api_status *status, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    struct err err = {0};
    int r = api_json_write(&api_status_type, status, &w, &err);
    assert(r == 0);
}

// The reasons of what HTTP refuses, as clients' libraries name them by code.
static const char *answer_refusal_reason(int status)
{
    switch (status) {
    case 400:
    case 414:
    case 417:
    case 431:
        return "BadRequest";
    case 408:
        return "Timeout";
    case 413:
        return "RequestEntityTooLarge";
    case 429:
        return "TooManyRequests";
    case 503:
        return "ServiceUnavailable";
    default:
        return "";
    }
}

struct str server_refusal(void *door, int status, const char *why, struct sbuf *body)
{
    (void)door;
    struct api_status_details details = {.retry_after_seconds = 1};
    const struct api_status s = {.kind = STR("Status"),
                                 .api_version = STR("v1"),
                                 .status = STR("Failure"),
                                 .message = str_z(why),
                                 .reason = str_z(answer_refusal_reason(status)),
                                 .details = status == 503 ? &details : NULL,
                                 .code = status};
    status_json(&s, body);
    return type_json;
}

void answer_status(struct exchange *ex, const struct api_status *status)
{
    struct api_status s = *status;
    s.kind = STR("Status");
    s.api_version = STR("v1");
    audit_response_status(ex, &s);
    int code = s.code ? s.code : str_eq(s.status, STR("Success")) ? 200 : 500;
    struct sbuf json = {0};
    bool yaml = ex->form.media == MEDIA_YAML, protobuf = ex->form.media == MEDIA_PROTOBUF;
    if (protobuf)
        encode_proto_status(&s, &json);
    else
        status_json(&s, &json);
    if (!protobuf && (yaml || ex->form.pretty)) {
        struct sbuf text = {0};
        if (answer_convert_body(&ex->form, sbuf_str(&json), &text)) {
            sbuf_done(&json);
            json = text;
        } else {
            sbuf_done(&text);
        }
    }
    struct header_list headers;
    answer_make_headers(ex, &headers);
    if (s.details && s.details->retry_after_seconds > 0)
        headers.p[headers.n++] = (struct http_header){
            STR("retry-after"), arena_strf(&ex->arena, "%d", s.details->retry_after_seconds)};
    answer_send_reply(ex, code,
                      protobuf ? type_proto
                      : yaml   ? type_yaml
                               : type_json,
                      headers.p, headers.n, net_buf_new(&json));
}

void answer_fail(struct exchange *ex, int code, const char *reason, struct str message,
                 struct api_status_details *details)
{
    struct api_status status = {.status = STR("Failure"),
                                .message = message,
                                .reason = str_z(reason),
                                .details = details,
                                .code = code};
    answer_status(ex, &status);
}

static struct status_subject answer_subject_of(const struct exchange *ex)
{
    const struct catalog_resource *r = ex->route.resource;
    if (!r)
        return (struct status_subject){0};
    return (struct status_subject){r->kind->group, r->kind->plural, ex->route.name};
}

void answer_error(struct exchange *ex, const struct err *err)
{
    struct status_subject subject = answer_subject_of(ex);
    answer_status(ex, api_status_of(&ex->arena, &subject, err));
}

void answer_invalid(struct exchange *ex, struct str kind, const struct causes *causes)
{
    struct status_subject subject = {STR("meta.k8s.io"), kind, STR("")};
    answer_status(ex, api_status_invalid(&ex->arena, &subject, causes));
}

void answer_not_found(struct exchange *ex)
{
    struct status_subject subject = answer_subject_of(ex);
    answer_status(ex, api_status_not_found(&ex->arena, &subject));
}

void answer_too_large_revision(struct exchange *ex, uint64_t wanted)
{
    answer_status(ex, api_status_resource_version_too_large(&ex->arena, wanted,
                                                            store_revision(ex->s->store), 1));
}
