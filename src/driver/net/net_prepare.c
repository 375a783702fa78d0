// SPDX-License-Identifier: Apache-2.0
//
// Prepares and unprepares the devices of a claim: plans each interface, records it on disk, and
// fills the outcome with the hook, RDMA nodes and the device's status.
#include "driver/net/net_prepare.h"

#include <stdio.h>
#include <unistd.h>

#include <linux/rtnetlink.h>

#include "base/banned.h"

// The state read for preparing one claim.
struct scene {
    struct arena arena;
    struct net_view view;
    struct net_records records;
    struct net_damages damaged;
    struct net_devices devices;
};

static int scene_read(const struct net_preparer *p, struct scene *s, struct err *err)
{
    s->view = (struct net_view){.sys = p->world.sys, .names = p->names};
    int r = net_records_read(p->world.state_dir, &s->arena, &s->records, &s->damaged, err);
    if (r == 0)
        r = net_view_read(p->world.host_ns, &s->arena, &s->view, err);
    if (r == 0)
        net_inventory(&s->view, p->filter, &s->records, &s->arena, &s->devices);
    return r;
}

static const struct net_link *link_named(const struct scene *s, struct str name)
{
    vec_foreach(&s->view.links, l)
        if (str_eqz(name, l->name))
            return l;
    return NULL;
}

// --- Host configuration --------------------------------------------------------------------------

// Routes that the kernel makes by itself come back by themselves.
static void note_routes(const struct scene *s, int index, struct arena *a, struct net_plan *host)
{
    vec_foreach(&s->view.routes, r) {
        struct net_route route = r->route;
        if (r->index != index || r->protocol == RTPROT_KERNEL || r->protocol == RTPROT_RA ||
            host->routes.n == NET_LIST_MAX)
            continue;
        route.scope = route.gateway.family ? 0 : NET_SCOPE_LINK;
        route.table = route.table == NET_TABLE_MAIN ? 0 : route.table;
        vec_push_arena(a, &host->routes, route);
    }
}

static void note_host(const struct scene *s, const struct net_device *d, struct arena *a,
                      struct net_record *rec)
{
    const struct net_link *l = d->link;
    struct net_plan *host = &rec->host;
    (void)snprintf(host->name, sizeof(host->name), "%s", l->name);
    host->mac = l->mac;
    host->mtu = l->mtu;
    for (size_t i = 0; i < NET_SIZES; i++)
        host->sizes[i] = l->sizes[i];
    vec_foreach(&s->view.addresses, one)
        if (one->index == l->index && one->permanent && net_ip_is_global(&one->ip) &&
            host->addresses.n < NET_LIST_MAX)
            vec_push_arena(a, &host->addresses, one->ip);
    note_routes(s, l->index, a, host);
    rec->host_kind = str_z(l->kind);
    rec->host_alias = l->alias;
    rec->host_up = (l->flags & IFF_UP) != 0;
    rec->permanent = l->permanent;
    rec->pci = d->hardware.pci;
}

// --- Plan ----------------------------------------------------------------------------------------

static int net_prepare_read_configs(const struct dray_allocated *d, struct arena *a,
                                    struct net_plan *plan, struct err *err)
{
    int r = 0;
    net_plan_init(plan);
    for (size_t i = 0; r == 0 && i < d->configs_len; i++)
        r = net_plan_add(plan, d->configs[i].parameters, a, err);
    return r;
}

static int check_parent(const struct scene *s, const struct net_record *rec, struct err *err)
{
    const struct net_link *parent = rec->parent.n ? link_named(s, rec->parent) : NULL;
    if (rec->parent.n && !parent)
        return err_set(err, ERR_NOT_FOUND, "device %.*s is made on %.*s, which the host lacks",
                       STR_ARG(rec->device), STR_ARG(rec->parent));
    if (parent && rec->plan.mtu > (int64_t)parent->mtu) {
        err_record(err, ERR_INVALID, "%lld is more than the %u of %s below it",
                   (long long)rec->plan.mtu, (unsigned)parent->mtu, parent->name);
        err_path_field(err, "interface.mtu", strlen("interface.mtu"));
        return -ERR_INVALID;
    }
    return 0;
}

// What the claim does not say: the name, the addresses and routes it has on the host.
static int net_prepare_complete_record(const struct scene *s, size_t index, struct arena *a,
                                       struct net_record *rec, struct err *err)
{
    struct net_plan *plan = &rec->plan;
    if (str_eqz(rec->kind, NET_KIND_MOVE)) {
        if (!plan->name[0])
            (void)snprintf(plan->name, sizeof(plan->name), "%s", rec->host.name);
        if (plan->addresses.n == 0) {
            plan->addresses = rec->host.addresses;
            vec_foreach(&rec->host.routes, route)
                if (plan->routes.n < NET_LIST_MAX)
                    vec_push_arena(a, &plan->routes, *route);
        }
        return 0;
    }
    if (!plan->name[0])
        (void)snprintf(plan->name, sizeof(plan->name), "net%u", (unsigned)(index % 999 + 1));
    bool ipvlan = str_eqz(rec->kind, "ipvlan"); // shares the address of its parent
    if (ipvlan && plan->mac.n)
        return err_set(err, ERR_INVALID, "interface.hardwareAddr: an ipvlan has its parent's");
    if (!plan->mac.n && !ipvlan)
        plan->mac =
            net_mac_made(arena_strf(a, "%.*s/%.*s", STR_ARG(rec->uid), STR_ARG(rec->device)));
    return check_parent(s, rec, err);
}

// The path of a field identifies the device already.
static int in_device(int code, const struct dray_allocated *d, struct err *err)
{
    return code == 0 || err->path[0]
               ? code
               : err_wrap(err, "request %s, device %s", d->request, d->device);
}

// Without its record, the interface's place and original configuration are unknown.
static int check_damage(const struct net_damages *damaged, const char *device, struct err *err)
{
    vec_foreach(damaged, one)
        if (str_eqz(one->device, device))
            return err_set(err, ERR_INVALID,
                           "what is known of it cannot be read: %.*s. When the interface is on the "
                           "host as it should be, remove that file",
                           STR_ARG(one->why));
    return 0;
}

static int plan_device(const struct net_preparer *p, struct scene *s,
                       const struct dray_claim *claim, size_t index, struct net_record *ret,
                       struct err *err)
{
    const struct dray_allocated *d = &claim->devices[index];
    const struct net_device *device = NULL;
    const struct net_record *old = NULL;
    int damage = check_damage(&s->damaged, d->device, err);
    if (damage != 0)
        return damage;
    vec_foreach(&s->devices, one)
        if (str_eqz(one->name, d->device))
            device = one;
    vec_foreach(&s->records, one)
        if (str_eqz(one->device, d->device))
            old = one;
    bool ours = old && str_eqz(old->uid, claim->uid) && str_eqz(old->boot, p->world.boot_id);
    if (old && !ours && str_eqz(old->boot, p->world.boot_id))
        return err_set(err, ERR_CONFLICT, "claim %.*s/%.*s has it", STR_ARG(old->namespace),
                       STR_ARG(old->claim));
    if (ours && old->phase != NET_PLANNED) { // half done, or done: it must not change any more
        *ret = *old;
        return 0;
    }
    if (!device || (str_eqz(device->kind, NET_KIND_MOVE) && !device->link))
        return err_set(err, ERR_NOT_FOUND, "there is no such interface on this node now");
    *ret = (struct net_record){.phase = p->runtime_moves ? NET_ATTACHING : NET_PLANNED,
                               .boot = str_z(p->world.boot_id),
                               .namespace = str_z(claim->namespace_),
                               .claim = str_z(claim->name),
                               .uid = str_z(claim->uid),
                               .pool = str_z(d->pool),
                               .device = str_z(d->device),
                               .kind = device->kind,
                               .parent = device->parent,
                               .vlan = device->vlan,
                               .attributes = device->attributes};
    net_plan_init(&ret->host);
    ret->runtime_moves = p->runtime_moves && str_eqz(device->kind, NET_KIND_MOVE);
    if (!ret->runtime_moves)
        ret->phase = NET_PLANNED;
    if (device->link)
        note_host(s, device, &s->arena, ret);
    int r = net_prepare_read_configs(d, &s->arena, &ret->plan, err);
    return r == 0 ? net_prepare_complete_record(s, index, &s->arena, ret, err) : r;
}

// --- Container edits -----------------------------------------------------------------------------

struct nodes {
    struct dray_outcome *out;
    size_t device;
};

static void net_prepare_add_node(void *arg, const char *path)
{
    const struct nodes *n = arg;
    dray_device_node(n->out, n->device, path, NULL, "rw");
}

static void net_prepare_add_status(const struct scene *s, const struct net_record *rec,
                                   struct dray_outcome *out, size_t i, struct arena *a)
{
    char mac[NET_MAC_TEXT_MAX] = "";
    struct VEC(const char *) ips = {0};
    const struct net_link *parent = rec->parent.n ? link_named(s, rec->parent) : NULL;
    bool moved = str_eqz(rec->kind, NET_KIND_MOVE);
    const struct net_mac *own = moved ? &rec->host.mac : parent ? &parent->mac : &rec->plan.mac;
    net_mac_text(rec->plan.mac.n ? &rec->plan.mac : own, mac);
    vec_foreach(&rec->plan.addresses, ip) {
        char buf[NET_IP_TEXT_MAX];
        net_ip_text(ip, true, buf);
        vec_push_arena(a, &ips, arena_str(a, str_z(buf)).p);
    }
    vec_push_arena(a, &ips, NULL);
    dray_network(out, i, rec->plan.name, mac, ips.p);
    dray_condition(out, i, "Ready", true, "Prepared", "");
    dray_describe(out, i, "dra.net/ifName", rec->plan.name);
    dray_describe(out, i, "dra.net/mac", mac);
}

static void net_prepare_fill_outcome(const struct net_preparer *p, struct scene *s,
                                     const struct net_record *rec, struct dray_outcome *out,
                                     size_t i)
{
    struct net_hardware h = {0};
    const char *uid = arena_str(&s->arena, rec->uid).p;
    const char *device = arena_str(&s->arena, rec->device).p;
    const char *const args[] = {"dray",    "netns-hook", "--state",  p->world.state_dir,
                                "--claim", uid,          "--device", device,
                                NULL};
    if (rec->runtime_moves)
        dray_net_device(out, i, rec->host.name, rec->plan.name);
    dray_hook(out, i, "createRuntime", p->hook, args);
    if (rec->host.name[0])
        net_hardware_read(p->world.sys, rec->host.name, NULL, &s->arena, &h);
    if (h.rdma.n)
        net_rdma_nodes(p->world.sys, h.rdma, net_prepare_add_node, &(struct nodes){out, i});
    net_prepare_add_status(s, rec, out, i, &s->arena);
}

// --- Prepare -------------------------------------------------------------------------------------

static int net_prepare_check_names(const struct net_record *all, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(all[i].plan.name, all[k].plan.name) == 0)
                return err_set(err, ERR_INVALID,
                               "devices %.*s and %.*s would both be %s in the pod; say "
                               "interface.name",
                               STR_ARG(all[k].device), STR_ARG(all[i].device), all[i].plan.name);
    return 0;
}

// The runtime moves the interface without marking it, so it is marked here.
static int mark_now(const struct net_preparer *p, const struct scene *s,
                    const struct net_record *rec, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    const struct net_link *l = link_named(s, str_z(rec->host.name));
    struct net_sock *sock = NULL;
    if (!rec->runtime_moves || !l)
        return 0;
    int r = net_sock_open(p->world.host_ns, &sock, err);
    if (r == 0)
        r = net_link_change(sock, l->index,
                            &(struct net_change){.alias = net_record_mark(rec, &arena).p}, err);
    net_sock_free(sock);
    return r;
}

static int net_prepare_claim(struct net_preparer *p, struct scene *s,
                             const struct dray_claim *claim, struct dray_outcome *out,
                             struct err *err)
{
    struct net_record *all = arena_array(&s->arena, struct net_record, claim->devices_len);
    int r = scene_read(p, s, err);
    for (size_t i = 0; r == 0 && i < claim->devices_len; i++)
        r = in_device(plan_device(p, s, claim, i, &all[i], err), &claim->devices[i], err);
    if (r == 0)
        r = net_prepare_check_names(all, claim->devices_len, err);
    for (size_t i = 0; r == 0 && i < claim->devices_len; i++) {
        r = net_record_write(p->world.state_dir, &all[i], err);
        if (r == 0)
            r = mark_now(p, s, &all[i], err);
        if (r == 0)
            net_prepare_fill_outcome(p, s, &all[i], out, i);
    }
    return r;
}

int net_prepare(struct net_preparer *p, const struct dray_claim *claim, struct dray_outcome *out,
                struct err *err)
{
    struct scene s = {0};
    int lock = -1;
    int r = net_lock(&p->world, &lock, err);
    if (r != 0)
        return r;
    r = net_prepare_claim(p, &s, claim, out, err);
    (void)close(lock);
    arena_done(&s.arena);
    return r;
}

// --- Unprepare -----------------------------------------------------------------------------------

static void net_prepare_report_return(const struct net_preparer *p, const struct net_record *rec,
                                      enum net_returned how, const struct err *note)
{
    char text[DRAY_ERR_MSG_MAX + 256];
    if (!p->report)
        return;
    if (how == NET_NAME_TAKEN) {
        (void)snprintf(text, sizeof(text),
                       "device %.*s is back on the host, but another interface is called %s now",
                       STR_ARG(rec->device), rec->host.name);
        p->report(p->arg, true, "InterfaceNameTaken", text);
    }
    if (how == NET_LOST) {
        (void)snprintf(text, sizeof(text), "interface %s of device %.*s did not come back",
                       rec->host.name, STR_ARG(rec->device));
        p->report(p->arg, true, "InterfaceLost", text);
    }
    if (note->code != 0) {
        (void)snprintf(text, sizeof(text), "device %.*s is back, but: %s", STR_ARG(rec->device),
                       note->msg);
        p->report(p->arg, true, "InterfaceChanged", text);
    }
}

int net_unprepare(struct net_preparer *p, const struct dray_claim *claim, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_records all = {0};
    struct net_damages damaged = {0};
    int lock = -1;
    int r = net_lock(&p->world, &lock, err);
    if (r != 0)
        return r;
    r = net_records_read(p->world.state_dir, &arena, &all, &damaged, err);
    for (size_t i = 0; r == 0 && i < claim->devices_len; i++)
        r = check_damage(&damaged, claim->devices[i].device, err);
    for (size_t i = 0; r == 0 && i < all.n; i++) {
        enum net_returned how = NET_RETURNED;
        struct err note = {0};
        if (!str_eqz(all.p[i].uid, claim->uid))
            continue;
        r = net_return(&p->world, &all.p[i], &how, &note, err);
        if (r == 0)
            net_prepare_report_return(p, &all.p[i], how, &note);
    }
    (void)close(lock);
    return r;
}

int net_verify(struct net_preparer *p, const struct dray_claim *claim, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    for (size_t i = 0; i < claim->devices_len; i++) {
        struct net_record rec;
        int r =
            net_record_read(p->world.state_dir, str_z(claim->devices[i].device), &arena, &rec, err);
        if (r == 0 && (!str_eqz(rec.uid, claim->uid) || !str_eqz(rec.boot, p->world.boot_id)))
            r = err_set(err, ERR_NOT_FOUND, "device %s is another claim's",
                        claim->devices[i].device);
        if (r != 0)
            return r;
    }
    return 0;
}
