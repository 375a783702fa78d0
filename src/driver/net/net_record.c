// SPDX-License-Identifier: Apache-2.0
//
// One JSON file for each prepared device, replaced atomically. The driver and the hook both rely on
// it after a crash.
#include "driver/net/net_record.h"

#include <dirent.h>

#include "codec/json_writer.h"
#include "dray/driver.h"
#include "os/file.h"

#include "base/banned.h"

static const char *const phases[] = {[NET_PLANNED] = "planned",
                                     [NET_ATTACHING] = "attaching",
                                     [NET_ATTACHED] = "attached",
                                     [NET_RETURNING] = "returning",
                                     NULL};

struct str net_record_mark(const struct net_record *rec, struct arena *arena)
{
    return arena_strf(arena, "dray %.*s %.*s", STR_ARG(rec->uid), STR_ARG(rec->device));
}

// net_record_path adds the name of a device's file.
static void net_record_path(struct sbuf *out, const char *dir, struct str device)
{
    sbuf_addf(out, "%s/%.*s.json", dir, STR_ARG(device));
}

// --- Writing -------------------------------------------------------------------------------------

static void net_record_write_json(const struct net_record *rec, struct json_writer *w)
{
    char permanent[NET_MAC_TEXT_MAX];
    net_mac_text(&rec->permanent, permanent);
    json_write_object_begin(w);
    json_write_text_if(w, "phase", str_z(phases[rec->phase]));
    json_write_text_if(w, "boot", rec->boot);
    json_write_text_if(w, "namespace", rec->namespace);
    json_write_text_if(w, "claim", rec->claim);
    json_write_text_if(w, "uid", rec->uid);
    json_write_text_if(w, "pool", rec->pool);
    json_write_text_if(w, "device", rec->device);
    json_write_text_if(w, "what", rec->kind);
    json_write_text_if(w, "parent", rec->parent);
    json_write_number(w, "vlan", rec->vlan);
    json_write_text_if(w, "hostKind", rec->host_kind);
    json_write_text_if(w, "hostAlias", rec->host_alias);
    json_write_flag(w, "hostUp", rec->host_up);
    json_write_text_if(w, "permanentMac", str_z(permanent));
    json_write_text_if(w, "pci", rec->pci);
    json_write_flag(w, "runtimeMoves", rec->runtime_moves);
    if (rec->ns.inode) {
        json_write_number(w, "nsDevice", (int64_t)rec->ns.device);
        json_write_number(w, "nsInode", (int64_t)rec->ns.inode);
        json_write_number(w, "pid", rec->pid);
    }
    json_write_text_if(w, "error", rec->error);
    json_write_text_if(w, "attributes", rec->attributes);
    json_write_key(w, STR("host"));
    net_plan_write(&rec->host, w);
    json_write_key(w, STR("plan"));
    net_plan_write(&rec->plan, w);
    json_write_object_end(w);
}

int net_record_write(const char *dir, const struct net_record *rec, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out, .indent = 1};
    net_record_write_json(rec, &w);
    sbuf_addc(&out, '\n');
    if (out.n > NET_RECORD_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "the interface of %.*s has too many addresses and routes",
                       STR_ARG(rec->device));
    net_record_path(&path, dir, rec->device);
    return file_replace_atomic(AT_FDCWD, path.p, sbuf_str(&out), 0644, err);
}

int net_record_remove(const char *dir, struct str device, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    net_record_path(&path, dir, device);
    return file_remove(path.p, err);
}

// --- Reading -------------------------------------------------------------------------------------

struct written {
    const char *phase, *boot, *namespace, *claim, *uid, *pool, *device, *kind, *parent;
    const char *host_kind, *host_alias, *permanent, *error, *host, *plan, *attributes, *pci;
    int64_t vlan, ns_device, ns_inode, pid;
    bool host_up, runtime_moves;
};

#define MEMBER(type, member) .offset = offsetof(struct type, member)

static const struct dray_field fields[] = {
    {"phase", DRAY_CHOICE, MEMBER(written, phase), .required = true, .choices = phases},
    {"boot", DRAY_TEXT, MEMBER(written, boot)},
    {"namespace", DRAY_TEXT, MEMBER(written, namespace)},
    {"claim", DRAY_TEXT, MEMBER(written, claim)},
    {"uid", DRAY_TEXT, MEMBER(written, uid), .required = true},
    {"pool", DRAY_TEXT, MEMBER(written, pool)},
    {"device", DRAY_TEXT, MEMBER(written, device), .required = true},
    {"what", DRAY_TEXT, MEMBER(written, kind), .required = true},
    {"parent", DRAY_TEXT, MEMBER(written, parent)},
    {"vlan", DRAY_INT, MEMBER(written, vlan), .max = 4094},
    {"hostKind", DRAY_TEXT, MEMBER(written, host_kind)},
    {"hostAlias", DRAY_TEXT, MEMBER(written, host_alias)},
    {"hostUp", DRAY_BOOL, MEMBER(written, host_up)},
    {"permanentMac", DRAY_TEXT, MEMBER(written, permanent)},
    {"pci", DRAY_TEXT, MEMBER(written, pci)},
    {"runtimeMoves", DRAY_BOOL, MEMBER(written, runtime_moves)},
    {"nsDevice", DRAY_INT, MEMBER(written, ns_device)},
    {"nsInode", DRAY_INT, MEMBER(written, ns_inode)},
    {"pid", DRAY_INT, MEMBER(written, pid), .max = INT32_MAX},
    {"error", DRAY_TEXT, MEMBER(written, error)},
    {"attributes", DRAY_TEXT, MEMBER(written, attributes)},
    {"host", DRAY_RAW, MEMBER(written, host), .required = true},
    {"plan", DRAY_RAW, MEMBER(written, plan), .required = true},
    {0},
};
static const struct dray_schema schema = {NULL, NULL, fields, sizeof(struct written)};

static struct str net_record_copy_text(struct arena *a, const char *z)
{
    return z ? arena_str(a, str_z(z)) : STR("");
}

static int net_record_fill(const struct written *w, struct arena *a, struct net_record *rec,
                           struct err *err)
{
    *rec = (struct net_record){.boot = net_record_copy_text(a, w->boot),
                               .namespace = net_record_copy_text(a, w->namespace),
                               .claim = net_record_copy_text(a, w->claim),
                               .uid = net_record_copy_text(a, w->uid),
                               .pool = net_record_copy_text(a, w->pool),
                               .device = net_record_copy_text(a, w->device),
                               .kind = net_record_copy_text(a, w->kind),
                               .parent = net_record_copy_text(a, w->parent),
                               .vlan = (uint16_t)w->vlan,
                               .host_kind = net_record_copy_text(a, w->host_kind),
                               .host_alias = net_record_copy_text(a, w->host_alias),
                               .host_up = w->host_up,
                               .pci = net_record_copy_text(a, w->pci),
                               .runtime_moves = w->runtime_moves,
                               .attributes = net_record_copy_text(a, w->attributes),
                               .ns = {(uint64_t)w->ns_device, (uint64_t)w->ns_inode},
                               .pid = (int)w->pid,
                               .error = net_record_copy_text(a, w->error)};
    for (size_t i = 0; phases[i]; i++)
        if (strcmp(phases[i], w->phase) == 0)
            rec->phase = (enum net_phase)i;
    net_plan_init(&rec->plan);
    net_plan_init(&rec->host);
    int r = w->permanent ? net_mac_read(str_z(w->permanent), &rec->permanent, err) : 0;
    if (r == 0)
        r = net_plan_read(&rec->host, w->host, a, err);
    return r == 0 ? net_plan_read(&rec->plan, w->plan, a, err) : r;
}

int net_record_parse(struct str text_, struct arena *arena, struct net_record *ret, struct err *err)
{
    struct dray_params *params = NULL;
    struct dray_error why = {0};
    cleanup_free char *z = xstrndup(text_.p, text_.n);
    if (dray_decode(z, &schema, 1, NULL, &params, &why) != 0)
        return err_set(err, ERR_INVALID, "%s%s%s", why.field, why.field[0] ? ": " : "",
                       why.message);
    int r = net_record_fill(dray_params_value(params), arena, ret, err);
    dray_params_free(params);
    return r;
}

int net_record_read(const char *dir, struct str device, struct arena *arena, struct net_record *ret,
                    struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_sbuf struct sbuf bytes = {0};
    net_record_path(&path, dir, device);
    int r = file_read(path.p, NET_RECORD_BYTES_MAX, &bytes, err);
    if (r == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no claim has the device %.*s", STR_ARG(device));
    if (r == 0)
        r = net_record_parse(sbuf_str(&bytes), arena, ret, err);
    return r == 0 ? 0 : err_wrap(err, "%s", path.p);
}

int net_records_read(const char *dir, struct arena *arena, struct net_records *ret,
                     struct net_damages *ret_damaged, struct err *err)
{
    struct net_records all = {0};
    struct net_damages damaged = {0};
    DIR *d = opendir(dir);
    int r = d || errno == ENOENT
                ? 0
                : err_set(err, errno, "cannot open %s: %s", dir, strerrordesc_np(errno));
    for (const struct dirent *e; r == 0 && d && (e = file_next_entry(d));) {
        struct str name = str_z(e->d_name);
        struct net_record rec;
        if (name.p[0] == '.' || !str_ends(name, STR(".json")))
            continue;
        struct err why = {0};
        int one = net_record_read(dir, str_upto(name, name.n - 5), arena, &rec, &why);
        if (one == 0)
            vec_push_arena(arena, &all, rec);
        else if (one != -ERR_NOT_FOUND) // removed since
            vec_push_arena(arena, &damaged,
                           ((struct net_damaged){arena_str(arena, str_upto(name, name.n - 5)),
                                                 arena_str(arena, str_z(why.msg))}));
    }
    if (d)
        (void)closedir(d);
    if (r == 0)
        *ret = all;
    if (r == 0 && ret_damaged)
        *ret_damaged = damaged;
    return r;
}
