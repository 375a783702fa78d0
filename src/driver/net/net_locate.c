// SPDX-License-Identifier: Apache-2.0
//
// Where an interface is: found by its mark, or by what else is known of it, on the host, in its
// pod, in a namespace that is ending. And the lock, and namespaces that are held.
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <sys/file.h>

#include "driver/net/net_attach_int.h"

#include "base/banned.h"

#define LOOK_AGAIN_NS (20 * CLOCK_NS_PER_MS)

int net_lock(const struct net_world *w, int *ret_fd, struct err *err)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/.lock", w->state_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        int r = err_set(err, errno, "cannot lock %s: %s", path, strerrordesc_np(errno));
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

// --- Pins ----------------------------------------------------------------------------------------

static void pin_path(const struct net_world *w, struct net_ns_id id, struct sbuf *out)
{
    sbuf_addf(out, "%s/.pin-%llu", w->state_dir, (unsigned long long)id.inode);
}

int net_pin(const struct net_world *w, struct net_ns_id id, int pid, int *ret_fd, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    char target[64];
    int fd = -1;
    int r = net_ns_find(w->proc, id, pid, &fd, err);
    if (r != 0)
        return r;
    pin_path(w, id, &path);
    (void)snprintf(target, sizeof(target), "/proc/%d/fd/%d", (int)getpid(), fd);
    (void)unlink(path.p);
    if (symlink(target, path.p) != 0) {
        r = err_set(err, errno, "cannot make %s: %s", path.p, strerrordesc_np(errno));
        (void)close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

void net_unpin(const struct net_world *w, struct net_ns_id id, int fd)
{
    cleanup_sbuf struct sbuf path = {0};
    pin_path(w, id, &path);
    (void)unlink(path.p);
    (void)close(fd);
}

// Opens a namespace that a driver holds. That may have ended, and its number be another's: look
// twice.
static int net_pin_open(const struct net_world *w, struct net_ns_id id, int *ret_fd)
{
    cleanup_sbuf struct sbuf path = {0};
    struct net_ns_id opened = {0};
    int fd = -1;
    pin_path(w, id, &path);
    int r = net_ns_open(path.p, &fd, NULL);
    if (r == 0)
        r = net_ns_id(fd, &opened, NULL);
    if (r == 0 && (opened.inode != id.inode || opened.device != id.device))
        r = -ERR_NOT_FOUND;
    if (r == 0)
        *ret_fd = fd;
    else if (fd >= 0)
        (void)close(fd);
    return r;
}

bool net_is_made(const struct net_record *rec)
{
    return !str_eqz(rec->kind, NET_KIND_MOVE);
}

bool net_ns_same(struct net_ns_id a, struct net_ns_id b)
{
    return a.inode == b.inode && a.device == b.device;
}

// --- Location ------------------------------------------------------------------------------------

void net_located_done(struct net_found *f)
{
    net_sock_free(f->sock);
    if (f->place == IN_OTHER || f->place == IN_PINNED)
        (void)close(f->ns);
    *f = (struct net_found){.ns = -1};
}

// By its mark; where that is missing (not yet set, or changed by a pod with the right to) by the
// permanent hardware address, or by name, kind and hardware address together.
static bool net_locate_is_link(const struct net_link *l, const struct net_record *rec,
                               struct str mark, bool host)
{
    if (str_eq(l->alias, mark))
        return true;
    if (str_starts(l->alias, STR("dray ")))
        return false; // of another claim
    if (!net_is_made(rec) && rec->permanent.n && l->kind[0] == '\0' && rec->host_kind.n == 0 &&
        net_mac_equal(&l->permanent, &rec->permanent))
        return true;
    const struct net_plan *as = host ? &rec->host : &rec->plan;
    struct str kind = net_is_made(rec) ? rec->kind : rec->host_kind;
    if (strcmp(l->name, as->name) != 0 || !str_eqz(kind, l->kind))
        return false;
    return net_mac_equal(&l->mac, &rec->host.mac) ||
           (rec->plan.mac.n && net_mac_equal(&l->mac, &rec->plan.mac));
}

int net_locate_in(int ns, const struct net_record *rec, bool host, struct net_found *ret,
                  struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_links links = {0};
    struct net_sock *s = NULL;
    struct str mark = net_record_mark(rec, &arena);
    int r = net_sock_open(ns, &s, err);
    if (r == 0)
        r = net_links_read(s, &arena, &links, err);
    const struct net_link *best = NULL;
    vec_foreach(&links, l) {
        if (net_locate_is_link(l, rec, mark, host) && (!best || str_eq(l->alias, mark)))
            best = l;
    }
    if (r == 0 && best) {
        *ret = (struct net_found){.place = ret->place, .link = *best, .sock = s, .ns = ns};
        ret->link.alias = (struct str){0}; // of the arena here
        return 1;
    }
    net_sock_free(s);
    return r;
}

static int net_locate_in_last(const struct net_world *w, const struct net_record *rec,
                              struct net_found *f, struct err *err)
{
    int ns = -1;
    f->place = IN_OTHER;
    if (net_ns_find(w->proc, rec->ns, rec->pid, &ns, NULL) != 0) {
        f->place = IN_PINNED;
        if (net_pin_open(w, rec->ns, &ns) != 0)
            return 0;
    }
    int r = net_locate_in(ns, rec, false, f, err);
    if (r != 1)
        (void)close(ns);
    return r;
}

// pod_ns -1: there is none. What is made for a claim is never looked for on the host.
int net_locate(const struct net_world *w, const struct net_record *rec, int pod_ns,
               struct net_ns_id pod, struct net_found *ret, struct err *err)
{
    struct net_found f = {.ns = -1, .place = IN_POD};
    int r = pod_ns >= 0 ? net_locate_in(pod_ns, rec, false, &f, err) : 0;
    if (r == 0 && !net_is_made(rec)) {
        f.place = ON_HOST;
        r = net_locate_in(w->host_ns, rec, true, &f, err);
    }
    if (r == 0 && rec->ns.inode && !(pod_ns >= 0 && net_ns_same(pod, rec->ns)))
        r = net_locate_in_last(w, rec, &f, err);
    if (r < 0)
        return r;
    if (r == 0)
        f = (struct net_found){.place = NOWHERE, .ns = -1};
    *ret = f;
    return 0;
}

void net_pause(void)
{
    const struct timespec t = {.tv_nsec = LOOK_AGAIN_NS};
    (void)nanosleep(&t, NULL);
}

// Namespaces end a while after their last process: until then an interface can be in one that
// cannot be opened any more. An interface that was never moved does not come back.
int net_locate_patiently(const struct net_world *w, const struct net_record *rec, int pod_ns,
                         struct net_ns_id pod, struct net_found *ret, struct err *err)
{
    int64_t until = clock_mono_ns(w->clock) + w->wait_ns;
    for (;;) {
        int r = net_locate(w, rec, pod_ns, pod, ret, err);
        bool settled = ret->place == ON_HOST || ret->place == IN_POD || ret->place == IN_PINNED ||
                       (rec->ns.inode == 0 && !rec->runtime_moves) ||
                       (pod_ns < 0 && ret->place == IN_OTHER) ||
                       (net_is_made(rec) && ret->place == NOWHERE);
        if (r != 0 || settled || clock_mono_ns(w->clock) >= until)
            return r;
        net_located_done(ret);
        net_pause();
    }
}
