// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "proxy.h"

#include "base/banned.h"

#define WAITING_MAX ((size_t)256 * 1024) // of one direction; then its source has to wait
#define READ_MAX    ((size_t)32 * 1024)
#define BACKLOG     512

// --- Addresses: tcp:PORT of this machine, tcp:ADDRESS:PORT, unix:PATH ------------------------------

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_un un;
};

static int parse_tcp(struct str text, struct sockaddr_in *in)
{
    struct str host, port_text;
    uint64_t port = 0;
    char name[INET_ADDRSTRLEN] = {0};
    if (!str_cut(text, ':', &host, &port_text)) {
        host = STR("127.0.0.1");
        port_text = text;
    }
    if (str_to_u64(port_text, &port) < 0 || port > UINT16_MAX || host.n >= sizeof(name))
        return -EINVAL;
    memcpy(name, host.p, host.n);
    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, name, &in->sin_addr) == 1 ? 0 : -EINVAL;
}

static int parse(struct str text, union address *a, socklen_t *len)
{
    *a = (union address){0};
    if (str_starts(text, STR("tcp:"))) {
        *len = sizeof(a->in);
        return parse_tcp(str_from(text, 4), &a->in);
    }
    struct str path = str_from(text, 5);
    if (!str_starts(text, STR("unix:")) || path.n == 0 || path.n >= sizeof(a->un.sun_path))
        return -EINVAL;
    a->un.sun_family = AF_UNIX;
    memcpy(a->un.sun_path, path.p, path.n);
    *len = sizeof(a->un);
    return 0;
}

static int new_socket(const union address *a)
{
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd >= 0 && a->any.sa_family == AF_INET) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return fd;
}

static int listen_at(struct str text)
{
    union address a;
    socklen_t len;
    if (parse(text, &a, &len) < 0)
        return -1;
    if (a.any.sa_family == AF_UNIX)
        (void)unlink(a.un.sun_path);
    int fd = new_socket(&a);
    if (fd >= 0 && (bind(fd, &a.any, len) < 0 || listen(fd, BACKLOG) < 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int connect_to(const char *target)
{
    union address a;
    socklen_t len;
    if (parse(str_z(target), &a, &len) < 0)
        return -1;
    int fd = new_socket(&a);
    if (fd >= 0 && connect(fd, &a.any, len) < 0 && errno != EINPROGRESS) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

// close_hard: the other side sees a reset, not an end.
static void close_hard(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)close(fd);
}

// --- Links -----------------------------------------------------------------------------------------

struct link *link_open(struct str name, struct str listen, struct str target, const char **ret_why)
{
    union address a;
    socklen_t len;
    *ret_why = "the target is tcp:PORT, tcp:ADDRESS:PORT or unix:PATH";
    if (parse(target, &a, &len) < 0)
        return NULL;
    int fd = listen_at(listen);
    *ret_why = "cannot listen there";
    if (fd < 0)
        return NULL;
    struct link *l = xcalloc(1, sizeof(*l));
    l->name = str_make(xstrndup(name.p, name.n), name.n);
    l->listen_at = xstrndup(listen.p, listen.n);
    l->target = xstrndup(target.p, target.n);
    l->listener = fd;
    return l;
}

static void conn_free(struct conn *c)
{
    for (int w = 0; w < WAYS; w++) {
        close_hard(c->fd[w]);
        vec_foreach(&c->way[w].queue, piece)
            free(piece->p);
        vec_done(&c->way[w].queue);
    }
    free(c);
}

void link_close(struct link *l)
{
    vec_foreach(&l->conns, c)
        conn_free(*c);
    vec_done(&l->conns);
    (void)close(l->listener);
    mem_free_indirect(&l->name.p);
    free(l->listen_at);
    free(l->target);
    free(l);
}

bool link_set(struct faults *f, struct str word)
{
    struct str key, text;
    int64_t value = 0;
    if (!str_cut(word, '=', &key, &text) || str_to_i64(text, &value) < 0 || value < 0)
        return false;
    const struct {
        const char *name;
        int64_t *number;
        bool *flag;
    } known[] = {
        {"delay", &f->delay_ms, NULL}, {"jitter", &f->jitter_ms, NULL},
        {"rate", &f->rate, NULL},      {"piece", &f->piece, NULL},
        {"reset", &f->reset, NULL},    {"stall-up", NULL, &f->stalled[UP]},
        {"hang", NULL, &f->hang},      {"stall-down", NULL, &f->stalled[DOWN]},
        {"refuse", NULL, &f->refuse},
    };
    for (size_t i = 0; i < array_len(known); i++) {
        if (!str_eqz(key, known[i].name))
            continue;
        if (known[i].number)
            *known[i].number = value;
        else
            *known[i].flag = value != 0;
        return true;
    }
    return false;
}

static void kill_conn(struct link *l, struct conn *c)
{
    l->resets += !c->dead;
    c->dead = true;
}

void link_cut(struct link *l)
{
    vec_foreach(&l->conns, c)
        kill_conn(l, *c);
}

// --- Moving ----------------------------------------------------------------------------------------

static struct piece *head(struct way *w)
{
    return w->first < w->queue.n ? &w->queue.p[w->first] : NULL;
}

static bool has_room(const struct way *w)
{
    return !w->ended && w->waiting < WAITING_MAX;
}

void link_poll(const struct link *l, struct polls *polls, int64_t now_ns, int64_t *until_ns)
{
    vec_push(polls, (struct pollfd){.fd = l->listener, .events = POLLIN});
    vec_foreach(&l->conns, it) {
        struct conn *c = *it;
        for (int w = 0; w < WAYS; w++) {
            const struct piece *p = head(&c->way[1 - w]);
            bool may_send = p && !l->faults.stalled[1 - w];
            short events = (short)((has_room(&c->way[w]) ? POLLIN : 0) |
                                   (may_send && p->due_ns <= now_ns ? POLLOUT : 0));
            if (may_send && p->due_ns > now_ns && p->due_ns < *until_ns)
                *until_ns = p->due_ns;
            if (c->fd[w] >= 0 && events)
                vec_push(polls, (struct pollfd){.fd = c->fd[w], .events = events});
        }
    }
}

static int64_t due(const struct faults *f, struct way *w, size_t n, struct rng *rng, int64_t now_ns)
{
    int64_t at = now_ns + f->delay_ms * CLOCK_NS_PER_MS;
    if (f->jitter_ms)
        at += (int64_t)rng_below(rng, (uint64_t)f->jitter_ms + 1) * CLOCK_NS_PER_MS;
    if (at < w->last_due_ns)
        at = w->last_due_ns;
    if (f->rate)
        at += (int64_t)n * CLOCK_NS_PER_SEC / f->rate;
    return w->last_due_ns = at;
}

static void take_in(struct link *l, struct conn *c, int w, struct rng *rng, int64_t now_ns)
{
    static char buf[READ_MAX];
    struct way *way = &c->way[w];
    while (c->fd[w] >= 0 && has_room(way)) {
        ssize_t n = read(c->fd[w], buf, sizeof(buf));
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
            return;
        if (n < 0) {
            c->dead = true;
            return;
        }
        way->ended = n == 0;
        if (n == 0)
            return;
        l->bytes[w] += (uint64_t)n;
        if (l->faults.reset && rng_below(rng, 1000) < (uint64_t)l->faults.reset) {
            kill_conn(l, c);
            return;
        }
        vec_push(&way->queue, (struct piece){.due_ns = due(&l->faults, way, (size_t)n, rng, now_ns),
                                             .n = (size_t)n,
                                             .p = xstrndup(buf, (size_t)n)});
        way->waiting += (size_t)n;
    }
}

static void drop_sent(struct way *w)
{
    free(w->queue.p[w->first].p);
    w->queue.p[w->first].p = NULL;
    if (++w->first == w->queue.n)
        w->first = w->queue.n = 0;
}

static size_t write_size(const struct faults *f, const struct piece *p, struct rng *rng)
{
    size_t left = p->n - p->sent, most = (size_t)f->piece;
    if (!most)
        return left;
    most = 1 + rng_below(rng, most);
    return left < most ? left : most;
}

static void give_out(struct link *l, struct conn *c, int w, struct rng *rng, int64_t now_ns)
{
    struct way *way = &c->way[w];
    int to = c->fd[1 - w];
    if (to < 0 || l->faults.stalled[w])
        return;
    for (struct piece *p; (p = head(way)) && p->due_ns <= now_ns;) {
        ssize_t n = send(to, p->p + p->sent, write_size(&l->faults, p, rng), MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
            return;
        if (n < 0) {
            c->dead = true;
            return;
        }
        p->sent += (size_t)n;
        way->waiting -= (size_t)n;
        if (p->sent == p->n)
            drop_sent(way);
        else if (l->faults.piece)
            return; // the rest in another turn
    }
    if (!head(way) && way->ended && !way->told) {
        (void)shutdown(to, SHUT_WR);
        way->told = true;
    }
}

static void accept_all(struct link *l)
{
    for (int fd; (fd = accept4(l->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        int far = l->faults.refuse || l->faults.hang ? -1 : connect_to(l->target);
        if (far < 0 && !l->faults.hang) {
            l->refused++;
            close_hard(fd);
            continue;
        }
        l->accepted++;
        struct conn *c = xcalloc(1, sizeof(*c));
        c->fd[UP] = fd;
        c->fd[DOWN] = far;
        vec_push(&l->conns, c);
    }
}

static void turn_conn(struct link *l, struct conn *c, struct rng *rng, int64_t now_ns)
{
    if (c->fd[DOWN] < 0 && !l->faults.hang && (c->fd[DOWN] = connect_to(l->target)) < 0)
        c->dead = true;
    for (int w = 0; w < WAYS && !c->dead; w++) {
        take_in(l, c, w, rng, now_ns);
        if (!c->dead)
            give_out(l, c, w, rng, now_ns);
    }
    if (c->way[UP].told && c->way[DOWN].told)
        c->dead = true;
}

void link_turn(struct link *l, struct rng *rng, int64_t now_ns)
{
    accept_all(l);
    size_t kept = 0;
    for (size_t i = 0; i < l->conns.n; i++) {
        struct conn *c = l->conns.p[i];
        if (!c->dead)
            turn_conn(l, c, rng, now_ns);
        if (c->dead)
            conn_free(c);
        else
            l->conns.p[kept++] = c;
    }
    l->conns.n = kept;
}
