// SPDX-License-Identifier: Apache-2.0
//
// Moves or makes an interface in a pod's namespace, configures it and brings it back. Each step is
// idempotent, since the process may be killed between any two.
#include "driver/net/net_attach.h"

#include <stdio.h>
#include <unistd.h>

#include "driver/net/net_attach_int.h"
#include "os/fault.h"

#include "base/banned.h"

#define FREE_NAME "drnic%d" // the kernel puts a number in

// --- Into the pod --------------------------------------------------------------------------------

static int move_in(const struct net_record *rec, struct net_found *f, int pod_ns, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    int index = f->link.index;
    int r = fault_check("mark the interface", err);
    if (r == 0)
        r = net_link_change(f->sock, index,
                            &(struct net_change){.alias = net_record_mark(rec, &arena).p}, err);
    if (r == 0)
        r = fault_check("bring the interface down", err);
    if (r == 0)
        r = net_link_change(f->sock, index, &(struct net_change){.down = true}, err);
    if (r == 0)
        r = fault_check("move the interface into the pod", err);
    if (r != 0)
        return r;
    r = net_link_change(
        f->sock, index,
        &(struct net_change){.name = rec->plan.name, .ns_fd = pod_ns, .moves = true}, err);
    if (r == -EEXIST)
        return err_set(err, ERR_ALREADY_EXISTS, "the pod has an interface %s already",
                       rec->plan.name);
    return r == 0 ? 0 : err_wrap(err, "cannot move %s into the pod", f->link.name);
}

// The host's end of a veth pair: one name a claim and device.
static void peer_name(const struct net_record *rec, char ret[IFNAMSIZ])
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(rec->uid), STR_ARG(rec->device));
    uint64_t h = net_hash(sbuf_str(&key));
    (void)snprintf(ret, IFNAMSIZ, "dv%010llx", (unsigned long long)(h & 0xffffffffff));
}

static const struct net_link *net_attach_find_link(const struct net_links *links, struct str name)
{
    vec_foreach(links, l)
        if (str_eqz(name, l->name))
            return l;
    return NULL;
}

static int settle_peer(struct net_sock *host, const struct net_record *rec, const char *peer,
                       struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_links links = {0};
    int r = net_links_read(host, &arena, &links, err);
    const struct net_link *l = r == 0 ? net_attach_find_link(&links, str_z(peer)) : NULL;
    const struct net_link *bridge =
        rec->parent.n ? net_attach_find_link(&links, rec->parent) : NULL;
    if (r != 0)
        return r;
    if (!l || (rec->parent.n && !bridge))
        return err_set(err, ERR_NOT_FOUND, "the host has no interface %.*s",
                       STR_ARG(l ? rec->parent : str_z(peer)));
    const struct net_change c = {
        .alias = arena_strf(&arena, "%.*s peer", STR_ARG(net_record_mark(rec, &arena))).p,
        .mtu = (uint32_t)rec->plan.mtu,
        .master = bridge ? bridge->index : 0,
        .up = true};
    return net_link_change(host, l->index, &c, err);
}

static int make_once(struct net_sock *host, const struct net_record *rec, int pod_ns,
                     struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_links links = {0};
    char peer[IFNAMSIZ];
    bool veth = str_eqz(rec->kind, "veth");
    int r = net_links_read(host, &arena, &links, err);
    if (r != 0)
        return r;
    const struct net_link *parent = veth ? NULL : net_attach_find_link(&links, rec->parent);
    if (!veth && !parent)
        return err_set(err, ERR_NOT_FOUND, "the host has no interface %.*s", STR_ARG(rec->parent));
    peer_name(rec, peer);
    const struct net_new n = {.kind = arena_str(&arena, rec->kind).p,
                              .name = rec->plan.name,
                              .mac = str_eqz(rec->kind, "ipvlan") ? NULL : &rec->plan.mac,
                              .parent = parent ? parent->index : 0,
                              .peer = veth ? peer : NULL,
                              .vlan = rec->vlan,
                              .ns_fd = pod_ns,
                              .elsewhere = true};
    r = fault_check("make the interface", err);
    if (r == 0)
        r = net_link_add(host, &n, err);
    if (r == 0)
        r = fault_check("settle the host's end", err);
    return r == 0 && veth ? settle_peer(host, rec, peer, err) : r;
}

static int pod_has(int pod_ns, const char *name, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_links links = {0};
    struct net_sock *s = NULL;
    int r = net_sock_open(pod_ns, &s, err);
    if (r == 0)
        r = net_links_read(s, &arena, &links, err);
    net_sock_free(s);
    return r == 0 ? net_attach_find_link(&links, str_z(name)) != NULL : r;
}

// The host's end of a pair that was made for a namespace that is ending, or the same VLAN in it, is
// in the way until it has ended.
static int net_attach_make_link(const struct net_world *w, const struct net_record *rec, int pod_ns,
                                struct err *err)
{
    struct net_sock *host = NULL;
    int64_t until = clock_mono_ns(w->clock) + w->wait_ns;
    int r = net_sock_open(w->host_ns, &host, err);
    while (r == 0) {
        r = make_once(host, rec, pod_ns, err);
        if (r != -EEXIST)
            break;
        int there = pod_has(pod_ns, rec->plan.name, err);
        if (there != 0) {
            r = there < 0 ? there
                          : err_set(err, ERR_ALREADY_EXISTS, "the pod has an interface %s already",
                                    rec->plan.name);
            break;
        }
        if (clock_mono_ns(w->clock) >= until)
            break;
        r = 0;
        net_pause();
    }
    net_sock_free(host);
    return r;
}

// Marks an interface in the pod that was made there, or moved there by the runtime.
static int mark_in_pod(struct net_found *f, const struct net_record *rec, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    return net_link_change(f->sock, f->link.index,
                           &(struct net_change){.alias = net_record_mark(rec, &arena).p}, err);
}

static int bring_back(const struct net_world *w, const struct net_record *rec, struct net_found *f,
                      enum net_returned *ret, struct err *note, struct err *err);

// From the namespace of a sandbox that has ended into that of the next one.
static int move_over(const struct net_world *w, const struct net_record *rec, struct net_found *f,
                     int pod_ns, struct err *err)
{
    enum net_returned how;
    struct net_found host = {.ns = -1, .place = ON_HOST};
    int r = bring_back(w, rec, f, &how, NULL, err);
    if (r == 0 && net_is_made(rec))
        return net_attach_make_link(w, rec, pod_ns, err);
    if (r == 0)
        r = net_locate_in(w->host_ns, rec, true, &host, err);
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "the interface %s did not come back", rec->host.name);
    if (r == 1)
        r = move_in(rec, &host, pod_ns, err);
    net_sock_free(host.sock);
    return r;
}

static int bring_in(const struct net_world *w, const struct net_record *rec, struct net_found *f,
                    int pod_ns, struct err *err)
{
    switch (f->place) {
    case IN_PINNED:
        return move_over(w, rec, f, pod_ns, err);
    case IN_POD:
        return mark_in_pod(f, rec, err);
    case ON_HOST:
        return move_in(rec, f, pod_ns, err);
    case IN_OTHER:
        return err_set(err, ERR_CONFLICT,
                       "the interface of device %.*s is in another pod's network namespace "
                       "(net:[%llu]); a claim of this driver is for one pod",
                       STR_ARG(rec->device), (unsigned long long)rec->ns.inode);
    case NOWHERE:
        break;
    }
    if (net_is_made(rec))
        return net_attach_make_link(w, rec, pod_ns, err);
    return err_set(err, ERR_NOT_FOUND, "the interface %s of device %.*s is gone", rec->host.name,
                   STR_ARG(rec->device));
}

static int net_attach_configure(const struct net_world *w, const struct net_record *rec, int pod_ns,
                                struct err *err)
{
    struct net_found f = {.ns = -1};
    int r = net_locate_in(pod_ns, rec, false, &f, err);
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "the interface %s went away", rec->plan.name);
    if (r == 1) {
        r = fault_check("set the interface up", err);
        if (r == 0)
            r = mark_in_pod(&f, rec, err);
        if (r == 0)
            r = net_configure(w, pod_ns, f.sock, f.link.index, &rec->plan, err);
    }
    net_sock_free(f.sock);
    return r;
}

// A macvlan of a namespace that is ending still has the hardware address that the new one is to
// have.
static int configure_patiently(const struct net_world *w, const struct net_record *rec, int pod_ns,
                               struct err *err)
{
    int64_t until = clock_mono_ns(w->clock) + w->wait_ns;
    for (;;) {
        int r = net_attach_configure(w, rec, pod_ns, err);
        if (r != -EADDRINUSE || clock_mono_ns(w->clock) >= until)
            return r;
        net_pause();
    }
}

// Undoes a partial attach and notes the failure in the record, where the driver finds it.
static int net_attach_undo(const struct net_world *w, struct net_record *rec, int pod_ns,
                           struct net_ns_id pod, int code, struct err *err)
{
    struct net_found f = {.ns = -1};
    struct err why = {0};
    enum net_returned returned;
    // An interface in another pod is not touched.
    if (code != -ERR_CONFLICT && net_locate(w, rec, pod_ns, pod, &f, &why) == 0 &&
        f.place != NOWHERE && bring_back(w, rec, &f, &returned, NULL, &why) == 0) {
        rec->phase = NET_PLANNED;
        rec->ns = (struct net_ns_id){0};
        rec->pid = 0;
    }
    net_located_done(&f);
    rec->error = str_z(err->msg);
    (void)!net_record_write(w->state_dir, rec, &why);
    return code;
}

static int net_attach_link(const struct net_world *w, struct net_record *rec, int pod_ns, int pid,
                           struct err *err)
{
    struct net_ns_id pod = {0}, host = {0};
    struct net_found f = {.ns = -1};
    int r = net_ns_id(pod_ns, &pod, err);
    if (r == 0)
        r = net_ns_id(w->host_ns, &host, err);
    if (r != 0)
        return r;
    if (net_ns_same(pod, host))
        return err_set(err, ERR_INVALID,
                       "the pod uses the host's network: it has no namespace of its own to put "
                       "the interface into");
    r = net_locate_patiently(w, rec, pod_ns, pod, &f, err);
    bool ready =
        r == 0 && f.place == IN_POD && rec->phase == NET_ATTACHED && net_ns_same(rec->ns, pod);
    if (r == 0 && !ready && f.place != IN_OTHER) {
        rec->phase = NET_ATTACHING;
        rec->ns = pod;
        rec->pid = pid;
        r = net_record_write(w->state_dir, rec, err);
    }
    if (r == 0 && !ready)
        r = bring_in(w, rec, &f, pod_ns, err);
    net_located_done(&f);
    if (r == 0 && !ready)
        r = configure_patiently(w, rec, pod_ns, err);
    if (r == 0 && !ready) {
        rec->phase = NET_ATTACHED;
        rec->error = STR("");
        r = net_record_write(w->state_dir, rec, err);
    }
    return r == 0 ? 0 : net_attach_undo(w, rec, pod_ns, pod, r, err);
}

int net_attach(const struct net_world *w, struct str uid, struct str device, int pod_ns, int pid,
               struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_record rec;
    int lock = -1;
    int r = net_lock(w, &lock, err);
    if (r != 0)
        return r;
    r = net_record_read(w->state_dir, device, &arena, &rec, err);
    if (r == 0 && !str_eq(rec.uid, uid))
        r = err_set(err, ERR_NOT_FOUND, "device %.*s belongs to claim %.*s/%.*s now",
                    STR_ARG(device), STR_ARG(rec.namespace), STR_ARG(rec.claim));
    if (r == 0 && !str_eqz(rec.boot, w->boot_id))
        r = err_set(err, ERR_CONFLICT,
                    "claim %.*s/%.*s was prepared before the machine last started",
                    STR_ARG(rec.namespace), STR_ARG(rec.claim));
    if (r == 0)
        r = net_attach_link(w, &rec, pod_ns, pid, err);
    (void)close(lock);
    return r;
}

// --- Back to the host ----------------------------------------------------------------------------

// From a namespace to the host; a name that is taken there is replaced by one the kernel finds.
static int move_out(const struct net_world *w, const struct net_record *rec, struct net_found *f,
                    struct err *err)
{
    struct net_change c = {.name = rec->host.name, .ns_fd = w->host_ns, .moves = true};
    int r = fault_check("bring the pod's interface down", err);
    if (r == 0)
        r = net_link_change(f->sock, f->link.index, &(struct net_change){.down = true}, err);
    if (r == 0)
        r = fault_check("move the interface to the host", err);
    if (r == 0)
        r = net_link_change(f->sock, f->link.index, &c, err);
    // The kernel may have moved it before it found that the name is taken.
    if (r == -EEXIST) {
        c.name = FREE_NAME;
        r = net_link_change(f->sock, f->link.index, &c, err);
        r = r == -ENODEV ? 0 : r;
    }
    return r == 0 ? 0 : err_wrap(err, "cannot move %s back to the host", f->link.name);
}

static int rename_back(const struct net_record *rec, struct net_found *f, enum net_returned *ret,
                       struct err *err)
{
    if (strcmp(f->link.name, rec->host.name) == 0)
        return 0;
    int r = fault_check("give the interface its name again", err);
    if (r == 0) // older kernels rename only interfaces that are down
        r = net_link_change(f->sock, f->link.index, &(struct net_change){.down = true}, err);
    if (r == 0)
        r = net_link_change(f->sock, f->link.index, &(struct net_change){.name = rec->host.name},
                            err);
    if (r != -EEXIST)
        return r;
    *ret = NET_NAME_TAKEN;
    return net_link_change(f->sock, f->link.index, &(struct net_change){.name = FREE_NAME}, err);
}

// Addresses and routes are put back as far as that is possible: what they were for may be gone.
static void restore_addresses(struct net_found *f, const struct net_plan *host, struct err *note)
{
    struct err why = {0};
    vec_foreach(&host->addresses, ip)
        if (net_address_add(f->sock, f->link.index, ip, &why) != 0 && note && note->code == 0)
            *note = why;
    vec_foreach(&host->routes, r)
        if (net_route_add(f->sock, f->link.index, r, &why) != 0 && note && note->code == 0)
            *note = why;
}

static int net_attach_restore(const struct net_record *rec, struct net_found *f,
                              enum net_returned *ret, struct err *note, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_change c = {.mtu = (uint32_t)rec->host.mtu, .mac = &rec->host.mac, .master = -1};
    for (size_t i = 0; i < NET_SIZES; i++)
        c.sizes[i] = (uint32_t)rec->host.sizes[i];
    int r = rename_back(rec, f, ret, err);
    if (r == 0)
        r = fault_check("restore MTU and hardware address", err);
    if (r == 0)
        r = net_link_change(f->sock, f->link.index, &c, err);
    if (r == 0)
        r = fault_check("restore whether it is up", err);
    if (r == 0)
        r = net_link_change(f->sock, f->link.index,
                            &(struct net_change){.up = rec->host_up, .down = !rec->host_up}, err);
    if (r == 0)
        r = fault_check("restore addresses", err);
    if (r == 0)
        restore_addresses(f, &rec->host, note);
    // The mark goes last: by it the interface is found again after a crash.
    if (r == 0)
        r = fault_check("take the mark away", err);
    if (r == 0)
        r = net_link_change(f->sock, f->link.index,
                            &(struct net_change){.alias = rec->host_alias.n
                                                              ? arena_str(&arena, rec->host_alias).p
                                                              : ""},
                            err);
    return r;
}

static int bring_back(const struct net_world *w, const struct net_record *rec, struct net_found *f,
                      enum net_returned *ret, struct err *note, struct err *err)
{
    struct net_found host = {.ns = -1};
    *ret = NET_RETURNED;
    if (net_is_made(rec))
        return net_link_delete(f->sock, f->link.index, err);
    if (f->place == ON_HOST)
        return net_attach_restore(rec, f, ret, note, err);
    int r = move_out(w, rec, f, err);
    if (r == 0)
        r = net_locate_in(w->host_ns, rec, true, &host, err);
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "the interface of %.*s did not arrive on the host",
                       STR_ARG(rec->device));
    if (r == 1)
        r = net_attach_restore(rec, &host, ret, note, err);
    net_sock_free(host.sock);
    return r;
}

// A veth pair ends with its host's end, wherever the other is.
static int end_peer(const struct net_world *w, const struct net_record *rec, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_links links = {0};
    struct net_sock *s = NULL;
    char peer[IFNAMSIZ];
    peer_name(rec, peer);
    int r = net_sock_open(w->host_ns, &s, err);
    if (r == 0)
        r = net_links_read(s, &arena, &links, err);
    const struct net_link *l = r == 0 ? net_attach_find_link(&links, str_z(peer)) : NULL;
    if (l)
        r = net_link_delete(s, l->index, err);
    net_sock_free(s);
    return r;
}

// Software ends with its namespace. Hardware does not: unless it was taken out, it is in a
// namespace that cannot be seen from here, and must not be forgotten.
static int net_attach_lost(const struct net_world *w, const struct net_record *rec,
                           enum net_returned *ret, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/bus/pci/devices/%.*s", w->sys, STR_ARG(rec->pci));
    if (rec->pci.n && rec->host_kind.n == 0 && access(path.p, F_OK) == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "the interface of PCI device %.*s is neither on the host nor in a network "
                       "namespace that can be found",
                       STR_ARG(rec->pci));
    *ret = NET_LOST;
    return 0;
}

int net_return(const struct net_world *w, const struct net_record *rec, enum net_returned *ret,
               struct err *note, struct err *err)
{
    struct net_record now = *rec;
    struct net_found f = {.ns = -1};
    bool this_boot = str_eqz(rec->boot, w->boot_id);
    *ret = NET_RETURNED;
    // Nothing of an earlier boot is anywhere but where it was at start; what was never begun
    // either.
    if (!this_boot || (rec->phase == NET_PLANNED && !rec->runtime_moves))
        return net_record_remove(w->state_dir, rec->device, err);
    now.phase = NET_RETURNING;
    int r = net_record_write(w->state_dir, &now, err);
    if (r == 0)
        r = net_locate_patiently(w, &now, -1, (struct net_ns_id){0}, &f, err);
    if (r == 0 && f.place != NOWHERE)
        r = bring_back(w, &now, &f, ret, note, err);
    else if (r == 0 && !net_is_made(rec))
        r = net_attach_lost(w, rec, ret, err);
    net_located_done(&f);
    if (r == 0 && str_eqz(rec->kind, "veth"))
        r = end_peer(w, rec, err);
    return r == 0 ? net_record_remove(w->state_dir, rec->device, err) : r;
}
