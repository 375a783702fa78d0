// SPDX-License-Identifier: Apache-2.0
//
// Scans the registration directory, connects to each socket, queries the plugin behind it and
// notifies it of the result; a failed one is retried with a growing delay.
#include "node/dra/registrar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

#define PERIOD_NS    CLOCK_NS_PER_SEC
#define DIAL_NS      (10 * CLOCK_NS_PER_SEC)
#define GET_INFO_NS  CLOCK_NS_PER_SEC
#define NOTIFY_NS    (5 * CLOCK_NS_PER_SEC)
#define RETRY_MIN_NS (CLOCK_NS_PER_SEC / 2)
#define RETRY_MAX_NS (122 * CLOCK_NS_PER_SEC)

static struct log_module log_mod = LOG_MODULE("agent");

// Which file a path stood for: another one of the same name is another plugin.
struct identity {
    dev_t device;
    ino_t inode;
    int64_t made_ns;
};

enum phase {
    PHASE_IDLE, // to be tried when its time comes
    PHASE_DIAL,
    PHASE_INFO,
    PHASE_NOTIFY,
    PHASE_REGISTERED,
};

struct socket {
    struct list_node node;
    struct registrar *owner;
    char *path;
    struct identity identity;
    bool seen; // in the look that is under way
    bool refused;
    enum phase phase;
    int64_t retry_ns; // the next wait
    int64_t next_ns;  // not before
    struct transport_link *link;
    struct exec_timer timer; // of the dialling
    // Its answer:
    char *driver, *endpoint;
    bool accepted;
    struct err err; // why not
};

struct registrar {
    struct registrar_options options;
    char *folder;
    struct list sockets;
    size_t sockets_len;
    struct exec_timer timer;
    bool full_told;
};

// --- The conversation with a plugin --------------------------------------------------------------

static void registrar_close_link(struct socket *s)
{
    exec_timer_stop(s->owner->options.exec, &s->timer);
    struct transport_link *link = take_ptr(s->link);
    s->owner->options.transport->close(link);
}

static void registrar_forget_plugin(struct socket *s)
{
    if (s->accepted)
        s->owner->options.leave(s->owner->options.arg, str_z(s->driver), str_z(s->endpoint));
    s->accepted = false;
    free(take_ptr(s->driver));
    free(take_ptr(s->endpoint));
}

// It did not work: later again.
static void registrar_retry_later(struct socket *s)
{
    const struct registrar_options *o = &s->owner->options;
    LOG_WARN(&log_mod, "plugin is not registered", log_z("socket", s->path),
             log_z("why", s->err.msg));
    registrar_forget_plugin(s);
    s->phase = PHASE_IDLE;
    s->refused = true;
    static const struct backoff_policy p = {.first_ns = RETRY_MIN_NS, .max_ns = RETRY_MAX_NS};
    s->retry_ns = backoff_grow_ns(&p, s->retry_ns);
    s->next_ns = exec_now_ns(o->exec) + s->retry_ns;
    registrar_close_link(s);
    if (o->failed)
        o->failed(o->arg, str_z(s->path), &s->err);
}

static void registrar_on_notified(void *arg, const struct grpc_result *r)
{
    struct socket *s = arg;
    if (!s->link)
        return; // hung up
    if (r->status != GRPC_OK && s->accepted) {
        struct err why;
        (void)transport_error(r, &why);
        (void)err_set(&s->err, ERR_UNAVAILABLE,
                      "RegisterPlugin error -- failed to send registration status at socket %s, "
                      "err: %s",
                      s->path, why.msg);
    }
    if (r->status != GRPC_OK || !s->accepted) {
        registrar_retry_later(s);
        return;
    }
    LOG_INFO(&log_mod, "plugin is registered", log_z("driver", s->driver),
             log_z("endpoint", s->endpoint));
    s->phase = PHASE_REGISTERED;
    s->refused = false;
    s->retry_ns = 0;
    registrar_close_link(s);
}

static void registrar_notify_plugin(struct socket *s)
{
    cleanup_proto_writer struct proto_writer w = {0};
    const struct plugin_registration_status status = {
        .plugin_registered = s->accepted,
        .error = s->accepted ? (struct str){0} : str_z(s->err.msg),
    };
    plugin_encode(&plugin_registration_status_message, &status, &w);
    const struct grpc_request q = {
        .method = STR(PLUGIN_NOTIFY),
        .message = proto_written(&w),
        .timeout_ns = NOTIFY_NS,
        .done = registrar_on_notified,
        .arg = s,
    };
    s->phase = PHASE_NOTIFY;
    s->owner->options.transport->call(s->link, &q);
}

// Accepts the plugin, or sets s->err.
static void registrar_accept_info(struct socket *s, struct plugin_info *info)
{
    const struct registrar_options *o = &s->owner->options;
    if (!str_eqz(info->type, PLUGIN_TYPE_DRA)) {
        (void)err_set(&s->err, ERR_INVALID,
                      "RegisterPlugin error -- no handler registered for plugin type: %.*s at "
                      "socket %s",
                      STR_ARG(info->type), s->path);
        return;
    }
    if (info->endpoint.n == 0)
        info->endpoint = str_z(s->path);
    struct err why = {0};
    if (str_find_char(info->endpoint, '\0') >= 0 || str_find_char(info->name, '\0') >= 0)
        (void)err_set(&why, ERR_INVALID, "name or endpoint is not a text");
    else if (o->accept(o->arg, info, &why) == 0)
        s->accepted = true;
    if (s->accepted) {
        s->driver = xstrndup(info->name.p, info->name.n);
        s->endpoint = xstrndup(info->endpoint.p, info->endpoint.n);
        return;
    }
    bool invalid = why.code == ERR_INVALID;
    (void)err_set(&s->err, why.code, "RegisterPlugin error -- plugin %s failed with err: %s",
                  invalid ? "validation" : "registration", why.msg);
}

static void registrar_on_info(void *arg, const struct grpc_result *r)
{
    struct socket *s = arg;
    if (!s->link)
        return;
    struct err why = {0};
    cleanup_arena struct arena a = {0};
    struct plugin_info info = {0};
    bool known = r->status == GRPC_OK;
    if (!known)
        (void)transport_error(r, &why);
    else
        known = plugin_decode(&plugin_info_message, r->response, &info, &a, &why) == 0;
    if (!known) {
        (void)err_set(&s->err, ERR_UNAVAILABLE,
                      "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at "
                      "socket %s, err: %s",
                      s->path, why.msg);
        registrar_retry_later(s);
        return;
    }
    s->err = (struct err){0};
    registrar_accept_info(s, &info);
    registrar_notify_plugin(s);
}

static void registrar_on_state(void *arg, bool connected)
{
    struct socket *s = arg;
    if (!connected || s->phase != PHASE_DIAL)
        return;
    exec_timer_stop(s->owner->options.exec, &s->timer);
    s->phase = PHASE_INFO;
    const struct grpc_request q = {.method = STR(PLUGIN_GET_INFO),
                                   .timeout_ns = GET_INFO_NS,
                                   .done = registrar_on_info,
                                   .arg = s};
    s->owner->options.transport->call(s->link, &q);
}

static void registrar_on_dial_timeout(void *arg)
{
    struct socket *s = arg;
    (void)err_set(&s->err, ERR_TIMEOUT,
                  "RegisterPlugin error -- dial failed at socket %s, err: no answer", s->path);
    registrar_retry_later(s);
}

static void registrar_dial_socket(struct socket *s)
{
    const struct registrar_options *o = &s->owner->options;
    s->phase = PHASE_DIAL;
    s->link = o->transport->open(o->transport, s->path, registrar_on_state, s);
    s->timer.fn = registrar_on_dial_timeout;
    s->timer.arg = s;
    exec_timer_start(o->exec, &s->timer, o->dial_ns ? o->dial_ns : DIAL_NS);
}

// --- The directory -------------------------------------------------------------------------------

static void registrar_socket_free(struct socket *s)
{
    registrar_close_link(s);
    list_remove(&s->node);
    s->owner->sockets_len--;
    free(s->path);
    free(s->driver);
    free(s->endpoint);
    free(s);
}

static void registrar_socket_gone(struct socket *s)
{
    registrar_close_link(s);
    registrar_forget_plugin(s);
    registrar_socket_free(s);
}

static struct socket *registrar_find_socket(const struct registrar *r, const char *path)
{
    list_foreach(&r->sockets, n) {
        struct socket *s = list_entry(n, struct socket, node);
        if (strcmp(s->path, path) == 0)
            return s;
    }
    return NULL;
}

static bool registrar_same_identity(const struct identity *a, const struct identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->made_ns == b->made_ns;
}

// A socket is never written to, so its time of change is that of its making.
static struct identity registrar_identity(const struct stat *st)
{
    return (struct identity){st->st_dev, st->st_ino,
                             (int64_t)st->st_mtim.tv_sec * CLOCK_NS_PER_SEC + st->st_mtim.tv_nsec};
}

static void registrar_visit_socket(struct registrar *r, const char *path, const struct stat *st)
{
    struct identity identity = registrar_identity(st);
    struct socket *s = registrar_find_socket(r, path);
    if (s && registrar_same_identity(&s->identity, &identity)) {
        s->seen = true;
        return;
    }
    if (s)
        registrar_socket_gone(s);
    if (r->sockets_len >= REGISTRAR_SOCKETS_MAX) {
        if (!r->full_told)
            LOG_ERROR(&log_mod, "too many sockets in the registration folder",
                      log_z("folder", r->folder));
        r->full_told = true;
        return;
    }
    s = xcalloc(1, sizeof(*s));
    s->owner = r;
    s->path = xstrndup(path, strlen(path));
    s->identity = identity;
    s->seen = true;
    list_push_back(&r->sockets, &s->node);
    r->sockets_len++;
}

// NOLINTNEXTLINE(misc-no-recursion): REGISTRAR_DEPTH_MAX folders deep at most
static void registrar_scan_directory(struct registrar *r, const char *folder, int depth)
{
    DIR *dir = depth < REGISTRAR_DEPTH_MAX ? opendir(folder) : NULL;
    if (!dir)
        return;
    const struct dirent *e;
    while ((e = readdir(dir))) { // NOLINT(concurrency-mt-unsafe): a stream of our own
        if (e->d_name[0] == '.')
            continue;
        cleanup_sbuf struct sbuf path = {0};
        struct stat st;
        sbuf_addf(&path, "%s/%s", folder, e->d_name);
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue; // gone already
        if (S_ISDIR(st.st_mode))
            registrar_scan_directory(r, path.p, depth + 1);
        else if (S_ISSOCK(st.st_mode))
            registrar_visit_socket(r, path.p, &st);
    }
    (void)closedir(dir);
}

static bool registrar_is_settled(const struct socket *s)
{
    return s->phase == PHASE_REGISTERED || (s->phase == PHASE_IDLE && s->refused);
}

// A look: what is gone leaves first, then what is new is asked.
static void registrar_on_scan(void *arg)
{
    struct registrar *r = arg;
    const struct registrar_options *o = &r->options;
    size_t unsettled = 0;
    list_foreach(&r->sockets, n)
        list_entry(n, struct socket, node)->seen = false;
    registrar_scan_directory(r, r->folder, 0);
    list_foreach(&r->sockets, n) {
        struct socket *s = list_entry(n, struct socket, node);
        if (!s->seen)
            registrar_socket_gone(s);
    }
    list_foreach(&r->sockets, n) {
        struct socket *s = list_entry(n, struct socket, node);
        if (s->phase == PHASE_IDLE && exec_now_ns(o->exec) >= s->next_ns)
            registrar_dial_socket(s);
        unsettled += !registrar_is_settled(s);
    }
    exec_timer_start(o->exec, &r->timer, o->period_ns ? o->period_ns : PERIOD_NS);
    if (o->looked)
        o->looked(o->arg, unsettled);
}

// --- Construction --------------------------------------------------------------------------------

int registrar_new(const struct registrar_options *options, struct registrar **ret, struct err *err)
{
    if (mkdir(options->folder, 0755) != 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make the registration folder %s: %s", options->folder,
                       strerrordesc_np(errno));
    struct registrar *r = xcalloc(1, sizeof(*r));
    r->options = *options;
    size_t n = strlen(options->folder);
    while (n > 1 && options->folder[n - 1] == '/')
        n--;
    r->folder = xstrndup(options->folder, n);
    list_init(&r->sockets);
    r->timer.fn = registrar_on_scan;
    r->timer.arg = r;
    *ret = r;
    return 0;
}

void registrar_start(struct registrar *r)
{
    exec_timer_start(r->options.exec, &r->timer, 0);
}

void registrar_free(struct registrar *r)
{
    if (!r)
        return;
    exec_timer_stop(r->options.exec, &r->timer);
    list_foreach(&r->sockets, n)
        registrar_socket_free(list_entry(n, struct socket, node));
    free(r->folder);
    free(r);
}
