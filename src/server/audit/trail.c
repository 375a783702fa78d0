// SPDX-License-Identifier: Apache-2.0
//
// The trail of a request through the server, and its events. Events are written to text here, on
// the API's thread; files are the business of audit_log.c.
#include "server/audit/trail.h"

#include <stdlib.h>

#include "base/ip.h"
#include "base/uuid.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "codec/yaml.h"
#include "net/address.h"
#include "os/file.h"
#include "server/audit/audit_event.h"
#include "server/audit/audit_log.h"
#include "server/audit/audit_policy.h"
#include "server/auth/access.h"
#include "server/http/server_int.h"

#include "base/banned.h"

#define POLICY_BYTES_MAX   ((size_t)1024 * 1024)
#define SIZE_DEFAULT_MB    100
#define USER_AGENT_MAX     1024
#define AUDIT_ID_BYTES_MAX 256
// What a client can make long is cut, so that no request crowds the events of others out of the
// queue: a text, the causes of a refusal together, a body.
#define TRAIL_TEXT_MAX 4096
#define TRAIL_BODY_MAX ((size_t)4 * 1024 * 1024)
#define SOURCES_MAX    32
#define NAME_BYTES_MAX 253 // no stored object has a longer one

struct audit {
    struct audit_policy policy;
    struct audit_log *log;
    uint64_t levels[AUDIT_LEVELS]; // requests by level
};

// --- Start and stop ------------------------------------------------------------------------------

int audit_new(const struct audit_options *options, struct audit **ret, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    struct audit *a = xcalloc(1, sizeof(*a));
    int r = file_read(options->policy_file, POLICY_BYTES_MAX, &text, err);
    if (r == 0)
        r = audit_policy_parse(sbuf_str(&text), &a->policy, err);
    if (r < 0) {
        char why[DRAY_ERR_MSG_MAX];
        err_text(err, why, sizeof(why));
        r = err_set(err, -r, "cannot read the audit policy %s: %s", options->policy_file, why);
        audit_free(a);
        return r;
    }
    int64_t size_mb = options->max_size_mb > 0 ? options->max_size_mb : SIZE_DEFAULT_MB;
    const struct audit_log_options log = {.path = options->log_path,
                                          .max_age_days = options->max_age_days,
                                          .max_backups = options->max_backups,
                                          .max_bytes = (uint64_t)size_mb * 1024 * 1024};
    r = audit_log_open(&log, &a->log, err);
    if (r < 0) {
        audit_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    audit_log_close(a->log);
    audit_policy_done(&a->policy);
    free(a);
}

void audit_write_metrics(struct audit *a, struct sbuf *out)
{
    if (!a)
        return;
    struct audit_log_stats stats = audit_log_get_stats(a->log);
    unsigned long long lost = stats.failed + stats.dropped;
    metrics_counter(out, "apiserver_audit_event_total", "Audit events written.", stats.written);
    sbuf_addf(out,
              "# HELP apiserver_audit_error_total Audit events that were lost.\n"
              "# TYPE apiserver_audit_error_total counter\n"
              "apiserver_audit_error_total{plugin=\"log\"} %llu\n",
              lost);
    metrics_counter(out, "dray_audit_dropped_total",
                    "Audit events dropped because too many waited for the disk.", stats.dropped);
    sbuf_addz(out, "# HELP apiserver_audit_level_total Requests by audit level.\n"
                   "# TYPE apiserver_audit_level_total counter\n");
    for (size_t i = 0; i < AUDIT_LEVELS; i++)
        sbuf_addf(out, "apiserver_audit_level_total{level=\"%s\"} %llu\n",
                  audit_level_name((enum audit_level)i), (unsigned long long)a->levels[i]);
}

// --- Identity ------------------------------------------------------------------------------------

void audit_identify(struct exchange *ex)
{
    struct str given = http_find_header(ex->q, STR("audit-id"));
    if (given.n && given.n <= AUDIT_ID_BYTES_MAX) {
        ex->audit.id = arena_str(&ex->arena, given);
        return;
    }
    char *text = arena_alloc(&ex->arena, UUID_TEXT_LEN + 1, 1);
    struct uuid uuid = uuid_random(ex->s->exec->rng);
    uuid_write(&uuid, text);
    ex->audit.id = str_make(text, UUID_TEXT_LEN);
}

static bool trail_lists_source(const struct audit_trail *t, struct str ip)
{
    for (size_t i = 0; i < t->sources.n; i++)
        if (address_same(t->sources.p[i], ip))
            return true;
    return false;
}

// As upstream: what proxies say, then the peer, unless that was the last of them.
static void trail_find_sources(struct exchange *ex, struct audit_trail *t)
{
    struct str forwarded = http_find_header(ex->q, STR("x-forwarded-for"));
    struct str real = str_trim(http_find_header(ex->q, STR("x-real-ip"))), host, port;
    while (forwarded.n && t->sources.n < SOURCES_MAX) {
        struct str one;
        str_cut(forwarded, ',', &one, &forwarded);
        if (ip_is(str_trim(one), AF_UNSPEC))
            vec_push_arena(&ex->arena, &t->sources, arena_str(&ex->arena, str_trim(one)));
    }
    if (ip_is(real, AF_UNSPEC) && !trail_lists_source(t, real))
        vec_push_arena(&ex->arena, &t->sources, arena_str(&ex->arena, real));
    if (!address_split(ex->q->peer, &host, &port))
        host = ex->q->peer;
    if (ip_is(host, AF_UNSPEC) &&
        !(t->sources.n && address_same(t->sources.p[t->sources.n - 1], host)))
        vec_push_arena(&ex->arena, &t->sources, arena_str(&ex->arena, host));
}

// trail_copy copies a text, cut to a length.
static struct str trail_copy(struct arena *arena, struct str text, size_t most)
{
    if (text.n <= most)
        return arena_str(arena, text);
    return arena_strf(arena, "%.*s...TRUNCATED", STR_ARG(str_upto(text, most)));
}

static void trail_note_truncation(struct exchange *ex)
{
    audit_note(ex, STR("audit.k8s.io/truncated"), STR("true"));
}

// trail_keep_body gives a body that is too long up, and says so.
static struct str trail_keep_body(struct exchange *ex, struct str json)
{
    if (json.n <= TRAIL_BODY_MAX)
        return audit_event_keep(ex->audit.trail, json);
    trail_note_truncation(ex);
    return STR("");
}

static void trail_emit(struct exchange *ex, enum audit_stage stage)
{
    struct audit_trail *t = ex->audit.trail;
    if (t->choice.omit_stages & stage)
        return;
    // Bodies go before events do.
    if (t->request.n + t->response.n && audit_log_is_filling(ex->s->audit->log)) {
        t->request = t->response = STR("");
        trail_note_truncation(ex);
    }
    struct sbuf line = {0};
    audit_event_write(t, stage, ex->audit.id, exec_wall_ns(ex->s->exec), &line);
    audit_log_put(ex->s->audit->log, &line);
}

void audit_begin(struct exchange *ex, bool known)
{
    struct audit *a = ex->s->audit;
    if (!a)
        return;
    struct access q = authz_describe(ex);
    struct audit_choice choice = audit_policy_choose(&a->policy, &q);
    a->levels[choice.level]++;
    if (choice.level == AUDIT_NONE)
        return;
    struct audit_trail *t = arena_one(&ex->arena, struct audit_trail);
    ex->audit.trail = t;
    t->choice = choice;
    t->arena = &ex->arena;
    t->uri = arena_str(&ex->arena, ex->q->target);
    t->verb = q.verb;
    t->user = ex->user;
    t->agent = trail_copy(&ex->arena, ex->user_agent, USER_AGENT_MAX);
    t->unknown = !known;
    t->received_ns = exec_wall_ns(ex->s->exec);
    trail_find_sources(ex, t);
    if (!q.path.n)
        t->object = (struct audit_object){.resource = q.resource,
                                          .namespace = q.namespace,
                                          .name = ex->route.name,
                                          .group = q.group,
                                          .version = ex->route.resource->kind->version,
                                          .subresource = q.subresource,
                                          .set = true};
    if (known)
        trail_emit(ex, AUDIT_RECEIVED);
}

void audit_impersonate(struct exchange *ex)
{
    if (!ex->audit.trail)
        return;
    ex->audit.trail->impersonated = ex->user;
    ex->audit.trail->impersonates = true;
}

void audit_note(struct exchange *ex, struct str key, struct str value)
{
    struct audit_trail *t = ex->audit.trail;
    if (!t)
        return;
    // The first value stays, as upstream.
    for (size_t i = 0; i < t->notes.n; i++)
        if (str_eq(t->notes.p[i].key, key))
            return;
    struct str kept = trail_copy(t->arena, value, TRAIL_TEXT_MAX);
    vec_push_arena(t->arena, &t->notes, ((struct registry_note){key, kept}));
    if (value.n > TRAIL_TEXT_MAX)
        trail_note_truncation(ex);
}

// --- Objects -------------------------------------------------------------------------------------

static void trail_name_object(struct audit_trail *t, const struct api_object_meta *meta)
{
    struct audit_object *o = &t->object;
    const struct {
        struct str *to;
        struct str from;
    } fields[] = {{&o->namespace, meta->namespace},
                  {&o->name, meta->name},
                  {&o->uid, meta->uid},
                  {&o->resource_version, meta->resource_version}};
    for (size_t i = 0; i < array_len(fields); i++)
        if (!fields[i].to->n)
            *fields[i].to = trail_copy(t->arena, fields[i].from, NAME_BYTES_MAX);
}

void audit_request_object(struct exchange *ex, const struct api_object *body)
{
    struct audit_trail *t = ex->audit.trail;
    if (!t)
        return;
    const struct api_object_meta *meta = api_object_meta(body);
    if (meta)
        trail_name_object(t, meta);
    if (t->choice.level < AUDIT_REQUEST)
        return;
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    struct api_object typed = *body;
    api_set_type_meta(&typed);
    if (api_json_write(body->kind->type, body->value, &w, NULL) == 0)
        t->request = trail_keep_body(ex, sbuf_str(&json));
}

void audit_request_patch(struct exchange *ex, struct str patch)
{
    struct audit_trail *t = ex->audit.trail;
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    if (!t || t->choice.level < AUDIT_REQUEST)
        return;
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    // What is neither is a string: a patch leaves its trace however it is written.
    if (json_parse(patch, &options, &doc, NULL) == 0 ||
        yaml_parse(patch, &options, &doc, NULL) == 0)
        json_write_value(&w, doc.root);
    else
        json_write_str(&w, patch);
    t->request = trail_keep_body(ex, sbuf_str(&json));
}

void audit_response_object(struct exchange *ex, const struct object *o, const struct api_kind *as)
{
    struct audit_trail *t = ex->audit.trail;
    cleanup_sbuf struct sbuf json = {0};
    if (t && t->choice.level == AUDIT_REQUEST_RESPONSE &&
        registry_json(o, as, false, &json, NULL) == 0)
        t->response = trail_keep_body(ex, sbuf_str(&json));
}

// trail_copy_status keeps the causes of a refusal as far as there is room.
static struct api_status *trail_copy_status(struct exchange *ex, const struct api_status *status)
{
    struct arena *arena = ex->audit.trail->arena;
    struct api_status *kept = arena_one(arena, struct api_status), cut = *status;
    struct api_status_details details = {0};
    size_t bytes = 0;
    cut.message = trail_copy(arena, status->message, TRAIL_TEXT_MAX);
    if (status->details) {
        details = *status->details;
        details.name = trail_copy(arena, details.name, NAME_BYTES_MAX);
        details.causes.n = 0;
        for (size_t i = 0; i < status->details->causes.n; i++) {
            const struct api_status_cause *cause = &details.causes.p[i];
            bytes += cause->reason.n + cause->message.n + cause->field.n;
            if (bytes > TRAIL_TEXT_MAX)
                break;
            details.causes.n++;
        }
        cut.details = &details;
    }
    if (status->message.n > TRAIL_TEXT_MAX || bytes > TRAIL_TEXT_MAX)
        trail_note_truncation(ex);
    api_copy(&api_status_type, &cut, kept, arena);
    return kept;
}

void audit_response_status(struct exchange *ex, const struct api_status *status)
{
    struct audit_trail *t = ex->audit.trail;
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    if (!t)
        return;
    t->status = trail_copy_status(ex, status);
    if (t->choice.level == AUDIT_REQUEST_RESPONSE &&
        api_json_write(&api_status_type, t->status, &w, NULL) == 0)
        t->response = arena_str(t->arena, sbuf_str(&json));
}

static bool trail_wants_response(const struct exchange *ex)
{
    const struct audit_trail *t = ex->audit.trail;
    return t && t->choice.level == AUDIT_REQUEST_RESPONSE && !t->response.n;
}

void audit_response_body(struct exchange *ex, struct str json)
{
    bool schema = ex->route.type == ROUTE_OPENAPI_V2 || ex->route.type == ROUTE_OPENAPI_V3;
    if (trail_wants_response(ex) && !schema)
        ex->audit.trail->response = trail_keep_body(ex, json);
}

void audit_response_piece(struct exchange *ex, bool json, struct str piece, bool last)
{
    struct audit_trail *t = ex->audit.trail;
    if (!trail_wants_response(ex) || t->lost)
        return;
    t->lost = !json || t->pieces.n + piece.n > TRAIL_BODY_MAX;
    if (!t->lost) {
        sbuf_add(&t->pieces, piece);
        if (!last)
            return;
        t->response = trail_keep_body(ex, sbuf_str(&t->pieces));
    } else {
        trail_note_truncation(ex);
    }
    sbuf_done(&t->pieces);
}

// --- The end -------------------------------------------------------------------------------------

// trail_is_long: the request has no end of its own, as a watch, a log or a connection to a pod.
static bool trail_is_long(const struct exchange *ex)
{
    return str_eqz(ex->audit.trail->verb, "watch") || (ex->route.sub && ex->route.sub->connect);
}

void audit_started(struct exchange *ex, int code)
{
    struct audit_trail *t = ex->audit.trail;
    if (!t || t->code || !trail_is_long(ex))
        return;
    t->code = code;
    trail_emit(ex, AUDIT_STARTED);
}

void audit_end(struct exchange *ex, int code)
{
    struct audit_trail *t = ex->audit.trail;
    if (!t)
        return;
    audit_started(ex, code); // a long request that was refused starts its response, too
    if (!t->code)
        t->code = code;
    if (t->pieces.n) { // the last one never came
        sbuf_done(&t->pieces);
        trail_note_truncation(ex);
    }
    trail_emit(ex, t->unknown ? AUDIT_STARTED : AUDIT_COMPLETE);
    ex->audit.trail = NULL;
}
