// SPDX-License-Identifier: Apache-2.0
//
// Lists and watches for get and wait: a watch that ends is resumed, one that is too old starts with
// a new list.
#include "cmd/objects/follow.h"

#include "client/lines.h"

#include "base/banned.h"

#define PAGE            "500"
#define EVENT_BYTES_MAX ((size_t)64 << 20)
#define PAUSE_NS        (500 * CLOCK_NS_PER_MS)
#define PAUSES_MAX      20
#define WATCH_SECONDS   "1800"

static const struct json_options big = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                        .duplicates = JSON_DUPLICATES_LAST};

void follow_add_query(struct sbuf *query, const char *name, struct str value)
{
    sbuf_addf(query, "%s%s=", query->n ? "&" : "", name);
    client_escape(query, value);
}

static void follow_add_target(struct sbuf *out, const struct follow *f, const struct sbuf *more)
{
    sbuf_add(out, f->path);
    sbuf_addc(out, '?');
    sbuf_add(out, f->query);
    sbuf_addf(out, "%s%s", f->query.n ? "&" : "", more->p);
}

static struct client_raw_request follow_make_request(const struct follow *f,
                                                     const struct sbuf *target)
{
    return (struct client_raw_request){.method = "GET",
                                       .target = sbuf_str(target),
                                       .accept =
                                           f->table ? STR(FOLLOW_TABLE) : STR("application/json")};
}

// one_page asks for the page that next names and sets it to the following one.
static int one_page(struct cluster *c, const struct follow *f, struct sbuf *next,
                    struct sbuf *ret_revision, struct err *err)
{
    cleanup_sbuf struct sbuf target = {0}, body = {0}, more = {0};
    cleanup_json_doc struct json_doc doc = {0};
    follow_add_query(&more, "limit", STR(PAGE));
    if (next->n)
        follow_add_query(&more, "continue", sbuf_str(next));
    sbuf_clear(next);
    follow_add_target(&target, f, &more);
    int r = cluster_request(c, follow_make_request(f, &target), &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), &big, &doc, err);
    if (r < 0)
        return r;
    const yyjson_val *meta = json_get(doc.root, STR("metadata"));
    sbuf_add(next, json_get_str(meta, "continue"));
    if (ret_revision) {
        sbuf_clear(ret_revision);
        sbuf_add(ret_revision, json_get_str(meta, "resourceVersion"));
    }
    return f->page(f->arg, doc.root, err);
}

int follow_list(struct cluster *c, const struct follow *f, struct sbuf *ret_revision,
                struct err *err)
{
    cleanup_sbuf struct sbuf next = {0};
    int r;
    do
        r = one_page(c, f, &next, ret_revision, err);
    while (r == 0 && next.n);
    return r;
}

// --- Changes -------------------------------------------------------------------------------------

struct watching {
    const struct follow *f;
    struct lines lines;
    struct sbuf *revision;
    struct err *err;
    size_t events;
};

// follow_get_revision finds it in an object, or in the row of a table.
static struct str follow_get_revision(const yyjson_val *object)
{
    struct str revision = json_get_str(json_get(object, STR("metadata")), "resourceVersion");
    const yyjson_val *rows = json_get(object, STR("rows"));
    const yyjson_val *row = rows ? json_at(rows, 0) : NULL;
    const yyjson_val *inner = row ? json_get(row, STR("object")) : NULL;
    const yyjson_val *meta = inner ? json_get(inner, STR("metadata")) : NULL;
    return revision.n || !meta ? revision : json_get_str(meta, "resourceVersion");
}

static int on_line(void *arg, struct str text)
{
    struct watching *w = arg;
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(text, &big, &doc, w->err);
    if (r < 0)
        return r;
    struct str type = json_get_str(doc.root, "type");
    const yyjson_val *object = json_get(doc.root, STR("object"));
    int64_t code = 0;
    if (!object || !json_is_object(object))
        return err_set(w->err, ERR_BAD_REQUEST, "the server sent an event that cannot be decoded");
    if (str_eqz(type, "ERROR")) {
        const yyjson_val *n = json_get(object, STR("code"));
        if (n)
            (void)!json_to_i64(n, &code, NULL);
        return err_set(w->err, code == 410 ? ERR_EXPIRED : ERR_UNAVAILABLE, "%.*s",
                       STR_ARG(json_get_str(object, "message")));
    }
    struct str revision = follow_get_revision(object);
    if (revision.n) {
        sbuf_clear(w->revision);
        sbuf_add(w->revision, revision);
    }
    w->events++;
    return str_eqz(type, "BOOKMARK") ? 0 : w->f->event(w->f->arg, type, object, w->err);
}

static int follow_on_bytes(void *arg, struct str bytes, struct err *err)
{
    struct watching *w = arg;
    w->err = err;
    return lines_feed(&w->lines, bytes, on_line, w, err);
}

// follow_time_left_ns returns how long the caller still waits: 0 for ever, negative not at all.
static int64_t follow_time_left_ns(const struct cluster *c, const struct follow *f)
{
    if (!f->deadline_ns)
        return 0;
    int64_t ns = f->deadline_ns - exec_now_ns(loop_exec(c->loop));
    return ns > 0 ? ns : -1;
}

// one_watch watches until the server ends it. *ret_events returns whether anything came.
static int one_watch(struct cluster *c, const struct follow *f, struct sbuf *revision,
                     size_t *ret_events, struct err *err)
{
    cleanup_sbuf struct sbuf target = {0}, more = {0};
    struct watching w = {.f = f, .revision = revision, .lines = {.max = EVENT_BYTES_MAX}};
    follow_add_query(&more, "watch", STR("1"));
    follow_add_query(&more, "allowWatchBookmarks", STR("true"));
    follow_add_query(&more, "timeoutSeconds", STR(WATCH_SECONDS));
    follow_add_query(&more, "resourceVersion", sbuf_str(revision));
    follow_add_target(&target, f, &more);
    int64_t wait_ns = follow_time_left_ns(c, f);
    int r = wait_ns < 0 ? err_set(err, ERR_TIMEOUT, "the time is over")
                        : cluster_stream(c, follow_make_request(f, &target), wait_ns,
                                         follow_on_bytes, &w, err);
    lines_done(&w.lines);
    *ret_events = w.events;
    return r;
}

int follow_run(struct cluster *c, const struct follow *f, struct err *err)
{
    cleanup_sbuf struct sbuf revision = {0};
    int r = follow_list(c, f, &revision, err);
    for (size_t pauses = 0; r == 0;) {
        size_t events = 0;
        r = one_watch(c, f, &revision, &events, err);
        pauses = events ? 0 : pauses + 1;
        if (r == -ERR_EXPIRED || r == -ERR_GONE)
            r = follow_list(c, f, &revision, err);
        else if (r == -ERR_UNAVAILABLE && pauses < PAUSES_MAX)
            r = 0; // it may come back
        if (r == 0)
            cluster_pause(c, events ? 0 : PAUSE_NS);
    }
    return r;
}
