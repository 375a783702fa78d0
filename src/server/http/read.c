// SPDX-License-Identifier: Apache-2.0
//
// Get and list. A list first notes which objects it consists of, by reference, some at a time; then
// it writes them, some at a time. So it is consistent however long its reader takes, the loop is
// never held long, and no second copy of the objects is made.
#include <stdlib.h>

#include "server/audit/trail.h"
#include "server/auth/token.h"
#include "server/http/server_int.h"
#include "store/select.h"

#include "base/banned.h"

static const struct str type_proto = STR_INIT("application/vnd.kubernetes.protobuf");

// --- Waiting for a revision ----------------------------------------------------------------------

static void read_retry_revision(void *arg)
{
    struct exchange *ex = arg;
    bool there = store_revision(ex->s->store) >= ex->wait_revision;
    if (there || exec_now_ns(ex->s->exec) >= ex->wait_until_ns) {
        ex->wait_done(ex, there);
        return;
    }
    exec_timer_start(ex->s->exec, &ex->timer, SERVER_FUTURE_POLL_NS);
}

static void waiter_closed(void *arg)
{
    struct exchange *ex = arg;
    ex->q = NULL;
    if (ex->free_state)
        ex->free_state(ex->state);
    exchange_end(ex, 499);
}

void exchange_wait(struct exchange *ex, uint64_t revision,
                   void (*done)(struct exchange *ex, bool there))
{
    if (store_revision(ex->s->store) >= revision) {
        done(ex, true);
        return;
    }
    ex->wait_revision = revision;
    ex->wait_done = done;
    ex->wait_until_ns = exec_now_ns(ex->s->exec) + SERVER_FUTURE_WAIT_NS;
    ex->timer.fn = read_retry_revision;
    ex->timer.arg = ex;
    ex->q->closed = waiter_closed;
    ex->q->arg = ex;
    exec_timer_start(ex->s->exec, &ex->timer, SERVER_FUTURE_POLL_NS);
}

// --- Get -----------------------------------------------------------------------------------------

static void get_now(struct exchange *ex, bool there)
{
    if (!there) {
        answer_too_large_revision(ex, ex->wait_revision);
        return;
    }
    struct store_key key = {.kind = registry_stored_kind(ex->route.resource->kind),
                            .namespace = ex->route.namespace,
                            .name = ex->route.name};
    const struct object *o = store_get(ex->s->store, &key);
    if (o)
        answer_object(ex, 200, o);
    else
        answer_not_found(ex);
}

void read_get(struct exchange *ex)
{
    struct str version = query_str(&ex->query, STR("resourceVersion"));
    uint64_t revision = 0;
    if (version.n && str_to_u64(version, &revision) < 0) {
        answer_fail(ex, 400, "BadRequest", STR("invalid resource version"), NULL);
        return;
    }
    exchange_wait(ex, revision, get_now);
}

// --- List ----------------------------------------------------------------------------------------

struct lister {
    struct exchange *ex;
    struct store_walk walk;
    struct store_select select;
    struct encode_how how;
    struct VEC(const struct object *) found; // referenced
    size_t bytes;                            // of their JSON
    size_t limit;                            // SIZE_MAX: none
    int64_t left_before;                     // objects behind the token, -1 when not known
    size_t written;
    size_t dropped;            // references given back, as they are written
    struct sbuf items;         // of a short list in protobuf
    size_t measured;           // objects whose protobuf has been measured
    size_t items_bytes;        // in protobuf, which must be known before they are sent
    const struct object *last; // referenced; of a page behind which there are more
    bool more;
    bool exact;
    bool walking;
    bool posted;
    bool started;
    struct token token;
    struct list_options options;
};

static void lister_free(void *arg)
{
    struct lister *l = arg;
    if (l->walking)
        store_walk_done(&l->walk);
    for (size_t i = l->dropped; i < l->found.n; i++)
        object_unref(l->found.p[i]);
    vec_done(&l->found);
    object_unref(l->last);
    sbuf_done(&l->items);
    free(l);
}

static void lister_end(struct lister *l, int code)
{
    struct exchange *ex = l->ex;
    lister_free(l);
    exchange_end(ex, code);
}

static void lister_closed(void *arg)
{
    struct lister *l = arg;
    l->ex->q = NULL;
    if (!l->posted)
        lister_end(l, 499);
}

static void answer_expired(struct lister *l)
{
    static const struct str list_too_old =
        STR_INIT("The resourceVersion for the provided list is too old.");
    static const struct str token_too_old = STR_INIT(
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted between "
        "the time the first chunk was returned and now may show up in the list.");
    struct exchange *ex = l->ex;
    struct api_status status = {
        .status = STR("Failure"), .message = list_too_old, .reason = STR("Expired"), .code = 410};
    cleanup_sbuf struct sbuf next = {0};
    if (l->options.continue_token.n) {
        l->token.revision = -1;
        l->token.left = -1;
        token_write(&l->token, ex->route.resource->kind->namespaced, &next);
        status.message = token_too_old;
        status.metadata.continue_value = sbuf_str(&next);
    }
    lister_free(l);
    answer_status(ex, &status);
}

// list_head fills in what is known once all objects are: whether there are more, and how many. In
// protobuf, items are written by then.
static void list_head(struct lister *l, struct sbuf *out)
{
    struct encode_list head = {.revision = l->walk.revision, .remaining = -1};
    cleanup_sbuf struct sbuf text = {0};
    if (l->more) {
        struct token t = {.revision = (int64_t)l->walk.revision,
                          .namespace = l->last->namespace,
                          .name = l->last->name,
                          .left = -1};
        if (store_select_everything(&l->select) && l->left_before >= 0)
            t.left = head.remaining = l->left_before - (int64_t)l->found.n;
        token_write(&t, l->ex->route.resource->kind->namespaced, &text);
        head.continue_token = sbuf_str(&text);
    }
    if (l->how.protobuf)
        encode_proto_list_head(&l->how, &head, l->items_bytes, out);
    else
        encode_list_head(&l->how, &head, out);
}

// read_add_items writes objects until the piece is full. Their references are given back.
static int read_add_items(struct lister *l, size_t most, struct sbuf *out, struct err *err)
{
    while (l->written < l->found.n && out->n < most) {
        const struct object *o = l->found.p[l->written];
        if (l->written && !l->how.protobuf)
            sbuf_addc(out, ',');
        int r = encode_item(o, &l->how, out, err);
        if (r < 0)
            return r;
        object_unref(o);
        l->dropped = ++l->written;
    }
    return 0;
}

static void answer_whole(struct lister *l)
{
    struct exchange *ex = l->ex;
    struct sbuf out = {0};
    struct err err = {0};
    sbuf_reserve(&out, l->bytes + l->found.n + 512);
    list_head(l, &out);
    int r = read_add_items(l, SIZE_MAX, &out, &err);
    encode_list_tail(&out);
    lister_free(l);
    if (r == 0) {
        answer_json(ex, 200, &out);
        return;
    }
    sbuf_done(&out);
    answer_error(ex, &err);
}

static void write_pieces(void *arg);

static void post_pieces(struct lister *l)
{
    l->posted = true;
    exec_post(l->ex->s->exec, write_pieces, l);
}

static void lister_drained(void *arg)
{
    struct lister *l = arg;
    if (!l->posted)
        post_pieces(l);
}

// write_pieces writes one piece and lets others have their turn.
static void write_pieces(void *arg)
{
    struct lister *l = arg;
    struct exchange *ex = l->ex;
    l->posted = false;
    if (!ex->q) {
        lister_end(l, 499);
        return;
    }
    struct sbuf piece = piece_take(ex->s->pieces);
    struct err err = {0};
    if (!l->started) {
        l->started = true;
        answer_start(ex, 200, l->how.protobuf ? type_proto : STR("application/json"));
        http_set_queue(ex->q, SERVER_LIST_QUEUE);
        list_head(l, &piece);
    }
    int r = read_add_items(l, SERVER_PIECE_BYTES, &piece, &err);
    bool last = l->written == l->found.n;
    if (last && !l->how.protobuf)
        encode_list_tail(&piece);
    audit_response_piece(ex, !l->how.protobuf, sbuf_str(&piece), r == 0 && last);
    struct http_request *q = ex->q;
    if (r < 0 || last)
        q->closed = q->drained = NULL;
    bool room = http_write(q, piece_buf(ex->s->pieces, &piece));
    if (r < 0 || last) {
        if (r < 0)
            http_abort(q);
        else
            http_end(q);
        ex->q = NULL;
        lister_end(l, r < 0 ? 500 : 200);
        return;
    }
    if (room)
        post_pieces(l);
}

// read_measure_piece finds out how long the items of a long list in protobuf are, some at a time,
// before they are written.
static void read_measure_piece(void *arg)
{
    struct lister *l = arg;
    struct exchange *ex = l->ex;
    cleanup_sbuf struct sbuf item = {0};
    struct err err = {0};
    int r = 0;
    l->posted = false;
    if (!ex->q) {
        lister_end(l, 499);
        return;
    }
    for (size_t n = 0; r == 0 && l->measured < l->found.n && n < SERVER_PIECE_BYTES; n += item.n) {
        sbuf_clear(&item);
        r = encode_item(l->found.p[l->measured++], &l->how, &item, &err);
        l->items_bytes += item.n;
    }
    if (r < 0) {
        lister_free(l);
        answer_error(ex, &err);
    } else if (l->measured < l->found.n) {
        l->posted = true;
        exec_post(ex->s->exec, read_measure_piece, l);
    } else {
        ex->q->drained = lister_drained;
        write_pieces(l);
    }
}

// read_write_message writes a short list in protobuf: items, a piece at a time, then the head
// before them.
static void read_write_message(void *arg)
{
    struct lister *l = arg;
    struct exchange *ex = l->ex;
    struct err err = {0};
    l->posted = false;
    if (!ex->q) {
        lister_end(l, 499);
        return;
    }
    int r = read_add_items(l, l->items.n + SERVER_PIECE_BYTES, &l->items, &err);
    if (r == 0 && l->written < l->found.n) {
        l->posted = true;
        exec_post(ex->s->exec, read_write_message, l);
        return;
    }
    if (r < 0) {
        lister_free(l);
        answer_error(ex, &err);
        return;
    }
    struct sbuf head = {0};
    l->items_bytes = l->items.n;
    list_head(l, &head);
    audit_response_piece(ex, false, STR(""), true);
    answer_start(ex, 200, type_proto);
    struct http_request *q = ex->q;
    q->closed = q->drained = NULL;
    (void)http_write(q, net_buf_new(&head));
    if (l->items.n)
        (void)http_write(q, net_buf_new(&l->items));
    http_end(q);
    ex->q = NULL;
    lister_end(l, 200);
}

static void answer_too_long(struct lister *l)
{
    struct exchange *ex = l->ex;
    lister_free(l);
    answer_fail(ex, 406, "NotAcceptable",
                STR("the list is too long to be written in YAML: ask for application/json, or for "
                    "a page at a time (limit)"),
                NULL);
}

static void list_write(struct lister *l)
{
    store_walk_done(&l->walk);
    l->walking = false;
    struct form *f = &l->ex->form;
    if (f->media == MEDIA_YAML && l->bytes > SERVER_PRETTY_BYTES_MAX) {
        answer_too_long(l);
        return;
    }
    if (l->how.protobuf) {
        if (l->bytes > SERVER_MESSAGE_BYTES_MAX)
            read_measure_piece(l);
        else
            read_write_message(l);
        return;
    }
    // Indenting megabytes helps no reader.
    if (l->bytes > SERVER_PRETTY_BYTES_MAX)
        f->pretty = false;
    if (l->bytes <= SERVER_PIECE_BYTES || f->media != MEDIA_JSON || f->pretty) {
        answer_whole(l);
        return;
    }
    l->ex->q->drained = lister_drained;
    write_pieces(l);
}

// list_take adds an object that the walk has found; false: the page is full.
static bool list_take(struct lister *l, const struct object *o)
{
    if (!store_select_matches(&l->select, o))
        return true;
    if (l->found.n == l->limit) {
        l->more = true;
        l->last = object_ref(vec_last(&l->found)[0]);
        return false;
    }
    vec_push(&l->found, object_ref(o));
    l->bytes += o->json.n;
    return true;
}

static void list_step(void *arg)
{
    struct lister *l = arg;
    const struct object *some[STORE_WALK_SOME];
    l->posted = false;
    if (!l->ex->q) {
        lister_end(l, 499);
        return;
    }
    for (size_t seen = 0; seen < SERVER_STEP_OBJECTS; seen += STORE_WALK_SOME) {
        size_t n = store_walk_some(l->ex->s->store, &l->walk, some);
        bool room = true;
        for (size_t i = 0; i < n && room; i++)
            room = list_take(l, some[i]);
        if (l->walk.expired) {
            answer_expired(l);
            return;
        }
        if (n < STORE_WALK_SOME || !room) {
            list_write(l);
            return;
        }
    }
    l->posted = true;
    exec_post(l->ex->s->exec, list_step, l);
}

static void list_begin(struct exchange *ex, bool there)
{
    struct lister *l = ex->state;
    if (!there) {
        lister_free(l);
        answer_too_large_revision(ex, ex->wait_revision);
        return;
    }
    struct server *s = ex->s;
    struct err err = {0};
    bool current = l->walk.revision == 0;
    ex->q->closed = lister_closed;
    ex->q->arg = l;
    int r = store_walk_start(s->store, &l->walk, &err);
    if (r < 0) {
        answer_expired(l);
        return;
    }
    l->walking = true;
    if (current && !l->options.continue_token.n)
        l->left_before = (int64_t)store_count(s->store, l->walk.kind, ex->route.namespace);
    list_step(l);
}

// list_from finds the revision of the list and the one that must be visible for it.
static int list_from(struct lister *l, uint64_t *ret_wait, struct err *err)
{
    const struct list_options *o = &l->options;
    struct exchange *ex = l->ex;
    *ret_wait = 0;
    l->left_before = -1;
    if (o->continue_token.n) {
        if (o->resource_version.n && !str_eq(o->resource_version, STR("0")))
            return err_set(err, ERR_BAD_REQUEST,
                           "specifying resource version is not allowed when using continue");
        int r = token_read(o->continue_token, ex->route.resource->kind->namespaced,
                           ex->route.namespace, &ex->arena, &l->token, err);
        if (r < 0)
            return r;
        l->walk.revision = l->token.revision > 0 ? (uint64_t)l->token.revision : 0;
        l->walk.after_namespace = l->token.namespace;
        l->walk.after_name = l->token.name;
        l->left_before = l->token.left;
        *ret_wait = l->walk.revision;
        return 0;
    }
    bool exact = o->match == QUERY_MATCH_EXACT ||
                 (o->match == QUERY_MATCH_NONE && o->limit > 0 && o->revision > 0);
    l->walk.revision = exact ? o->revision : 0;
    *ret_wait = o->revision;
    return 0;
}

void read_serve_list(struct exchange *ex, const struct list_options *options)
{
    struct lister *l = xcalloc(1, sizeof(*l));
    struct err err = {0};
    const struct api_kind *kind = ex->route.resource->kind, *stored = registry_stored_kind(kind);
    l->ex = ex;
    l->options = *options;
    l->how = exchange_how(ex);
    l->limit = options->limit > 0 ? (size_t)options->limit : SIZE_MAX;
    l->walk = (struct store_walk){.kind = stored,
                                  .one_namespace = ex->route.namespace.n > 0,
                                  .namespace = ex->route.namespace};
    uint64_t wait = 0;
    int r = store_select_parse(options->label_selector, options->field_selector, kind, stored,
                               &ex->arena, &l->select, &err);
    if (r == 0)
        r = list_from(l, &wait, &err);
    if (r < 0) {
        lister_free(l);
        answer_error(ex, &err);
        return;
    }
    ex->state = l;
    ex->free_state = lister_free;
    exchange_wait(ex, wait, list_begin);
}
