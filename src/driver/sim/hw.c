// SPDX-License-Identifier: Apache-2.0
//
// Simulated devices: setting them up for claims, undoing it, looking whether they still are.
#include "driver/sim/hw.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "codec/json_writer.h"
#include "os/file.h"

#include "base/banned.h"

// --- Finding -------------------------------------------------------------------------------------

const struct hw_device *hw_find(const struct hw_driver *d, struct str pool, struct str device)
{
    vec_foreach(&d->devices, one)
        if (str_eq(one->pool, pool) && str_eq(one->device->name, device))
            return one;
    return NULL;
}

// An attribute by its name; one that is given without domain is found with any.
static const struct api_device_attribute *hw_find_attribute(const struct hw_device *d,
                                                            struct str name)
{
    for (size_t i = 0; i < d->device->attributes.n; i++) {
        struct str key = d->device->attributes.p[i].key;
        ptrdiff_t slash = str_find_char(key, '/');
        if (str_eq(key, name) || (slash >= 0 && str_eq(str_from(key, (size_t)slash + 1), name)))
            return &d->device->attributes.p[i].value;
    }
    return NULL;
}

struct str hw_text(const struct hw_device *d, const char *name)
{
    const struct api_device_attribute *a = hw_find_attribute(d, str_z(name));
    return a && a->has_string_value ? a->string_value : STR("");
}

int64_t hw_int(const struct hw_device *d, const char *name)
{
    const struct api_device_attribute *a = hw_find_attribute(d, str_z(name));
    return a && a->has_int_value ? a->int_value : -1;
}

// hw_number is the number at the end of a device's name, or -1.
static int64_t hw_number(struct str device)
{
    size_t i = device.n;
    int64_t n = -1;
    while (i > 0 && device.p[i - 1] >= '0' && device.p[i - 1] <= '9')
        i--;
    return str_to_i64(str_from(device, i), &n) == 0 ? n : -1;
}

static void hw_write_directory(const struct hw_driver *d, const char *pool, const char *device,
                               struct sbuf *out)
{
    sbuf_addf(out, "%s/", d->hw);
    for (const char *p = pool; *p; p++)
        sbuf_addc(out, *p == '/' ? '.' : *p);
    sbuf_addf(out, "_%s", device);
}

static int hw_set_error(const struct err *from, struct dray_error *err)
{
    return dray_fail(err, "%s", from->msg);
}

// --- The identity --------------------------------------------------------------------------------

int hw_write_identity(const struct hw_driver *d, const struct hw_device *device, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0}, path = {0};
    struct json_writer w = {.out = &text, .indent = 2};
    const struct str pairs[][2] = {{STR("driver"), str_z(d->name)},
                                   {STR("node"), str_z(d->node)},
                                   {STR("pool"), device->pool}};
    json_write_object_begin(&w);
    for (size_t i = 0; i < array_len(pairs); i++) {
        json_write_key(&w, pairs[i][0]);
        json_write_str(&w, pairs[i][1]);
    }
    json_write_key(&w, STR("device"));
    int r = api_json_write(&api_device_type, device->device, &w, err);
    json_write_object_end(&w);
    sbuf_addc(&text, '\n');
    cleanup_free char *pool = xstrndup(device->pool.p, device->pool.n);
    cleanup_free char *name = xstrndup(device->device->name.p, device->device->name.n);
    hw_write_directory(d, pool, name, &path);
    if (r == 0)
        r = file_make_dirs(path.p, 0755, err);
    sbuf_addz(&path, "/identity");
    return r == 0 ? file_ensure_atomic(AT_FDCWD, path.p, sbuf_str(&text), 0644, err) : r;
}

// --- Who a device is set up for ------------------------------------------------------------------

struct setups {
    struct arena arena;
    struct VEC(struct str) uids;
    struct VEC(struct str) texts;
};

static void setups_done(struct setups *s)
{
    vec_done(&s->uids);
    vec_done(&s->texts);
    arena_done(&s->arena);
}

static void read_setups(const char *folder, const char *except, struct setups *ret)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *e; (e = file_next_entry(dir));) {
        struct str name = str_z(e->d_name);
        if (!str_starts(name, STR("claim.")) || str_eqz(str_from(name, 6), except))
            continue;
        cleanup_sbuf struct sbuf path = {0}, text = {0};
        sbuf_addf(&path, "%s/%s", folder, e->d_name);
        if (file_read(path.p, 65536, &text, NULL) != 0)
            continue;
        vec_push(&ret->uids, arena_str(&ret->arena, str_from(name, 6)));
        vec_push(&ret->texts, arena_str(&ret->arena, sbuf_str(&text)));
    }
    (void)closedir(dir);
}

// --- Counters: partitions that overlap cannot exist together
// ---------------------------------------

struct total {
    struct str set, counter;
    struct quantity used;
};
struct totals VEC(struct total);

static void add_use(struct totals *t, const struct api_device *d, struct arena *a)
{
    for (size_t i = 0; i < d->consumes_counters.n; i++) {
        const struct api_device_counter_consumption *c = &d->consumes_counters.p[i];
        for (size_t k = 0; k < c->counters.n; k++) {
            struct total *to = NULL;
            vec_foreach(t, one)
                if (str_eq(one->set, c->counter_set) && str_eq(one->counter, c->counters.p[k].key))
                    to = one;
            if (to) {
                quantity_add(&to->used, &to->used, &c->counters.p[k].value.value, a);
                continue;
            }
            vec_push_arena(a, t,
                           ((struct total){c->counter_set, c->counters.p[k].key,
                                           c->counters.p[k].value.value}));
        }
    }
}

// The device whose folder has this name. Folders come into being when a device is first used, so
// there are few.
static const struct hw_device *device_of_folder(const struct hw_driver *d, struct str name)
{
    vec_foreach(&d->devices, one) {
        struct str device = one->device->name;
        size_t n = one->pool.n + 1 + device.n;
        if (name.n == n && str_ends(name, device) && name.p[one->pool.n] == '_')
            return one;
    }
    return NULL;
}

// Adds what devices take that are set up for other claims.
static void add_used(const struct hw_driver *d, const char *except, struct totals *t,
                     struct arena *a)
{
    DIR *dir = opendir(d->hw);
    if (!dir)
        return;
    for (const struct dirent *e; (e = file_next_entry(dir));) {
        const struct hw_device *one = device_of_folder(d, str_z(e->d_name));
        if (!one || one->device->consumes_counters.n == 0)
            continue;
        cleanup_sbuf struct sbuf folder = {0};
        struct setups s = {0};
        sbuf_addf(&folder, "%s/%s", d->hw, e->d_name);
        read_setups(folder.p, except, &s);
        if (s.uids.n > 0)
            add_use(t, one->device, a);
        setups_done(&s);
    }
    (void)closedir(dir);
}

static const struct quantity *capacity_of(const struct hw_driver *d, const struct total *t)
{
    for (size_t s = 0; s < d->counters.n; s++) {
        const struct api_counter_set *set = &d->counters.p[s];
        for (size_t i = 0; str_eq(set->name, t->set) && i < set->counters.n; i++)
            if (str_eq(set->counters.p[i].key, t->counter))
                return &set->counters.p[i].value.value;
    }
    return NULL;
}

// Whether the wanted devices fit beside all that are set up for others.
static int hw_check_counters(const struct hw_driver *d, const struct dray_claim *claim,
                             struct dray_error *err)
{
    if (d->counters.n == 0)
        return 0;
    cleanup_arena struct arena a = {0};
    struct totals t = {0};
    for (size_t i = 0; i < claim->devices_len; i++) {
        const struct hw_device *one =
            hw_find(d, str_z(claim->devices[i].pool), str_z(claim->devices[i].device));
        if (one && !claim->devices[i].admin_access)
            add_use(&t, one->device, &a);
    }
    if (t.n == 0)
        return 0;
    add_used(d, claim->uid, &t, &a);
    vec_foreach(&t, one) {
        const struct quantity *all = capacity_of(d, one);
        if (all && quantity_cmp(&one->used, all) > 0)
            return dray_fail(err,
                             "the devices overlap with one that is in use: counter %.*s of %.*s",
                             STR_ARG(one->counter), STR_ARG(one->set));
    }
    return 0;
}

// --- Prepare -------------------------------------------------------------------------------------

// Exclusive devices refuse a second claim, as hardware would.
static int hw_check_owner(const struct dray_allocated *a, const struct setups *s,
                          struct dray_error *err)
{
    if (a->admin_access || a->share_id || s->uids.n == 0)
        return 0;
    vec_foreach(&s->texts, text)
        if (!str_contains(*text, STR("\"admin\":true")))
            return dray_fail(err, "device %s is set up for claim %.*s", a->device,
                             STR_ARG(s->uids.p[0]));
    return 0;
}

static void hw_describe_device(const struct hw_setting *s)
{
    const struct api_device_attribute_map *all = &s->device->device->attributes;
    for (size_t i = 0; i < all->n; i++) {
        if (!all->p[i].value.has_string_value)
            continue;
        cleanup_free char *key = xstrndup(all->p[i].key.p, all->p[i].key.n);
        cleanup_free char *value =
            xstrndup(all->p[i].value.string_value.p, all->p[i].value.string_value.n);
        dray_describe(s->out, s->index, key, value);
    }
}

// A name for an environment variable out of one for a capacity.
static void add_env_word(struct sbuf *out, const char *word)
{
    for (; *word; word++) {
        bool lower = *word >= 'a' && *word <= 'z';
        bool kept = (*word >= 'A' && *word <= 'Z') || (*word >= '0' && *word <= '9');
        char other = kept ? *word : '_';
        sbuf_addc(out, lower ? (char)(*word - 'a' + 'A') : other);
    }
}

// The names the example driver uses: GPU_DEVICE_0=gpu-0 and what begins like it.
static void show_env(const struct hw_setting *s)
{
    cleanup_sbuf struct sbuf name = {0};
    hw_env_name(s, &name);
    size_t stem = name.n;
    dray_env(s->out, s->index, name.p, s->allocated->device);
    sbuf_addz(&name, "_RESOURCE_CLAIM");
    dray_env(s->out, s->index, name.p, s->claim->uid);
    struct str uuid = hw_text(s->device, "uuid");
    if (uuid.n) {
        cleanup_free char *value = xstrndup(uuid.p, uuid.n);
        sbuf_truncate(&name, stem);
        sbuf_addz(&name, "_UUID");
        dray_env(s->out, s->index, name.p, value);
    }
    for (size_t i = 0; i < s->allocated->consumed_len; i++) {
        sbuf_truncate(&name, stem);
        sbuf_addc(&name, '_');
        add_env_word(&name, s->allocated->consumed[i].name);
        dray_env(s->out, s->index, name.p, s->allocated->consumed[i].quantity);
    }
}

void hw_env_name(const struct hw_setting *s, struct sbuf *out)
{
    int64_t number = hw_number(s->device->device->name);
    sbuf_addf(out, "%s_DEVICE_%lld", s->driver->family->env,
              (long long)(number >= 0 ? number : (int64_t)s->index));
}

// What every simulated device shows: its identity as a file, its names in the environment.
static void hw_write_state(const struct hw_setting *s)
{
    cleanup_sbuf struct sbuf identity = {0}, inside = {0};
    show_env(s);
    sbuf_addf(&identity, "%s/identity", s->folder);
    sbuf_addf(&inside, "/var/run/dray/devices/%s/%s", s->driver->name, s->allocated->device);
    dray_mount(s->out, s->index, identity.p, inside.p, NULL);
    dray_condition(s->out, s->index, "Ready", true, "SetUp", "the simulated device is set up");
    hw_describe_device(s);
}

static int hw_set_up(struct hw_driver *d, struct hw_setting s, struct dray_error *err)
{
    cleanup_sbuf struct sbuf folder = {0}, path = {0}, text = {0};
    struct setups others = {0};
    struct err why = {0};
    hw_write_directory(d, s.allocated->pool, s.allocated->device, &folder);
    read_setups(folder.p, s.claim->uid, &others);
    s.folder = folder.p;
    s.setup = &text;
    s.texts = others.texts.p;
    s.texts_len = others.texts.n;
    sbuf_addf(&text, "{\"admin\":%s", s.allocated->admin_access ? "true" : "false");
    int r = hw_check_owner(s.allocated, &others, err);
    if (r == 0)
        r = hw_configure(&s, err);
    setups_done(&others);
    if (r != 0)
        return r;
    sbuf_addz(&text, "}\n");
    sbuf_addf(&path, "%s/claim.%s", folder.p, s.claim->uid);
    if (hw_write_identity(d, s.device, &why) != 0 ||
        file_replace_atomic(AT_FDCWD, path.p, sbuf_str(&text), 0644, &why) != 0)
        return hw_set_error(&why, err);
    hw_write_state(&s);
    return 0;
}

static void sleep_ms(int64_t ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

// What a fault makes of a call: slow, failing, or the end.
static int hw_apply_fault(struct hw_driver *d, enum fault_kind failure,
                          const struct dray_claim *claim, struct dray_error *err)
{
    struct fault f;
    for (size_t i = 0; i < claim->devices_len; i++) {
        struct str device = str_z(claim->devices[i].device);
        if (fault_file_find(&d->faults, FAULT_SLOW_PREPARE, device, &f)) {
            sleep_ms(f.ms);
            break;
        }
    }
    for (size_t i = 0; i < claim->devices_len; i++) {
        struct str device = str_z(claim->devices[i].device);
        if (fault_file_find(&d->faults, failure, device, &f))
            return dray_fail(err, "device %s: the simulated fault \"%s\"", claim->devices[i].device,
                             fault_kind_name(failure));
        if (failure == FAULT_PREPARE && fault_file_find(&d->faults, FAULT_LOST, device, &f))
            return dray_fail(err, "device %s does not answer", claim->devices[i].device);
    }
    return 0;
}

// A node that reads and writes nothing, so that a container can see its device.
static void hw_add_node(const struct hw_setting *s)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "/dev/%s", s->allocated->device);
    dray_device_node(s->out, s->index, path.p, "/dev/null", "rw");
}

int hw_prepare(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
               struct dray_error *err)
{
    struct hw_driver *d = arg;
    int r = hw_apply_fault(d, FAULT_PREPARE, claim, err);
    if (r == 0 && d->family->check)
        r = d->family->check(d, claim, err);
    if (r == 0)
        r = hw_check_counters(d, claim, err);
    for (size_t i = 0; r == 0 && i < claim->devices_len; i++) {
        struct hw_setting s = {
            .driver = d, .claim = claim, .allocated = &claim->devices[i], .out = out, .index = i};
        s.device = hw_find(d, str_z(s.allocated->pool), str_z(s.allocated->device));
        if (!s.device)
            r = dray_fail(err, "there is no device %s in pool %s", s.allocated->device,
                          s.allocated->pool);
        else
            r = hw_set_up(d, s, err);
        if (r == 0 && d->sim->o.device_nodes)
            hw_add_node(&s);
    }
    dray_env(out, DRAY_ALL, "DRA_RESOURCE_DRIVER_NAME", d->name);
    return r;
}

// --- Unprepare, verify ---------------------------------------------------------------------------

static int hw_release_device(const char *device_folder, const char *uid, struct dray_error *err)
{
    cleanup_sbuf struct sbuf path = {0};
    struct err why = {0};
    sbuf_addf(&path, "%s/claim.%s", device_folder, uid);
    return file_remove(path.p, &why) == 0 ? 0 : hw_set_error(&why, err);
}

// Nothing is known of the claim but its name: every device is looked at.
static int release_all(struct hw_driver *d, const char *uid, struct dray_error *err)
{
    DIR *dir = opendir(d->hw);
    int r = 0;
    for (const struct dirent *e; dir && r == 0 && (e = file_next_entry(dir));) {
        if (e->d_name[0] == '.')
            continue;
        cleanup_sbuf struct sbuf folder = {0};
        sbuf_addf(&folder, "%s/%s", d->hw, e->d_name);
        r = hw_release_device(folder.p, uid, err);
    }
    if (dir)
        (void)closedir(dir);
    return r;
}

int hw_unprepare(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    struct hw_driver *d = arg;
    int r = hw_apply_fault(d, FAULT_UNPREPARE, claim, err);
    for (size_t i = 0; r == 0 && i < claim->devices_len; i++) {
        cleanup_sbuf struct sbuf folder = {0};
        hw_write_directory(d, claim->devices[i].pool, claim->devices[i].device, &folder);
        r = hw_release_device(folder.p, claim->uid, err);
    }
    return r == 0 && claim->devices_len == 0 ? release_all(d, claim->uid, err) : r;
}

int hw_verify(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    const struct hw_driver *d = arg;
    for (size_t i = 0; i < claim->devices_len; i++) {
        cleanup_sbuf struct sbuf path = {0};
        hw_write_directory(d, claim->devices[i].pool, claim->devices[i].device, &path);
        size_t n = path.n;
        sbuf_addf(&path, "/claim.%s", claim->uid);
        bool there = access(path.p, F_OK) == 0;
        sbuf_truncate(&path, n);
        sbuf_addz(&path, "/identity");
        if (!there || access(path.p, R_OK) != 0)
            return dray_fail(err, "device %s is not set up any more", claim->devices[i].device);
    }
    return 0;
}

// --- Attach --------------------------------------------------------------------------------------

// Attaching takes time; the driver is asked again until it is over.
static bool still_attaching(struct hw_driver *d, const char *uid, const char *device, int64_t ms)
{
    cleanup_sbuf struct sbuf key = {0};
    int64_t now = clock_mono_ns(clock_system());
    sbuf_addf(&key, "%s/%s", uid, device);
    vec_foreach(&d->attachings, a) {
        if (strcmp(a->key, key.p) != 0)
            continue;
        if (now < a->due_ns)
            return true;
        free(a->key);
        *a = d->attachings.p[--d->attachings.n];
        return false;
    }
    if (ms == 0)
        return false;
    const struct hw_attaching begun = {.due_ns = now + ms * CLOCK_NS_PER_MS,
                                       .key = sbuf_take(&key)};
    vec_push(&d->attachings, begun);
    return true;
}

int hw_attach(void *arg, const struct dray_claim *claim, const struct dray_allocated *device,
              struct dray_error *err)
{
    struct hw_driver *d = arg;
    struct fault f = {.ms = d->sim->o.attach_ms};
    (void)fault_file_find(&d->faults, FAULT_SLOW_ATTACH, str_z(device->device), &f);
    if (still_attaching(d, claim->uid, device->device, f.ms))
        return DRAY_PENDING;
    if (fault_file_find(&d->faults, FAULT_ATTACH, str_z(device->device), &f))
        return dray_fail(err, "device %s of pool %s cannot be attached: simulated fault",
                         device->device, device->pool);
    return 0;
}
