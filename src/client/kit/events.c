// SPDX-License-Identifier: Apache-2.0
//
// An event goes through three caches of bounded size: which messages a reason had of late (many
// different ones become one event), how often this one was there (it is counted up), and how much
// this source has sent about this object (a token bucket). Then it is sent, one at a time, in
// order.
#include "client/events.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

// The numbers are client-go's (tools/record).
#define CACHE_ENTRIES       4096
#define SIMILAR_MAX         10 // different messages of one reason before they are combined
#define SIMILAR_INTERVAL_NS (600 * CLOCK_NS_PER_SEC)
#define SPAM_BURST          25
#define SPAM_REFILL_NS      (300 * CLOCK_NS_PER_SEC) // for one more
#define OUTGOING_MAX        1000
#define SEND_TRIES          12
#define SEND_RETRY_NS       (10 * CLOCK_NS_PER_SEC)

// --- Caches --------------------------------------------------------------------------------------

// What is remembered under a key; which member counts depends on the cache.
struct memory {
    struct list_node node;
    struct str key; // its bytes stand behind the struct
    union {
        struct {
            uint64_t messages[SIMILAR_MAX]; // hashes
            size_t messages_len;
            int64_t last_ns;
        } similar;
        struct {
            int32_t count;
            struct moment first;
            char *name; // of the event, on the heap
        } seen;
        struct {
            double tokens;
            int64_t at_ns;
        } spam;
    };
};

struct memories MAP(struct memory *);

// The least recently used one goes first.
struct cache {
    struct memories map;
    struct list used; // newest first
    bool names;       // its memories own a name
};

static void events_cache_free(const struct cache *c, struct memory *m)
{
    if (c->names)
        free(m->seen.name);
    free(m);
}

static struct memory *cache_get(struct cache *c, struct str key, bool *ret_new)
{
    struct memory *const *found = map_get(&c->map, key);
    struct memory *m = found ? *found : NULL;
    *ret_new = !m;
    if (m) {
        list_remove(&m->node);
        list_push_front(&c->used, &m->node);
        return m;
    }
    if (map_len(&c->map) >= CACHE_ENTRIES) {
        struct memory *oldest = list_entry(c->used.head.prev, struct memory, node);
        list_remove(&oldest->node);
        (void)map_del(&c->map, oldest->key);
        events_cache_free(c, oldest);
    }
    m = xcalloc(1, sizeof(*m) + key.n + 1);
    char *bytes = (char *)(m + 1);
    memcpy(bytes, key.p, key.n);
    m->key = str_make(bytes, key.n);
    list_push_front(&c->used, &m->node);
    *map_put(&c->map, m->key) = m;
    return m;
}

static void cache_done(struct cache *c)
{
    list_foreach(&c->used, n) {
        events_cache_free(c, list_entry(n, struct memory, node));
    }
    map_done(&c->map);
}

// --- The recorder --------------------------------------------------------------------------------

// An event on its way.
struct outgoing {
    struct list_node node;
    struct arena arena;
    struct api_event event;
    bool counted; // it exists: only its count, time and message change
    int tries;
};

struct event_recorder {
    struct client *client;
    const struct api_kind *kind;
    struct arena arena; // of component and host
    struct str component;
    struct str host;
    struct cache similar, seen, spam;
    struct sbuf key;
    struct list outgoing; // the first one is being sent
    size_t outgoing_len;
    struct exec_timer retry;
    struct event_call *call; // the answer that is awaited
    int64_t last_name_ns;    // names carry the time; no two are the same
};

// What an answer comes back to; outlives the recorder if it must.
struct event_call {
    struct event_recorder *recorder; // NULL: freed
};

static int64_t now_ns(const struct event_recorder *r)
{
    return exec_now_ns(r->client->exec);
}

static struct moment wall_moment(const struct event_recorder *r)
{
    return moment_from_ns(exec_wall_ns(r->client->exec));
}

// Parts of a key end in NUL, so that they cannot run into each other.
static void events_key_append(struct event_recorder *r, struct str part)
{
    sbuf_add(&r->key, part);
    sbuf_addc(&r->key, '\0');
}

static void key_begin(struct event_recorder *r, const struct api_event *e)
{
    sbuf_clear(&r->key);
    events_key_append(r, e->involved_object.kind);
    events_key_append(r, e->involved_object.namespace);
    events_key_append(r, e->involved_object.name);
    events_key_append(r, e->involved_object.uid);
    events_key_append(r, e->involved_object.api_version);
    events_key_append(r, e->type);
}

// events_combine_similar sees whether a reason has had too many different messages of late. If so
// the event speaks for all of them, and its key, in r->key, is that of the reason.
static void events_combine_similar(struct event_recorder *r, struct outgoing *out)
{
    bool fresh;
    struct api_event *e = &out->event;
    key_begin(r, e);
    events_key_append(r, e->reason);
    struct memory *m = cache_get(&r->similar, sbuf_str(&r->key), &fresh);
    if (fresh || now_ns(r) - m->similar.last_ns > SIMILAR_INTERVAL_NS)
        m->similar.messages_len = 0;
    m->similar.last_ns = now_ns(r);
    uint64_t hash = hash_str(e->message);
    size_t known = 0;
    while (known < m->similar.messages_len && m->similar.messages[known] != hash)
        known++;
    if (known == m->similar.messages_len && known < SIMILAR_MAX - 1) {
        m->similar.messages[m->similar.messages_len++] = hash;
    } else if (known == m->similar.messages_len) {
        e->message =
            arena_strf(&out->arena, "(combined from similar events): %.*s", STR_ARG(e->message));
        return;
    }
    events_key_append(r, e->involved_object.field_path);
    events_key_append(r, e->message);
}

// count_up gives an event that was there before its name and its count.
static void count_up(struct event_recorder *r, struct outgoing *out)
{
    bool fresh;
    struct api_event *e = &out->event;
    struct memory *m = cache_get(&r->seen, sbuf_str(&r->key), &fresh);
    if (fresh) {
        m->seen.count = 1;
        m->seen.first = e->first_timestamp.at;
        m->seen.name = xstrndup(e->metadata.name.p, e->metadata.name.n);
        return;
    }
    if (m->seen.count < INT32_MAX)
        m->seen.count++;
    out->counted = true;
    e->count = m->seen.count;
    e->first_timestamp.at = m->seen.first;
    e->metadata.name = arena_str(&out->arena, str_z(m->seen.name));
}

// too_much takes a token from the bucket of this source and object.
static bool too_much(struct event_recorder *r, const struct api_event *e)
{
    bool fresh;
    key_begin(r, e);
    struct memory *m = cache_get(&r->spam, sbuf_str(&r->key), &fresh);
    if (fresh)
        m->spam.tokens = SPAM_BURST;
    else
        m->spam.tokens += (double)(now_ns(r) - m->spam.at_ns) / (double)SPAM_REFILL_NS;
    m->spam.at_ns = now_ns(r);
    if (m->spam.tokens > SPAM_BURST)
        m->spam.tokens = SPAM_BURST;
    if (m->spam.tokens < 1)
        return true;
    m->spam.tokens -= 1;
    return false;
}

// --- Sending -------------------------------------------------------------------------------------

static void send_next(struct event_recorder *r);

static void outgoing_free(struct outgoing *out)
{
    list_remove(&out->node);
    arena_done(&out->arena);
    free(out);
}

static void finish_first(struct event_recorder *r)
{
    outgoing_free(list_entry(r->outgoing.head.next, struct outgoing, node));
    r->outgoing_len--;
    if (!list_empty(&r->outgoing))
        send_next(r);
}

static bool worth_retrying(int code)
{
    return code == -ERR_UNAVAILABLE || code == -ERR_TIMEOUT || code == -ERR_TOO_MANY;
}

static void on_sent(void *arg, const struct client_answer *answer)
{
    struct event_call *call = arg;
    struct event_recorder *r = call->recorder;
    free(call);
    if (!r)
        return;
    r->call = NULL;
    struct outgoing *out = list_entry(r->outgoing.head.next, struct outgoing, node);
    if (answer->code == -ERR_NOT_FOUND && out->counted) {
        out->counted = false; // it has been cleaned away meanwhile
        send_next(r);
    } else if (worth_retrying(answer->code) && ++out->tries < SEND_TRIES) {
        exec_timer_start(r->client->exec, &r->retry, SEND_RETRY_NS);
    } else {
        finish_first(r);
    }
}

static void events_on_retry(void *arg)
{
    send_next(arg);
}

// The patch of an event that happened again.
static void events_write_patch(const struct api_event *e, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    struct sbuf cleanup_sbuf time = {0};
    rfc3339_write_seconds(e->last_timestamp.at, &time);
    json_write_object_begin(&w);
    json_write_key(&w, STR("count"));
    json_write_i64(&w, e->count);
    json_write_key(&w, STR("lastTimestamp"));
    json_write_str(&w, sbuf_str(&time));
    json_write_key(&w, STR("message"));
    json_write_str(&w, e->message);
    json_write_object_end(&w);
}

static void send_next(struct event_recorder *r)
{
    struct outgoing *out = list_entry(r->outgoing.head.next, struct outgoing, node);
    assert(!r->call);
    r->call = xcalloc(1, sizeof(*r->call));
    r->call->recorder = r;
    if (!out->counted) {
        struct api_object object = {r->kind, &out->event};
        client_create(r->client, &object, NULL, on_sent, r->call);
        return;
    }
    struct sbuf cleanup_sbuf patch = {0};
    events_write_patch(&out->event, &patch);
    struct client_key key = {r->kind, out->event.metadata.namespace, out->event.metadata.name};
    client_patch(r->client, &key, CLIENT_PATCH_MERGE, sbuf_str(&patch), NULL, on_sent, r->call);
}

// --- What is public ------------------------------------------------------------------------------

static void fill_event(struct event_recorder *r, struct outgoing *out,
                       const struct api_object_reference *about)
{
    struct arena *a = &out->arena;
    struct api_event *e = &out->event;
    struct api_time now = {wall_moment(r), true};
    api_copy(&api_object_reference_type, about, &e->involved_object, a);
    int64_t name_ns = exec_wall_ns(r->client->exec);
    r->last_name_ns = name_ns > r->last_name_ns ? name_ns : r->last_name_ns + 1;
    e->metadata.name =
        arena_strf(a, "%.*s.%llx", STR_ARG(about->name), (unsigned long long)r->last_name_ns);
    e->metadata.namespace = about->namespace.n ? e->involved_object.namespace : STR("default");
    e->source = (struct api_event_source){r->component, r->host};
    e->reporting_component = r->component;
    e->reporting_instance = r->host;
    e->first_timestamp = e->last_timestamp = now;
    e->count = 1;
    api_set_type_meta(&(struct api_object){r->kind, e});
}

void events_record_ref(struct event_recorder *r, const struct api_object_reference *about,
                       struct str type, struct str reason, struct str message)
{
    if (r->outgoing_len >= OUTGOING_MAX)
        return;
    struct outgoing *out = xcalloc(1, sizeof(*out));
    fill_event(r, out, about);
    out->event.type = arena_str(&out->arena, type);
    out->event.reason = arena_str(&out->arena, reason);
    out->event.message = arena_str(&out->arena, message);
    events_combine_similar(r, out);
    count_up(r, out);
    if (too_much(r, &out->event)) {
        outgoing_free(out);
        return;
    }
    list_push_back(&r->outgoing, &out->node);
    if (r->outgoing_len++ == 0)
        send_next(r);
}

void events_record(struct event_recorder *r, const struct typed_object *about, struct str type,
                   struct str reason, struct str message)
{
    struct api_object_reference ref = {
        .kind = about->object.kind->kind,
        .api_version = about->object.kind->api_version,
        .namespace = about->meta->namespace,
        .name = about->meta->name,
        .uid = about->meta->uid,
        .resource_version = about->meta->resource_version,
    };
    events_record_ref(r, &ref, type, reason, message);
}

struct event_recorder *events_recorder_new(const struct event_recorder_options *options)
{
    struct event_recorder *r = xcalloc(1, sizeof(*r));
    r->client = options->client;
    r->kind = api_kind_find(STR("v1"), STR("Event"));
    r->component = arena_str(&r->arena, options->component);
    r->host = arena_str(&r->arena, options->host);
    r->retry = (struct exec_timer){.fn = events_on_retry, .arg = r};
    list_init(&r->outgoing);
    list_init(&r->similar.used);
    list_init(&r->seen.used);
    list_init(&r->spam.used);
    r->seen.names = true;
    return r;
}

void events_recorder_free(struct event_recorder *r)
{
    if (!r)
        return;
    if (r->call)
        r->call->recorder = NULL;
    exec_timer_stop(r->client->exec, &r->retry);
    list_foreach(&r->outgoing, n) {
        outgoing_free(list_entry(n, struct outgoing, node));
    }
    cache_done(&r->similar);
    cache_done(&r->seen);
    cache_done(&r->spam);
    sbuf_done(&r->key);
    arena_done(&r->arena);
    free(r);
}

bool events_recorder_idle(const struct event_recorder *r)
{
    return list_empty(&r->outgoing);
}
