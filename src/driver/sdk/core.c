// SPDX-License-Identifier: Apache-2.0
//
// The order of steps around a callback: intent, callback, journal, answer. After a crash at any
// point, a retry finds what was done and does the rest.
#include "driver/sdk/core.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "base/map.h"
#include "base/vec.h"
#include "cdi/name.h"
#include "codec/json.h"
#include "codec/rfc3339.h"
#include "driver/sdk/intents.h"
#include "driver/sdk/outcome.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

// What is known of a claim's journal, and of which state of the file.
struct held {
    struct arena arena;
    struct journal_entry entry;
    char *uid; // the key, and the file's name
    bool good; // there is an entry
    bool damaged;
    bool seen; // by the scan that runs
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct helds MAP(struct held *);

struct core {
    struct core_options o; // texts in arena
    struct arena arena;
    struct str claims_dir;
    pthread_mutex_t lock; // guards helds; held for looking things up, never while anything blocks
    struct helds helds;
    struct intents *intents; // NULL: journals are synced themselves
    bool unsettled;          // some are in intents only
    int lock_fd;
};

// --- Journals ------------------------------------------------------------------------------------

static void held_free(struct held *h)
{
    arena_done(&h->arena);
    free(h->uid);
    free(h);
}

static void journal_path(const struct core *c, const char *uid, struct sbuf *out)
{
    sbuf_addf(out, "%.*s/%s.journal", STR_ARG(c->claims_dir), uid);
}

static bool core_same_file(const struct held *h, const struct stat *st)
{
    return h->inode == st->st_ino && h->size == st->st_size &&
           h->changed.tv_sec == st->st_mtim.tv_sec && h->changed.tv_nsec == st->st_mtim.tv_nsec;
}

static struct held *core_load_held(const char *path, const char *uid, const struct stat *st)
{
    struct held *h = xcalloc(1, sizeof(*h));
    cleanup_sbuf struct sbuf text = {0};
    h->uid = xstrndup(uid, strlen(uid));
    h->inode = st->st_ino;
    h->size = st->st_size;
    h->changed = st->st_mtim;
    if (file_read(path, JOURNAL_BYTES_MAX, &text, NULL) != 0)
        h->damaged = true;
    else
        h->good = journal_read(sbuf_str(&text), &h->arena, &h->entry, &h->damaged) == 0;
    // A journal that speaks of another claim was put there by somebody else.
    if (h->good && strcmp(h->entry.claim.uid, uid) != 0) {
        h->good = false;
        h->damaged = true;
    }
    return h;
}

static void core_forget_held(struct core *c, const char *uid)
{
    pthread_mutex_lock(&c->lock);
    struct held **at = map_get(&c->helds, str_z(uid));
    struct held *h = at ? *at : NULL;
    if (h)
        map_del(&c->helds, str_z(uid));
    pthread_mutex_unlock(&c->lock);
    if (h)
        held_free(h);
}

// Reads a journal unless it is as it was. What was known of it before is void then.
static struct held *core_find_held(struct core *c, const char *uid)
{
    cleanup_sbuf struct sbuf path = {0};
    journal_path(c, uid, &path);
    struct stat st;
    if (stat(path.p, &st) != 0) {
        core_forget_held(c, uid);
        return NULL;
    }
    struct held **at = map_get(&c->helds, str_z(uid));
    if (at && core_same_file(*at, &st))
        return *at;
    struct held *h = core_load_held(path.p, uid, &st);
    core_forget_held(c, uid);
    pthread_mutex_lock(&c->lock);
    *map_put(&c->helds, str_z(h->uid)) = h;
    pthread_mutex_unlock(&c->lock);
    return h;
}

// Looks at all journals: another instance of the driver may have changed them.
static int core_scan_directory(struct core *c, struct err *err)
{
    DIR *dir = opendir(c->claims_dir.p);
    if (!dir)
        return err_set(err, errno, "cannot read %s: %s", c->claims_dir.p, strerrordesc_np(errno));
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        (*h)->seen = false;
    }
    for (const struct dirent *e; (e = file_next_entry(dir));) {
        struct str name = str_z(e->d_name);
        if (!str_ends(name, STR(".journal")))
            continue;
        cleanup_free char *uid = xstrndup(name.p, name.n - strlen(".journal"));
        struct held *h = core_find_held(c, uid);
        if (h)
            h->seen = true;
    }
    (void)closedir(dir);
    struct VEC(char *) gone = {0};
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        if (!(*h)->seen)
            vec_push(&gone, xstrndup((*h)->uid, strlen((*h)->uid)));
    }
    vec_foreach(&gone, uid) {
        core_forget_held(c, *uid);
        free(*uid);
    }
    vec_done(&gone);
    return 0;
}

static bool core_was_rebooted(const struct core *c, const struct held *h)
{
    return h->good && !str_eqz(h->entry.boot, c->o.boot_id);
}

// What follows a promise need not be on the disk: it is for processes that die, not for machines.
static int core_append_entry(struct core *c, const struct journal_entry *e, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, line = {0};
    journal_path(c, e->claim.uid, &path);
    journal_write(e, &line);
    return file_append(path.p, sbuf_str(&line), err);
}

static bool core_is_held(void *arg, const char *uid)
{
    struct core *c = arg;
    return map_get(&c->helds, str_z(uid)) != NULL;
}

// Writes down that a claim is going to be prepared; it is on the disk when this returns.
static int core_write_intent(struct core *c, const struct journal_entry *e, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, line = {0};
    journal_path(c, e->claim.uid, &path);
    journal_write(e, &line);
    int stored = c->intents
                     ? intents_put(c->intents, e->claim.uid, sbuf_str(&line), core_is_held, c, err)
                     : 0;
    if (stored < 0)
        return stored;
    c->unsettled = c->unsettled || stored;
    return stored ? file_append(path.p, sbuf_str(&line), err)
                  : file_append_durable(path.p, sbuf_str(&line), err);
}

static int remove_journal(struct core *c, const char *uid, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    journal_path(c, uid, &path);
    int r = file_remove(path.p, err);
    if (r != 0)
        return r;
    if (c->intents)
        intents_clear(c->intents, uid);
    core_forget_held(c, uid);
    return 0;
}

// --- Files of a claim ----------------------------------------------------------------------------

static void spec_path(const struct core *c, const char *uid, struct sbuf *out)
{
    sbuf_addf(out, "%s/", c->o.cdi_dir);
    cdi_file_name(out, str_z(c->o.driver), str_z(c->o.cdi_class), str_z(uid));
    sbuf_addz(out, ".json");
}

static void metadata_dir(const struct core *c, const struct dray_claim *claim, struct sbuf *out)
{
    sbuf_addf(out, "%s/dra-device-metadata/%s_%s", c->o.data_dir, claim->namespace_, claim->name);
}

static int ensure_metadata(struct core *c, const struct journal_entry *e, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    if (e->metadata.n == 0)
        return 0;
    const struct json_options options = {.max_bytes = JOURNAL_BYTES_MAX};
    int r = json_parse(e->metadata, &options, &doc, err);
    if (r != 0 || !json_is_array(doc.root))
        return r;
    json_arr_foreach(doc.root, item) {
        const yyjson_val *request = json_get(item, STR("request"));
        const yyjson_val *file = json_get(item, STR("file"));
        if (!request || !file || !json_is_string(request) || !json_is_string(file) ||
            str_find_char(json_str(request), '/') >= 0)
            return err_set(err, ERR_INTERNAL, "the journal's metadata make no sense");
        cleanup_sbuf struct sbuf path = {0};
        metadata_dir(c, &e->claim, &path);
        sbuf_addf(&path, "/%.*s", STR_ARG(json_str(request)));
        r = file_make_dirs(path.p, 0755, err);
        sbuf_addz(&path, "/metadata.json");
        if (r == 0)
            r = file_ensure_atomic(AT_FDCWD, path.p, json_str(file), 0644, err);
        if (r != 0)
            return r;
    }
    return 0;
}

// Makes the files that containers of a prepared claim need, as far as they are missing.
static int ensure_files(struct core *c, const struct journal_entry *e, struct err *err)
{
    int r = ensure_metadata(c, e, err);
    if (r != 0 || e->spec.n == 0)
        return r;
    cleanup_sbuf struct sbuf path = {0}, bytes = {0};
    spec_path(c, e->claim.uid, &path);
    sbuf_add(&bytes, e->spec);
    sbuf_addc(&bytes, '\n');
    r = file_make_dirs(c->o.cdi_dir, 0755, err);
    return r == 0 ? file_ensure_atomic(AT_FDCWD, path.p, sbuf_str(&bytes), 0644, err) : r;
}

static int remove_files(struct core *c, const struct dray_claim *claim, struct err *err)
{
    cleanup_sbuf struct sbuf spec = {0}, metadata = {0};
    spec_path(c, claim->uid, &spec);
    metadata_dir(c, claim, &metadata);
    int r = file_remove(spec.p, err);
    return r == 0 ? file_remove_tree(metadata.p, err) : r;
}

// --- Calling the driver --------------------------------------------------------------------------

static int core_callback_error(const struct dray_error *from, struct err *err)
{
    int r = err_set(err, ERR_INTERNAL, "%s%s%s", from->field, from->field[0] ? ": " : "",
                    from->message[0] ? from->message : "the driver gives no reason");
    return r;
}

static int call_unprepare(struct core *c, const struct dray_claim *claim, struct err *err)
{
    int r = fault_check("call unprepare", err);
    if (r != 0 || !c->o.callbacks.unprepare)
        return r;
    struct dray_error why = {0};
    if (c->o.callbacks.unprepare(c->o.arg, claim, &why) < 0)
        return core_callback_error(&why, err);
    return fault_check("after unprepare", err);
}

static int call_verify(struct core *c, const struct dray_claim *claim, struct err *err)
{
    struct dray_error why = {0};
    if (!c->o.callbacks.verify || c->o.callbacks.verify(c->o.arg, claim, &why) >= 0)
        return 0;
    return core_callback_error(&why, err);
}

static int call_prepare(struct core *c, struct journal_entry *e, struct arena *arena,
                        struct err *err)
{
    struct dray_outcome outcome;
    outcome_init(&outcome, &e->claim, arena);
    int r = fault_check("call prepare", err);
    if (r != 0)
        return r;
    struct dray_error why = {0};
    if (c->o.callbacks.prepare(c->o.arg, &e->claim, &outcome, &why) < 0)
        return core_callback_error(&why, err);
    r = fault_check("after prepare", err);
    if (r != 0)
        return r;
    cleanup_sbuf struct sbuf now = {0}, metadata = {0};
    rfc3339_write_seconds(moment_from_ns(clock_wall_ns(c->o.clock)), &now);
    if (c->o.metadata)
        metadata_dir(c, &e->claim, &metadata);
    const struct outcome_names names = {str_z(c->o.driver), str_z(c->o.cdi_class),
                                        arena_str(arena, sbuf_str(&metadata))};
    return outcome_finish(&outcome, &names, sbuf_str(&now), e, err);
}

// --- Unprepare -----------------------------------------------------------------------------------

// The spec goes first, so that no container gets a device that is being reset; the journal last.
static int core_undo_claim(struct core *c, struct held *h, struct err *err)
{
    int r = 0;
    struct dray_claim claim = h->entry.claim;
    claim.rebooted = core_was_rebooted(c, h);
    if (h->entry.step != JOURNAL_UNPREPARING) {
        struct journal_entry e = h->entry;
        e.step = JOURNAL_UNPREPARING;
        e.spec = e.status = e.metadata = STR("");
        r = core_append_entry(c, &e, err);
    }
    if (r == 0)
        r = remove_files(c, &claim, err);
    if (r == 0)
        r = call_unprepare(c, &claim, err);
    cleanup_free char *uid = xstrndup(h->uid, strlen(h->uid));
    return r == 0 ? remove_journal(c, uid, err) : r; // h is gone
}

// A journal without a good line: either nothing was done yet, or it rotted. The driver is asked to
// look for itself.
static int undo_unknown(struct core *c, const struct dray_claim *claim, struct err *err)
{
    struct dray_claim empty = *claim;
    empty.devices = NULL;
    empty.devices_len = 0;
    int r = remove_files(c, claim, err);
    if (r == 0)
        r = call_unprepare(c, &empty, err);
    return r == 0 ? remove_journal(c, claim->uid, err) : r;
}

// --- Prepare -------------------------------------------------------------------------------------

static bool core_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool core_same_device(const struct dray_allocated *a, const struct dray_allocated *b)
{
    return strcmp(a->pool, b->pool) == 0 && strcmp(a->device, b->device) == 0;
}

static bool same_devices(const struct dray_claim *a, const struct dray_claim *b)
{
    if (a->devices_len != b->devices_len)
        return false;
    for (size_t i = 0; i < a->devices_len; i++) {
        if (!core_same_device(&a->devices[i], &b->devices[i]) ||
            !core_same_text(a->devices[i].share_id, b->devices[i].share_id) ||
            strcmp(a->devices[i].request_ref, b->devices[i].request_ref) != 0)
            return false;
    }
    return true;
}

static bool may_both(const struct dray_allocated *a, const struct dray_allocated *b)
{
    if (a->admin_access || b->admin_access)
        return true;
    return a->share_id && b->share_id && strcmp(a->share_id, b->share_id) != 0;
}

static int core_check_conflict(const struct held *h, const struct dray_claim *claim,
                               struct err *err)
{
    for (size_t i = 0; i < claim->devices_len; i++) {
        for (size_t k = 0; k < h->entry.claim.devices_len; k++) {
            const struct dray_allocated *mine = &claim->devices[i];
            const struct dray_allocated *theirs = &h->entry.claim.devices[k];
            if (core_same_device(mine, theirs) && !may_both(mine, theirs))
                return err_set(
                    err, ERR_CONFLICT,
                    "device %s of pool %s still belongs to claim %s/%s (%s), which was not "
                    "unprepared",
                    mine->device, mine->pool, h->entry.claim.namespace_, h->entry.claim.name,
                    h->uid);
        }
    }
    return 0;
}

static int check_conflicts(struct core *c, const struct dray_claim *claim, struct err *err)
{
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        int r = (*h)->good && strcmp((*h)->uid, claim->uid) != 0
                    ? core_check_conflict(*h, claim, err)
                    : 0;
        if (r != 0)
            return r;
    }
    return 0;
}

// Copies a claim and its journal's content into arena.
static int core_answer_held(const struct held *h, struct arena *arena, struct journal_entry *ret,
                            struct err *err)
{
    cleanup_sbuf struct sbuf line = {0};
    bool damaged;
    journal_write(&h->entry, &line);
    int r = journal_read(sbuf_str(&line), arena, ret, &damaged);
    return r == 0 ? 0 : err_set(err, ERR_INTERNAL, "the journal does not read what it wrote");
}

static int prepare_anew(struct core *c, const struct dray_claim *claim, struct arena *arena,
                        struct journal_entry *ret, struct err *err)
{
    struct held *h = core_find_held(c, claim->uid);
    bool known = h && h->good;
    *ret = (struct journal_entry){
        .step = JOURNAL_PREPARING, .boot = str_z(c->o.boot_id), .claim = *claim};
    ret->claim.rebooted = known && core_was_rebooted(c, h);
    int r = check_conflicts(c, claim, err);
    if (r == 0 && (!known || h->entry.step != JOURNAL_PREPARING || ret->claim.rebooted))
        r = core_write_intent(c, ret, err);
    if (r == 0)
        r = call_prepare(c, ret, arena, err);
    if (r == 0)
        r = ensure_files(c, ret, err);
    ret->step = JOURNAL_PREPARED;
    if (r == 0)
        r = core_append_entry(c, ret, err);
    return r;
}

static int prepare_locked(struct core *c, const struct dray_claim *claim, struct arena *arena,
                          struct journal_entry *ret, struct err *err)
{
    struct held *h = core_find_held(c, claim->uid);
    if (h && h->good &&
        (h->entry.step == JOURNAL_UNPREPARING || !same_devices(&h->entry.claim, claim))) {
        int r = core_undo_claim(c, h, err);
        if (r != 0)
            return err_wrap(err, "what was prepared before must be undone first");
        h = NULL;
    }
    if (h && h->good && h->entry.step == JOURNAL_PREPARED && !core_was_rebooted(c, h) &&
        call_verify(c, &h->entry.claim, NULL) == 0) {
        int r = ensure_files(c, &h->entry, err);
        return r == 0 ? core_answer_held(h, arena, ret, err) : r;
    }
    return prepare_anew(c, claim, arena, ret, err);
}

// --- Life ----------------------------------------------------------------------------------------

// One instance at a time, and one process: flock.
static int core_enter_step(struct core *c, struct err *err)
{
    while (flock(c->lock_fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return err_set(err, errno, "cannot lock %s: %s", c->o.data_dir, strerrordesc_np(errno));
    int r = core_scan_directory(c, err);
    if (r != 0)
        (void)flock(c->lock_fd, LOCK_UN);
    return r;
}

static void core_leave_step(struct core *c, const char *uid)
{
    if (uid)
        (void)core_find_held(c, uid);
    (void)flock(c->lock_fd, LOCK_UN);
}

// The uid becomes a file's name.
static int core_check_claim(const struct dray_claim *claim, struct err *err)
{
    const char *uid = claim->uid;
    size_t n = strlen(uid);
    if (n == 0 || n > 128 || uid[0] == '.' || strchr(uid, '/') || strchr(claim->name, '/') ||
        strchr(claim->namespace_, '/') || claim->devices_len > JOURNAL_DEVICES_MAX)
        return err_set(err, ERR_INVALID, "this is no claim that an API server has made");
    return 0;
}

int core_prepare(struct core *c, const struct dray_claim *claim, struct arena *arena,
                 struct journal_entry *ret, struct err *err)
{
    int r = core_check_claim(claim, err);
    if (r == 0)
        r = core_enter_step(c, err);
    if (r != 0)
        return r;
    r = prepare_locked(c, claim, arena, ret, err);
    core_leave_step(c, claim->uid);
    return r;
}

int core_unprepare(struct core *c, const struct dray_claim *claim, struct err *err)
{
    int r = core_check_claim(claim, err);
    if (r == 0)
        r = core_enter_step(c, err);
    if (r != 0)
        return r;
    struct held *h = core_find_held(c, claim->uid);
    if (h && h->good)
        r = core_undo_claim(c, h, err);
    else if (h)
        r = undo_unknown(c, claim, err);
    else
        r = remove_files(c, claim, err);
    core_leave_step(c, claim->uid);
    return r;
}

// --- Settling ------------------------------------------------------------------------------------

static void settle_one(void *arg, const char *uid, struct str line)
{
    struct core *c = arg;
    cleanup_sbuf struct sbuf path = {0};
    (void)line;
    journal_path(c, uid, &path);
    if (!core_is_held(c, uid) || file_append_durable(path.p, STR(""), NULL) == 0)
        intents_clear(c->intents, uid);
}

bool core_unsettled(const struct core *c)
{
    return c->unsettled;
}

void core_settle(struct core *c)
{
    c->unsettled = false;
    if (!c->intents || core_enter_step(c, NULL) != 0)
        return;
    intents_each(c->intents, settle_one, c);
    core_leave_step(c, NULL);
}

size_t core_in_use(struct core *c, const char *pool, const char *device)
{
    size_t n = 0;
    const struct dray_allocated wanted = {.pool = pool, .device = device};
    pthread_mutex_lock(&c->lock);
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        for (size_t i = 0; (*h)->good && i < (*h)->entry.claim.devices_len; i++)
            n += core_same_device(&(*h)->entry.claim.devices[i], &wanted);
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

void core_foreach(struct core *c, void (*fn)(void *arg, const struct core_held *held), void *arg)
{
    pthread_mutex_lock(&c->lock);
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        const struct core_held held = {&(*h)->entry, core_was_rebooted(c, *h), (*h)->damaged};
        if ((*h)->good)
            fn(arg, &held);
    }
    pthread_mutex_unlock(&c->lock);
}

// --- Looking at what was there before
// -------------------------------------------------------------

static bool spec_is_wanted(struct core *c, struct str uid)
{
    struct held **h = map_get(&c->helds, uid);
    return h && (*h)->good && !core_was_rebooted(c, *h);
}

// Specs of this driver whose claim is unknown, or was prepared before a reboot, are not offered.
static int remove_strays(struct core *c, struct err *err)
{
    cleanup_sbuf struct sbuf prefix = {0};
    cdi_file_name(&prefix, str_z(c->o.driver), str_z(c->o.cdi_class), STR(""));
    sbuf_addc(&prefix, '_');
    file_remove_temporaries(c->o.cdi_dir, sbuf_str(&prefix));
    DIR *dir = opendir(c->o.cdi_dir);
    if (!dir)
        return errno == ENOENT ? 0
                               : err_set(err, errno, "cannot read %s: %s", c->o.cdi_dir,
                                         strerrordesc_np(errno));
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = file_next_entry(dir));) {
        struct str name = str_z(e->d_name);
        if (!str_starts(name, sbuf_str(&prefix)) || !str_ends(name, STR(".json")))
            continue;
        struct str uid = str_make(name.p + prefix.n, name.n - prefix.n - strlen(".json"));
        if (spec_is_wanted(c, uid))
            continue;
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s/%s", c->o.cdi_dir, e->d_name);
        r = file_remove(path.p, err);
    }
    (void)closedir(dir);
    return r;
}

// After a reboot: a journal that did not reach the disk is made again of what was intended.
static void take_intent(void *arg, const char *uid, struct str line)
{
    struct core *c = arg;
    cleanup_arena struct arena arena = {0};
    struct journal_entry e;
    bool damaged;
    bool good = journal_read(line, &arena, &e, &damaged) == 0 && strcmp(e.claim.uid, uid) == 0;
    if (good && str_eqz(e.boot, c->o.boot_id))
        return;
    const struct held *h = good ? core_find_held(c, uid) : NULL;
    if (good && !(h && h->good)) {
        cleanup_sbuf struct sbuf path = {0}, text = {0};
        journal_path(c, uid, &path);
        sbuf_addc(&text, '\n');
        sbuf_add(&text, line);
        if (file_append_durable(path.p, sbuf_str(&text), NULL) != 0)
            return; // the slot stays
        (void)core_find_held(c, uid);
    }
    intents_clear(c->intents, uid);
}

static int core_recover_claims(struct core *c, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/intents", c->o.data_dir);
    // Without it everything works, only slower.
    if (intents_open(path.p, &c->intents, NULL) == 0)
        intents_each(c->intents, take_intent, c);
    int r = remove_strays(c, err);
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        if (r == 0 && (*h)->good && (*h)->entry.step == JOURNAL_PREPARED &&
            !core_was_rebooted(c, *h))
            r = ensure_files(c, &(*h)->entry, err);
    }
    return r;
}

static const char *core_keep_text(struct core *c, const char *text)
{
    return arena_str(&c->arena, str_z(text)).p;
}

static int open_folders(struct core *c, struct err *err)
{
    int r = file_make_dirs(c->claims_dir.p, 0755, err);
    if (r != 0)
        return r;
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/serialize.lock", c->o.data_dir);
    c->lock_fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->lock_fd < 0)
        return err_set(err, errno, "cannot open %s: %s", path.p, strerrordesc_np(errno));
    return 0;
}

int core_open(const struct core_options *options, struct core **ret, struct err *err)
{
    struct core *c = xcalloc(1, sizeof(*c));
    c->o = *options;
    c->o.driver = core_keep_text(c, options->driver);
    c->o.cdi_class = core_keep_text(c, options->cdi_class);
    c->o.data_dir = core_keep_text(c, options->data_dir);
    c->o.cdi_dir = core_keep_text(c, options->cdi_dir);
    c->o.boot_id = core_keep_text(c, options->boot_id);
    c->claims_dir = arena_strf(&c->arena, "%s/claims", c->o.data_dir);
    c->lock_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    int r = cdi_check_vendor(str_z(c->o.driver), err);
    if (r == 0)
        r = cdi_check_class(str_z(c->o.cdi_class), err);
    if (r == 0)
        r = open_folders(c, err);
    if (r == 0)
        r = core_enter_step(c, err);
    if (r == 0) {
        r = core_recover_claims(c, err);
        core_leave_step(c, NULL);
    }
    if (r != 0) {
        core_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void core_free(struct core *c)
{
    if (!c)
        return;
    map_foreach(&c->helds, at) {
        struct held **h = map_value(&c->helds, at);
        held_free(*h);
    }
    map_done(&c->helds);
    intents_close(c->intents);
    if (c->lock_fd >= 0)
        (void)close(c->lock_fd);
    pthread_mutex_destroy(&c->lock);
    arena_done(&c->arena);
    free(c);
}

void core_boot_id(char buf[64])
{
    cleanup_sbuf struct sbuf text = {0};
    struct str id = STR("unknown");
    if (file_read("/proc/sys/kernel/random/boot_id", 64, &text, NULL) == 0)
        id = str_trim(sbuf_str(&text));
    size_t n = id.n < 63 ? id.n : 63;
    memcpy(buf, id.p, n);
    buf[n] = '\0';
}
