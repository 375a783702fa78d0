// SPDX-License-Identifier: Apache-2.0
//
// Listening, letting connections in, stopping.
#include <assert.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "net/http/relief.h"
#include "net/http/server_int.h"

#include "base/banned.h"

#define BACKLOG 4096

// A peer that vanished without a word is noticed after about two minutes: when nothing is on its
// way to it, by asking; else because it does not acknowledge. Without the latter the kernel goes on
// trying for longer.
#define KEEPALIVE_IDLE_SEC     60
#define KEEPALIVE_INTERVAL_SEC 15
#define KEEPALIVE_PROBES       4
#define UNACKNOWLEDGED_MS      120000

static void http_server_check_stopped(struct http_server *s);

// --- Life ----------------------------------------------------------------------------------------

static void on_idle(uv_idle_t *idle)
{
    (void)idle; // that it is armed is enough: the loop does not sleep
}

static void http_server_on_prepare(uv_prepare_t *prepare)
{
    struct server_uv *u = container_of(prepare, struct server_uv, prepare);
    u->handshake_ns = 0;
    http_server_flush(u->server);
    if (list_empty(&u->server->dirty))
        (void)uv_idle_stop(&u->idle);
    else
        (void)uv_idle_start(&u->idle, on_idle);
}

static bool somebody_waits(const struct http_server *s)
{
    list_foreach(&s->uv->listeners, node)
        if (list_entry(node, const struct listener, node)->waiting)
            return true;
    return false;
}

// Idle connections must not keep new clients out.
static void http_server_accept_waiting(void *arg)
{
    struct http_server *s = arg;
    if (s->stopping || !somebody_waits(s) || s->stats.connections < s->limits.connections)
        return;
    struct conn *c = relief_idlest(s);
    if (c) {
        s->stats.refused++;
        conn_close(c); // lets the next one in
    }
    if (somebody_waits(s)) // no connection is idle yet, or this was one of several addresses
        exec_timer_start(s->exec, &s->crowded, s->limits.give_way_ns / 2);
}

static void let_in(struct http_server *s)
{
    list_foreach(&s->uv->listeners, node) {
        struct listener *l = list_entry(node, struct listener, node);
        if (l->waiting && s->stats.connections < s->limits.connections) {
            l->waiting = false;
            sock_accept(l);
        }
    }
}

static void conn_gone(struct http_server *s)
{
    if (!s->stopping)
        let_in(s);
    else
        http_server_check_stopped(s);
}

struct http_server *http_server_new(const struct http_server_options *options)
{
    struct http_server *s = xmalloc(sizeof(*s));
    http_server_init(s, loop_exec(options->loop), options);
    struct server_uv *u = xcalloc(1, sizeof(*u));
    u->server = s;
    u->loop = loop_uv(options->loop);
    s->crowded = (struct exec_timer){.fn = http_server_accept_waiting, .arg = s};
    list_init(&u->listeners);
    (void)uv_prepare_init(u->loop, &u->prepare);
    (void)uv_idle_init(u->loop, &u->idle);
    (void)uv_prepare_start(&u->prepare, http_server_on_prepare);
    uv_unref((uv_handle_t *)&u->prepare);
    u->handles = 2;
    s->uv = u;
    s->conn_gone = conn_gone;
    return s;
}

void server_handle_closed(struct server_uv *u)
{
    assert(u->handles > 0);
    if (--u->handles > 0)
        return;
    struct http_server *s = u->server;
    http_server_done(s);
    sbuf_done(&u->cipher);
    sbuf_done(&u->spare);
    free(u);
    free(s);
}

static void on_prepare_closed(uv_handle_t *handle)
{
    server_handle_closed(container_of((uv_prepare_t *)handle, struct server_uv, prepare));
}

static void on_idle_closed(uv_handle_t *handle)
{
    server_handle_closed(container_of((uv_idle_t *)handle, struct server_uv, idle));
}

static void http_server_on_listener_closed(uv_handle_t *handle)
{
    struct listener *l = container_of(handle, struct listener, uv.handle);
    struct server_uv *u = l->server->uv;
    free(l);
    server_handle_closed(u);
}

static void close_listener(struct listener *l)
{
    list_remove(&l->node);
    uv_close(&l->uv.handle, http_server_on_listener_closed);
}

static void close_connections(struct http_server *s)
{
    while (!list_empty(&s->conns)) {
        struct conn *c = list_entry(s->conns.head.next, struct conn, node);
        if (c->entered) { // we are called from one of its callbacks: it closes when that returns
            list_remove(&c->node);
            c->doomed = true;
            continue;
        }
        conn_close(c);
    }
}

static void http_server_on_grace_over(void *arg)
{
    close_connections(arg);
}

static void http_server_check_stopped(struct http_server *s)
{
    if (s->stats.connections > 0 || !s->stopped)
        return;
    exec_timer_stop(s->exec, &s->grace);
    exec_post(s->exec, s->stopped, s->stopped_arg);
    s->stopped = NULL;
}

void http_server_stop(struct http_server *s, int64_t grace_ns, exec_fn done, void *arg)
{
    if (done) {
        s->stopped = done;
        s->stopped_arg = arg;
    }
    if (!s->stopping) {
        s->stopping = true;
        s->grace.fn = http_server_on_grace_over;
        s->grace.arg = s;
        exec_timer_start(s->exec, &s->grace, grace_ns);
        while (!list_empty(&s->uv->listeners))
            close_listener(list_entry(s->uv->listeners.head.next, struct listener, node));
        list_foreach(&s->conns, node) {
            struct conn *c = list_entry(node, struct conn, node);
            if (c->proto)
                c->proto->stopping(c);
            else
                conn_close(c);
        }
    }
    http_server_check_stopped(s);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    assert(!s->freed);
    s->freed = true;
    s->stopping = true;
    s->stopped = NULL;
    exec_timer_stop(s->exec, &s->grace);
    exec_timer_stop(s->exec, &s->crowded);
    while (!list_empty(&s->uv->listeners))
        close_listener(list_entry(s->uv->listeners.head.next, struct listener, node));
    close_connections(s);
    uv_close((uv_handle_t *)&s->uv->prepare, on_prepare_closed);
    uv_close((uv_handle_t *)&s->uv->idle, on_idle_closed);
}

// --- Listening -----------------------------------------------------------------------------------

static void http_server_on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = container_of(stream, struct listener, uv.stream);
    struct http_server *s = l->server;
    if (status < 0) {
        // Out of file descriptors: libuv has turned the peer away, so that the loop does not spin.
        s->stats.refused++;
        return;
    }
    if (s->stats.connections < s->limits.connections)
        sock_accept(l);
    else {
        l->waiting = true; // the rest waits in the kernel's queue
        http_server_accept_waiting(s);
    }
}

static struct listener *listener_new(struct http_server *s)
{
    struct listener *l = xcalloc(1, sizeof(*l));
    l->server = s;
    s->uv->handles++;
    list_push_back(&s->uv->listeners, &l->node);
    return l;
}

// Accepted sockets inherit these.
static void set_tcp_options(uv_tcp_t *tcp)
{
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)tcp, &fd) < 0)
        return;
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS},
    };
    for (size_t i = 0; i < array_len(options); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof(options[i].value));
}

static int http_server_explain_listen(int r, struct str address, struct err *err)
{
    int code = -r;
    switch (code) {
    case EADDRINUSE:
        return err_set(err, code,
                       "cannot listen on %.*s: address already in use; another server runs there: "
                       "stop it or choose another address",
                       STR_ARG(address));
    case EACCES:
    case EPERM:
        return err_set(err, code,
                       "cannot listen on %.*s: permission denied; ports below 1024 need "
                       "CAP_NET_BIND_SERVICE: choose a higher one, or for a path a folder you may "
                       "write to",
                       STR_ARG(address));
    case EADDRNOTAVAIL:
        return err_set(err, code,
                       "cannot listen on %.*s: this machine has no such address; 0.0.0.0 or [::] "
                       "means all it has",
                       STR_ARG(address));
    default:
        return err_set(err, code, "cannot listen on %.*s: %s", STR_ARG(address), uv_strerror(r));
    }
}

// Takes "host:port" apart; brackets around IPv6 addresses.
static int split_address(struct str address, char *host, size_t host_cap, char *port,
                         size_t port_cap, struct err *err)
{
    ptrdiff_t colon = str_rfind_char(address, ':');
    struct str h = str_upto(address, colon < 0 ? 0 : (size_t)colon);
    struct str p = str_from(address, (size_t)(colon + 1));
    bool brackets = h.n >= 2 && h.p[0] == '[' && h.p[h.n - 1] == ']';
    uint64_t number = 0;
    if (colon < 0 || str_to_u64(p, &number) < 0 || number > 65535 ||
        (!brackets && str_find_char(h, ':') >= 0))
        return err_set(err, EINVAL,
                       "\"%.*s\" is not an address to listen on: write host:port, as in "
                       "127.0.0.1:6443 or [::]:6443",
                       STR_ARG(address));
    if (brackets)
        h = str_make(h.p + 1, h.n - 2);
    if (h.n >= host_cap)
        return err_set(err, EINVAL, "the host to listen on is too long");
    (void)snprintf(host, host_cap, "%.*s", STR_ARG(h));
    (void)snprintf(port, port_cap, "%u", (unsigned)number);
    return 0;
}

static int http_server_resolve_address(struct str address, struct sockaddr_storage *ret,
                                       struct err *err)
{
    char host[256], port[8];
    int r = split_address(address, host, sizeof(host), port, sizeof(port), err);
    if (r < 0)
        return r;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    r = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (r != 0)
        return err_set(err, EADDRNOTAVAIL, "cannot listen on %.*s: %s; give a numeric address",
                       STR_ARG(address), gai_strerror(r));
    *ret = (struct sockaddr_storage){0};
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static uint16_t bound_port(const uv_tcp_t *tcp)
{
    struct sockaddr_storage a = {0};
    int n = sizeof(a);
    (void)uv_tcp_getsockname(tcp, (struct sockaddr *)&a, &n);
    return ntohs(a.ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)&a)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)&a)->sin_port);
}

int http_server_listen_tcp(struct http_server *s, struct str address, uint16_t *ret_port,
                           struct err *err)
{
    struct sockaddr_storage a;
    int r = http_server_resolve_address(address, &a, err);
    if (r < 0)
        return r;
    struct listener *l = listener_new(s);
    (void)uv_tcp_init(s->uv->loop, &l->uv.tcp);
    r = uv_tcp_bind(&l->uv.tcp, (const struct sockaddr *)&a, 0);
    if (r == 0) {
        set_tcp_options(&l->uv.tcp);
        r = uv_listen(&l->uv.stream, BACKLOG, http_server_on_connection);
    }
    if (r < 0) {
        close_listener(l);
        return http_server_explain_listen(r, address, err);
    }
    if (ret_port)
        *ret_port = bound_port(&l->uv.tcp);
    return 0;
}

// A socket file that a server left behind when it was killed is removed; one that answers is not.
int net_clear_path(const char *path, struct err *err)
{
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(
            err, ENAMETOOLONG,
            "cannot listen on %s: a socket's path has at most %zu bytes; choose a shorter "
            "one",
            path, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, EEXIST, "cannot listen on %s: it exists and is not a socket; move it",
                       path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, errno, "cannot make a socket: %s", uv_strerror(-errno));
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, path, strlen(path));
    bool alive = connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0 || errno == EAGAIN;
    (void)close(fd);
    if (alive)
        return http_server_explain_listen(-EADDRINUSE, str_z(path), err);
    (void)unlink(path);
    return 0;
}

int http_server_listen_unix(struct http_server *s, const char *path, struct err *err)
{
    int r = net_clear_path(path, err);
    if (r < 0)
        return r;
    struct listener *l = listener_new(s);
    (void)uv_pipe_init(s->uv->loop, &l->uv.pipe, 0);
    r = uv_pipe_bind(&l->uv.pipe, path);
    // No client can connect before uv_listen, so there is no moment with a wider mode.
    if (r == 0 && chmod(path, 0600) < 0)
        r = -errno;
    if (r == 0)
        r = uv_listen(&l->uv.stream, BACKLOG, http_server_on_connection);
    if (r < 0) {
        close_listener(l);
        return http_server_explain_listen(r, str_z(path), err);
    }
    return 0;
}
