// SPDX-License-Identifier: Apache-2.0
//
// The store's own state: opening, accepting writes, making them visible, losing them.
#include "store/store.h"

#include <assert.h>
#include <stdlib.h>

#include "api/custom.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/pending.h"
#include "store/salvage.h"
#include "store/store_int.h"

#include "base/banned.h"

// --- Kinds and entries ---------------------------------------------------------------------------

struct custom_kinds *store_customs(const struct store *s)
{
    return s->customs;
}

struct kind_state *store_kind_get(const struct store *s, const struct api_kind *kind)
{
    size_t at = store_kind_number(kind);
    return at < s->kinds_len ? s->kinds[at] : NULL;
}

// Room for kinds that users added since.
static void grow_kinds(struct store *s, size_t at)
{
    if (at < s->kinds_len)
        return;
    size_t len = at + 16;
    struct kind_state **kinds = xcalloc(len, sizeof(*kinds));
    for (size_t i = 0; i < s->kinds_len; i++)
        kinds[i] = s->kinds[i];
    free(s->kinds);
    s->kinds = kinds;
    s->kinds_len = len;
}

struct kind_state *store_kind_find(struct store *s, const struct api_kind *kind)
{
    size_t at = store_kind_number(kind);
    grow_kinds(s, at);
    struct kind_state **k = &s->kinds[at];
    if (!*k) {
        *k = xcalloc(1, sizeof(**k));
        list_init(&(*k)->watches);
        sorted_init(&(*k)->index, store_entry_order);
    }
    return *k;
}

// store_entry_make finds the entry of o's key or makes one with o as its head.
static struct entry *store_entry_make(struct store *s, const struct object *o)
{
    struct store_key key = {o->kind, o->namespace, o->name};
    struct entry *e = index_table_find(&s->entries, &key);
    if (e)
        return e;
    e = xmalloc(sizeof(*e));
    *e = (struct entry){.head = o, .hash = store_key_hash(&key)};
    index_table_add(&s->entries, e);
    (void)sorted_add(&store_kind_find(s, o->kind)->index, &key, e);
    e->head = NULL;
    return e;
}

void store_entry_drop(struct store *s, struct entry *e)
{
    struct store_key key = store_entry_key(e);
    (void)sorted_remove(&store_kind_find(s, key.kind)->index, &key);
    index_table_remove(&s->entries, e);
    free(e);
}

static void store_count_object(struct kind_state *k, struct str namespace, bool more)
{
    if (more)
        k->count++;
    else
        k->count--;
    if (namespace.n == 0)
        return;
    size_t *n = map_get(&k->namespaces, namespace);
    if (!n)
        n = map_put(&k->namespaces, str_make(xstrndup(namespace.p, namespace.n), namespace.n));
    *n = more ? *n + 1 : *n - 1;
    if (*n > 0)
        return;
    size_t at = map_index_find(&k->namespaces.index, namespace);
    char *owned = (char *)(uintptr_t)map_key(&k->namespaces, at).p;
    (void)map_del(&k->namespaces, namespace);
    free(owned);
}

// store_entry_show makes o (NULL: nothing) the visible version and keeps indexes and counts
// current.
static void store_entry_show(struct store *s, struct entry *e, const struct object *o)
{
    const struct object *before = e->visible;
    struct kind_state *k = store_kind_find(s, (o ? o : before)->kind);
    if (o && !before)
        store_count_object(k, o->namespace, true);
    else if (!o && before)
        store_count_object(k, before->namespace, false);
    s->objects += (o ? 1U : 0U);
    s->objects -= (before ? 1U : 0U);
    room_show(&s->room, before, o);
    e->visible = object_ref(o);
    object_unref(before);
}

// store_apply makes one version visible: index, history. For writes, and for rows while loading.
static const struct history_event *store_apply(struct store *s, struct entry *e,
                                               const struct object *o, bool deleted)
{
    assert(o->revision > s->visible);
    const struct history_event *event = history_add(s, e, o, e->visible, deleted);
    store_entry_show(s, e, deleted ? NULL : o);
    s->visible = o->revision;
    return event;
}

// --- Writing -------------------------------------------------------------------------------------

struct exec *store_exec(const struct store *s)
{
    return s->exec;
}

uint64_t store_revision(const struct store *s)
{
    return s->visible;
}

uint64_t store_oldest(const struct store *s)
{
    return s->history.oldest;
}

uint64_t store_next_revision(const struct store *s)
{
    return s->next;
}

static int check_head(const struct store *s, const struct object *o, uint64_t expect,
                      struct err *err)
{
    struct store_key key = {o->kind, o->namespace, o->name};
    const struct object *head = store_head(s, &key);
    if ((head ? head->revision : 0) == expect)
        return 0;
    if (!head)
        return err_set(err, ERR_CONFLICT, "the object no longer exists");
    if (expect == 0)
        return err_set(err, ERR_CONFLICT, "the object already exists");
    return err_set(err, ERR_CONFLICT, "the object has revision %llu, not %llu",
                   (unsigned long long)head->revision, (unsigned long long)expect);
}

void store_pending(const struct store *s, const struct api_kind *kind,
                   void (*fn)(void *arg, const struct object *o), void *arg)
{
    for (const struct write *w = s->pending_first; w; w = w->next)
        if (w->object->kind == kind && !w->deleted && !w->lost)
            fn(arg, w->object);
}

static int accept_write(struct store *s, const struct object *o, bool deleted, uint64_t expect,
                        store_done_fn done, void *arg, struct err *err)
{
    assert(o->revision == s->next);
    int r = check_head(s, o, expect, err);
    if (r < 0)
        return r;
    if (s->pending_bytes + o->block_size > s->pending_max)
        return err_set(err, ERR_UNAVAILABLE,
                       "the disk does not keep up: %zu MiB of writes wait for it; try again later",
                       s->pending_bytes / 1024 / 1024);
    struct write *w = xmalloc(sizeof(*w));
    struct entry *e = store_entry_make(s, o);
    const struct object *head = !e->pending ? e->visible : e->head_deleted ? NULL : e->head;
    room_accept(&s->room, head, deleted ? NULL : o);
    *w = (struct write){.object = object_ref(o),
                        .epoch = s->epoch,
                        .deleted = deleted,
                        .urgent = deleted || room_is_urgent(head, o),
                        .entry = e,
                        .done = done,
                        .arg = arg};
    object_unref(e->head);
    e->head = object_ref(o);
    e->head_deleted = deleted;
    e->pending++;
    s->next++;
    s->pending_bytes += o->block_size;
    if (s->pending_last)
        s->pending_last->next = w;
    else
        s->pending_first = w;
    s->pending_last = w;
    committer_submit(s->committer, w);
    return 0;
}

int store_put(struct store *s, const struct object *o, uint64_t expect, store_done_fn done,
              void *arg, struct err *err)
{
    return accept_write(s, o, false, expect, done, arg, err);
}

int store_delete(struct store *s, const struct object *last, uint64_t expect, store_done_fn done,
                 void *arg, struct err *err)
{
    assert(expect != 0);
    return accept_write(s, last, true, expect, done, arg, err);
}

// write_leaves ends a write's hold on its entry, which goes when nothing else is there.
static void write_leaves(struct store *s, struct write *w)
{
    struct entry *e = w->entry;
    w->entry = NULL;
    assert(e->pending > 0);
    if (--e->pending > 0)
        return;
    const struct object *head = e->head;
    if (!e->visible && !e->newest)
        store_entry_drop(s, e);
    else
        e->head = NULL;
    object_unref(head);
}

static struct write *pop_pending(struct store *s)
{
    struct write *w = s->pending_first;
    assert(w);
    s->pending_first = w->next;
    if (!w->next)
        s->pending_last = NULL;
    s->pending_bytes -= w->object->block_size;
    return w;
}

static void write_free(struct write *w)
{
    object_unref(w->object);
    free(w);
}

// Makes the first n pending writes visible, then answers them.
static void store_publish_writes(struct store *s, size_t n)
{
    struct write *w = s->pending_first;
    for (size_t i = 0; i < n; i++, w = w->next) {
        const struct history_event *event = store_apply(s, w->entry, w->object, w->deleted);
        write_leaves(s, w);
        s->writes++;
        watch_publish(s, event);
    }
    for (size_t i = 0; i < n; i++) {
        w = pop_pending(s);
        if (w->done)
            w->done(w->arg, 0, NULL);
        write_free(w);
    }
    history_trim(s);
    committer_doom(s->committer, &s->doomed, s->history.oldest);
}

// All pending writes are lost: first every head falls back, then every callback runs. The writes
// stay until the committer is through with them.
static void lose_pending(struct store *s, const struct err *err)
{
    struct write *last = s->pending_last;
    s->epoch++;
    for (struct write *w = s->pending_first; w; w = w->next)
        if (!w->lost)
            write_leaves(s, w);
    room_fall_back(&s->room);
    for (struct write *w = s->pending_first; w; w = w == last ? NULL : w->next) {
        if (w->lost)
            continue;
        w->lost = true;
        if (w->done)
            w->done(w->arg, -err->code, err);
    }
}

static void store_commit_finished(void *arg, const struct commit_result *result)
{
    struct store *s = arg;
    if (result->backup_done) {
        result->backup_done(result->backup_arg, result->code, result->code ? &result->err : NULL);
        return;
    }
    s->low = result->low;
    if (result->code == 0 && result->writes == 0)
        return;
    s->failing = result->code != 0;
    if (result->code == 0) {
        s->commits++;
        store_publish_writes(s, result->writes);
        return;
    }
    if (result->epoch == s->epoch)
        lose_pending(s, &result->err);
    for (size_t i = 0; i < result->writes; i++) {
        struct write *w = pop_pending(s);
        assert(w->lost);
        write_free(w);
    }
}

// --- Opening and closing -------------------------------------------------------------------------

struct loading {
    struct store *store;
    uint64_t oldest;
};

// A row of the database: within the history it is an event, before it the state of its key. Rows
// that an interrupted change of bounds left behind go with the next transaction.
static void store_load_row(void *arg, struct object *o, bool deleted)
{
    const struct loading *l = arg;
    struct store *s = l->store;
    struct store_key key = {o->kind, o->namespace, o->name};
    const struct object *before = store_get(s, &key);
    if (deleted && !before) {
        vec_push(&s->doomed, o->revision);
    } else if (o->revision > l->oldest) {
        (void)store_apply(s, store_entry_make(s, o), o, deleted);
    } else {
        if (before)
            vec_push(&s->doomed, before->revision);
        struct entry *e = store_entry_make(s, o);
        if (deleted) {
            vec_push(&s->doomed, o->revision);
            e->head = o; // its key, while it goes
            store_entry_show(s, e, NULL);
            store_entry_drop(s, e);
        } else {
            store_entry_show(s, e, o);
        }
    }
    object_unref(o);
}

static int store_load_objects(struct store *s, const struct store_options *options, struct db **ret,
                              struct err *err)
{
    struct db *db;
    struct db_state state;
    int r = db_open(options, &db, &state, err);
    if (r < 0)
        return r;
    struct loading l = {s, state.oldest};
    s->history.oldest = state.oldest;
    r = db_load(db, &state, s->customs, store_load_row, &l, err);
    if (r < 0) {
        db_abandon(db);
        return r;
    }
    s->visible = state.revision;
    s->next = state.revision + 1;
    room_fall_back(&s->room); // all that is visible is accepted
    s->low = db_is_low(db);
    history_trim(s);
    *ret = db;
    return 0;
}

static int store_open_once(const struct store_options *options, struct store **ret, struct err *err)
{
    struct store *s = xcalloc(1, sizeof(*s));
    s->exec = options->exec;
    s->pending_max = options->pending_bytes ? options->pending_bytes : STORE_PENDING_BYTES_MAX;
    s->room.max = options->max_bytes;
    s->room.share_percent =
        options->namespace_percent ? options->namespace_percent : STORE_NAMESPACE_PERCENT;
    s->customs = custom_kinds_new();
    grow_kinds(s, api_kinds_len);
    s->next = 1;
    s->history.max_events =
        options->history_events ? options->history_events : STORE_HISTORY_EVENTS;
    s->history.max_bytes = options->history_bytes ? options->history_bytes : STORE_HISTORY_BYTES;
    struct commit_options commit = {
        .exec = options->exec,
        .on_exec = options->commit_on_exec || !options->path,
        .fail = options->fail_commit,
        .fail_arg = options->fail_commit_arg,
        .finished = store_commit_finished,
        .arg = s,
    };
    int r = options->path ? store_load_objects(s, options, &commit.db, err) : 0;
    if (r == 0)
        r = committer_new(&commit, &s->committer, err);
    if (r < 0) {
        store_close(s);
        return r;
    }
    committer_doom(s->committer, &s->doomed, s->history.oldest);
    *ret = s;
    return 0;
}

int store_open(const struct store_options *options, struct store **ret, struct err *err)
{
    int r = store_open_once(options, ret, err);
    if (r != -ERR_INVALID || !options->salvage || !options->path || options->vfs)
        return r;
    options->salvage(options->salvage_arg, err ? err->msg : "the database is damaged");
    r = salvage_database(options, err);
    return r < 0 ? r : store_open_once(options, ret, err);
}

static void kind_state_free(struct kind_state *k)
{
    if (!k)
        return;
    assert(list_empty(&k->watches));
    sorted_done(&k->index);
    map_foreach(&k->namespaces, i) {
        free((char *)(uintptr_t)map_key(&k->namespaces, i).p);
    }
    map_done(&k->namespaces);
    free(k);
}

void store_close(struct store *s)
{
    if (!s)
        return;
    committer_close(s->committer);
    assert(!s->pending_first);
    history_done(s);
    for (size_t i = 0; i < s->entries.slots_len; i++) {
        struct entry *e = s->entries.slots[i];
        if (e)
            object_unref(e->visible);
        free(e);
    }
    index_table_done(&s->entries);
    for (size_t i = 0; i < s->kinds_len; i++)
        kind_state_free(s->kinds[i]);
    free(s->kinds);
    custom_kinds_free(s->customs);
    room_done(&s->room);
    vec_done(&s->doomed);
    free(s);
}

// --- Care ----------------------------------------------------------------------------------------

void store_backup(struct store *s, const char *path, store_done_fn done, void *arg)
{
    committer_backup(s->committer, path, done, arg);
}

void store_get_stats(const struct store *s, struct store_stats *ret)
{
    *ret = (struct store_stats){
        .objects = s->objects,
        .object_bytes = s->room.all.visible,
        .history_events = s->history.n,
        .history_bytes = s->history.bytes,
        .commits = s->commits,
        .writes = s->writes,
        .failing = s->failing,
        .low = s->low,
    };
}
