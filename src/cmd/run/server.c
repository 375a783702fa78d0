// SPDX-License-Identifier: Apache-2.0
//
// dray server: store, registry, API server and HTTP on one loop.
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "api/cel_check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rand.h"
#include "cmd/data/archive.h"
#include "cmd/data/data_dir.h"
#include "cmd/run/logging.h"
#include "cmd/run/process.h"
#include "cmd/run/server_keys.h"
#include "cmd/run/server_options.h"
#include "cmd/run/server_run.h"
#include "cmd/verb.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/tls_follow.h"
#include "os/file.h"
#include "pki/pki.h"
#include "server/audit.h"
#include "server/oidc.h"
#include "server/seal.h"

#include "base/banned.h"

static int verb_server(void);

const struct cli_verb server_verb = {
    .name = "server",
    .summary = "run a Kubernetes API server",
    .chapter = CLI_CLUSTER,
    .synopsis = "server --data-dir DIR [--listen HOST:PORT] [--config FILE] [OPTIONS]",
    .text = "Runs a Kubernetes API server for one machine. The first start creates DIR with a "
            "database, a CA, certificates and "
            "DIR/admin.kubeconfig; use it with 'kubectl --kubeconfig'.",
    .examples = "dray server --data-dir /var/lib/dray\ndray server --config /etc/dray/server.yaml",
    .groups = {&server_group, &logging_group},
    .config = true,
    .run = verb_server,
};

#define RENEW_NS \
    (3600 * CLOCK_NS_PER_SEC) // how often to look whether certificates are about to end

static struct log_module log_mod = LOG_MODULE("server");

struct running {
    struct server_flags flags;
    struct features features;
    struct loop *loop;
    struct store *store;
    struct api_cel_engine *cel;
    struct registry *registry;
    struct server *server;
    struct audit *audit;
    struct seal_config *seal; // NULL: objects are written plain
    struct pki pki;
    struct tls_server *tls;
    struct tls_follow follow;
    struct server_keys keys;
    struct server_ca ca;
    struct exec_timer renew;
    struct http_server *http, *local;
    struct server_door door, local_door;
    struct { // paths and addresses, owned
        char *database, *socket, *tokens, *denied, *kubeconfig, *url, *public_url;
    };
    bool owns_socket;
    int open_doors; // while stopping
    bool stopping;
    const char *verb;
    const struct server_guest *guest; // NULL: none
};

// --- Starting ------------------------------------------------------------------------------------

static struct str host_of(const char *listen)
{
    struct str s = str_z(listen);
    ptrdiff_t colon = str_rfind_char(s, ':');
    if (colon >= 0)
        s = str_upto(s, (size_t)colon);
    if (s.n >= 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = str_make(s.p + 1, s.n - 2);
    return s;
}

static void server_verb_offload(void *arg, exec_fn work, exec_fn after, void *job)
{
    loop_work(arg, work, after, job);
}

static int start_store(struct running *r, struct err *err)
{
    const struct server_flags *f = &r->flags;
    features_init(&r->features, FEATURES_MINOR);
    int ret = features_parse(&r->features, str_z(f->feature_gates), err);
    if (ret == 0)
        ret = features_check_dependencies(&r->features, err);
    if (ret < 0)
        return err_wrap(err, "--feature-gates");
    ret = data_dir_prepare(f->data_dir, err);
    if (ret == 0 && f->restore)
        ret = archive_restore(f->restore, f->data_dir, err);
    if (ret == 0)
        ret = data_dir_check_keys(f->data_dir, f->database.salvage, err);
    if (ret == 0 && f->database.encryption)
        ret = seal_config_load(f->database.encryption, &r->seal, err);
    if (ret == 0)
        ret = loop_new(&r->loop, err);
    if (ret < 0)
        return ret;
    loop_watch_turns(r->loop, "server");
    struct store_options store = {.exec = loop_exec(r->loop),
                                  .path = r->database,
                                  .sealer = r->seal ? seal_config_sealer(r->seal) : NULL,
                                  .history_events = (size_t)f->history_events,
                                  .reserve = true,
                                  .max_bytes = (size_t)f->database.max_bytes,
                                  .namespace_percent = (size_t)f->database.namespace_percent,
                                  .salvage = f->database.salvage ? data_dir_note_salvage : NULL,
                                  .salvage_arg = (void *)(uintptr_t)f->data_dir};
    ret = store_open(&store, &r->store, err);
    if (ret < 0)
        return ret;
    r->cel = api_cel_engine_new();
    struct registry_options registry = {
        .store = r->store,
        .exec = loop_exec(r->loop),
        .features = &r->features,
        .cel = api_cel_engine_rules(r->cel),
        .disable_admission = str_z(f->disable_admission_plugins),
        .podsec = {str_z(f->podsec.defaults), str_z(f->podsec.exempt_users),
                   str_z(f->podsec.exempt_namespaces), str_z(f->podsec.exempt_runtime_classes)},
        .offload = {server_verb_offload, r->loop}};
    return registry_new(&registry, &r->registry, err);
}

// server_verb_parse_authorization reads who may do what. Where a network can reach the server,
// somebody must say.
static int server_verb_parse_authorization(const struct server_flags *f,
                                           enum server_authorization *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum server_authorization mode;
    } modes[] = {{"Node,RBAC", SERVER_NODE_RBAC},
                 {"RBAC,Node", SERVER_NODE_RBAC},
                 {"RBAC", SERVER_RBAC},
                 {"AlwaysAllow", SERVER_ALWAYS_ALLOW}};
    struct str mode = str_z(f->authorization_mode ? f->authorization_mode : modes[0].name);
    size_t i = 0;
    while (i < array_len(modes) && !str_eqz(mode, modes[i].name))
        i++;
    if (i == array_len(modes))
        return err_set(err, ERR_INVALID,
                       "--authorization-mode is Node,RBAC or RBAC or AlwaysAllow, not \"%.*s\"",
                       STR_ARG(mode));
    *ret = modes[i].mode;
    bool near = address_is_loopback(host_of(f->listen));
    if (*ret == SERVER_ALWAYS_ALLOW && !near)
        return err_set(
            err, ERR_INVALID,
            "--authorization-mode AlwaysAllow lets every authenticated user do everything, so it "
            "listens on loopback only: --listen 127.0.0.1:PORT, or use Node,RBAC");
    if (*ret == SERVER_ALWAYS_ALLOW)
        LOG_WARN(&log_mod,
                 "every authenticated user may do everything: --authorization-mode AlwaysAllow");
    return 0;
}

static int prepare_pki(const struct server_flags *f, struct pki *ret, struct err *err)
{
    char *folder = data_dir_path(f->data_dir, "pki");
    const struct pki_host names = {host_of(f->listen), str_z(f->advertise_address)};
    int r = pki_prepare(folder, &names, clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC, ret, err);
    free(folder);
    return r;
}

static int server_verb_open_audit(const struct server_flags *f, struct audit **ret, struct err *err)
{
    const struct audit_options options = {.policy_file = f->audit.policy_file,
                                          .log_path = f->audit.log_path,
                                          .max_age_days = f->audit.max_age_days,
                                          .max_backups = f->audit.max_backups,
                                          .max_size_mb = f->audit.max_size_mb};
    if (!f->audit.policy_file != !f->audit.log_path)
        return err_set(err, ERR_INVALID,
                       "--audit-policy-file and --audit-log-path belong together; give both");
    return f->audit.policy_file ? audit_new(&options, ret, err) : 0;
}

static int start_server(struct running *r, struct err *err)
{
    const struct server_flags *f = &r->flags;
    struct server_options options = {.exec = loop_exec(r->loop),
                                     .registry = r->registry,
                                     .runtime_config = str_z(f->runtime_config),
                                     .token_file = r->tokens,
                                     .deny_file = r->denied,
                                     .anonymous = f->anonymous_auth,
                                     .bookmark_ns = f->bookmark_ms * CLOCK_NS_PER_MS};
    int ret = server_verb_parse_authorization(f, &options.authorization, err);
    if (ret == 0 && f->insecure_http && !address_is_loopback(host_of(f->listen)))
        ret = err_set(err, ERR_INVALID,
                      "--insecure-http makes everybody an administrator, so it listens on loopback "
                      "only: --listen 127.0.0.1:PORT");
    if (ret < 0)
        return ret;
    ret = server_verb_open_audit(f, &r->audit, err);
    if (ret < 0)
        return ret;
    options.audit = r->audit;
    char *pki_folder = data_dir_path(f->data_dir, "pki");
    char *account_key = NULL;
    ret = pki_account_key(pki_folder, &account_key, err);
    options.account_key = str_z(account_key ? account_key : "");
    if (ret == 0)
        ret = server_new(&options, &r->server, err);
    if (ret == 0)
        server_keys_follow(&r->keys, loop_exec(r->loop), r->server, pki_folder);
    free(account_key);
    free(pki_folder);
    if (ret < 0)
        return ret;
    if (!f->insecure_http) {
        ret = prepare_pki(f, &r->pki, err);
        if (ret < 0)
            return ret;
        struct tls_server_options tls = {.certificate_file = r->pki.server_file,
                                         .key_file = r->pki.server_key_file,
                                         .client_ca_file = r->pki.ca_file};
        ret = tls_server_new(&tls, &r->tls, err);
        if (ret < 0)
            return ret;
    }
    r->door = (struct server_door){.server = r->server, .insecure = f->insecure_http};
    r->local_door = (struct server_door){.server = r->server, .trusted = true};
    return 0;
}

// server_verb_renew_certificate makes new certificates in good time, as a start does; tls_follow
// takes them up.
static void server_verb_renew_certificate(void *arg)
{
    struct running *r = arg;
    struct err err = {0};
    struct pki pki = {0};
    int ret = prepare_pki(&r->flags, &pki, &err);
    if (ret == 0)
        ret = pki_write_kubeconfig(&pki, r->url, r->kubeconfig, &err);
    if (ret < 0)
        LOG_WARN(&log_mod, "cannot look after certificates", log_z("why", err.msg));
    pki_done(&pki);
    exec_timer_start(loop_exec(r->loop), &r->renew, RENEW_NS);
}

static int server_verb_read_pem(const char *flag, const char *fallback, char **ret, struct err *err)
{
    const char *path = flag ? flag : fallback;
    if (!path)
        return 0;
    int r = pki_read_file(path, ret, err);
    return r == -ENOENT ? err_set(err, ENOENT, "cannot read %s: there is no such file", path) : r;
}

// reach_nodes configures the server's access to the endpoints of nodes, for logs and commands.
static int reach_nodes(struct running *r, struct err *err)
{
    const struct server_flags *f = &r->flags;
    char *ca = NULL, *certificate = NULL, *key = NULL;
    int ret = server_verb_read_pem(f->kubelet_ca, r->pki.ca_file, &ca, err);
    if (ret == 0)
        ret = server_verb_read_pem(f->kubelet_certificate, r->pki.kubelet_client_file, &certificate,
                                   err);
    if (ret == 0)
        ret = server_verb_read_pem(f->kubelet_key, r->pki.kubelet_client_key_file, &key, err);
    if (ret == 0) {
        const struct server_nodes nodes = {.loop = r->loop,
                                           .ca_pem = str_z(ca),
                                           .certificate_pem = str_z(certificate),
                                           .key_pem = str_z(key),
                                           .insecure = f->kubelet_insecure,
                                           .address_types = str_z(f->kubelet_address_types)};
        ret = server_set_nodes(r->server, &nodes, err);
    }
    free(ca);
    free(certificate);
    free(key);
    return ret < 0 ? err_wrap(err, "the way to nodes") : 0;
}

// server_verb_trust_issuer accepts tokens of an OpenID Connect issuer. Flags without the issuer
// would be ignored, so they are errors.
static int server_verb_trust_issuer(struct running *r, struct err *err)
{
    const struct server_flags *f = &r->flags;
    char *ca = NULL;
    if (!f->oidc.issuer)
        return f->oidc.client_id || f->oidc.username_claim || f->oidc.username_prefix ||
                       f->oidc.groups_claim || f->oidc.groups_prefix || f->oidc.algs ||
                       f->oidc.ca_file || f->oidc.required.n
                   ? err_set(err, ERR_INVALID, "the options --oidc-… need --oidc-issuer-url")
                   : 0;
    int ret = server_verb_read_pem(f->oidc.ca_file, NULL, &ca, err);
    if (ret == 0) {
        const struct oidc_options options = {.loop = r->loop,
                                             .issuer = str_z(f->oidc.issuer),
                                             .client_id = str_z(f->oidc.client_id),
                                             .username_claim = str_z(f->oidc.username_claim),
                                             .username_prefix = f->oidc.username_prefix,
                                             .groups_claim = str_z(f->oidc.groups_claim),
                                             .groups_prefix = str_z(f->oidc.groups_prefix),
                                             .required = f->oidc.required.p,
                                             .required_len = f->oidc.required.n,
                                             .algs = str_z(f->oidc.algs),
                                             .ca_pem = str_z(ca)};
        ret = server_set_oidc(r->server, &options, err);
    }
    free(ca);
    return ret;
}

// server_verb_init_cluster makes (server_found_cluster) or brings up to date (server_publish_ca)
// what other components of Kubernetes look for.
static int server_verb_init_cluster(struct running *r,
                                    void (*tell)(struct server *, struct str, struct str,
                                                 struct str),
                                    struct err *err)
{
    char *ca = NULL, *proxy_ca = NULL;
    int ret = server_verb_read_pem(NULL, r->pki.ca_file, &ca, err);
    if (ret == 0)
        ret = server_verb_read_pem(NULL, r->pki.proxy_ca_file, &proxy_ca, err);
    if (ret == 0)
        tell(r->server, str_z(ca ? ca : ""), str_z(proxy_ca ? proxy_ca : ""), str_z(r->public_url));
    free(ca);
    free(proxy_ca);
    return ret;
}

// A step of 'dray rotate ca': certificates that the CA has not signed are made again, and everyone
// learns whom to trust. tls_follow does so for connections.
static int server_verb_prepare_ca(void *arg, struct err *err)
{
    const struct running *r = arg;
    struct pki pki = {0};
    int ret = prepare_pki(&r->flags, &pki, err);
    if (ret == 0)
        ret = pki_write_kubeconfig(&pki, r->url, r->kubeconfig, err);
    pki_done(&pki);
    return ret;
}

static int server_verb_take_ca(void *arg, struct err *err)
{
    struct running *r = arg;
    int ret = reach_nodes(r, err);
    if (ret == 0)
        ret = server_verb_init_cluster(r, server_publish_ca, err);
    if (ret == 0 && r->guest && r->guest->ca_changed)
        r->guest->ca_changed(r->guest->arg);
    if (ret == 0)
        LOG_INFO(&log_mod, "took up the CA's file");
    return ret;
}

static void follow_certificates(struct running *r)
{
    if (!r->tls)
        return;
    tls_follow_start(&r->follow, loop_exec(r->loop), r->tls);
    r->renew = (struct exec_timer){.fn = server_verb_renew_certificate, .arg = r};
    exec_timer_start(loop_exec(r->loop), &r->renew, RENEW_NS);
    r->ca = (struct server_ca){
        .prepare = server_verb_prepare_ca, .changed = server_verb_take_ca, .arg = r};
    server_ca_follow(&r->ca, r->loop, r->pki.ca_file);
}

static int open_local_door(struct running *r, struct err *err)
{
    if (r->socket[0] == '\0')
        return 0;
    if (!r->flags.unix_path &&
        strlen(r->socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        LOG_WARN(&log_mod, "the data folder's path is too long for a socket in it; use --unix",
                 log_z("path", r->socket));
        r->socket[0] = '\0';
        return 0;
    }
    struct http_server_options local = {
        .loop = r->loop, .handle = server_handle, .refusal = server_refusal, .arg = &r->local_door};
    r->local = http_server_new(&local);
    r->local_door.http = r->local;
    server_add_door(r->server, &r->local_door);
    int ret = http_server_listen_unix(r->local, r->socket, err);
    r->owns_socket = ret == 0;
    return ret;
}

static char *make_url(const struct server_flags *f, struct str host, uint16_t port)
{
    bool v6 = str_find_char(host, ':') >= 0;
    struct sbuf url = {0};
    sbuf_addf(&url, "%s://%s%.*s%s:%u", f->insecure_http ? "http" : "https", v6 ? "[" : "",
              STR_ARG(host), v6 ? "]" : "", (unsigned)port);
    return sbuf_take(&url);
}

// name_addresses: what listens everywhere is reached from here by loopback, and by others at what
// is advertised, or else at the machine's first address.
static void name_addresses(struct running *r, uint16_t port)
{
    const struct server_flags *f = &r->flags;
    struct str host = host_of(f->listen), others = host;
    char first[1][ADDRESS_BYTES];
    bool v6 = str_eq(host, STR("::"));
    if (host.n == 0 || v6 || str_eq(host, STR("0.0.0.0"))) {
        host = v6 ? STR("::1") : STR("127.0.0.1");
        others = address_machine(first, 1) ? str_z(first[0]) : host;
    }
    if (f->advertise_address)
        others = str_z(f->advertise_address);
    r->url = make_url(f, host, port);
    r->public_url = make_url(f, others, port);
}

// Another cluster of this machine has the port; the kubeconfig names the one that is taken instead.
static int server_verb_listen_anywhere(struct running *r, uint16_t *ret_port, struct err *err)
{
    int ret = http_server_listen_tcp(r->http, STR("127.0.0.1:0"), ret_port, err);
    if (ret == 0)
        (void)fprintf(stderr, "dray %s: %s is in use; listening on port %u instead\n", r->verb,
                      r->flags.listen, (unsigned)*ret_port);
    return ret;
}

static int open_doors(struct running *r, struct err *err)
{
    const struct server_flags *f = &r->flags;
    struct http_server_options options = {
        .loop = r->loop,
        .tls = r->tls,
        .handle = server_handle,
        .refusal = server_refusal,
        .arg = &r->door,
    };
    r->http = http_server_new(&options);
    r->door.http = r->http;
    server_add_door(r->server, &r->door);
    uint16_t port = 0;
    int ret = http_server_listen_tcp(r->http, str_z(f->listen), &port, err);
    if (ret == -EADDRINUSE && f->any_port)
        ret = server_verb_listen_anywhere(r, &port, err);
    if (ret < 0)
        return ret;
    name_addresses(r, port);
    server_set_address(r->server, str_z(strstr(r->url, "://") + 3));
    ret = open_local_door(r, err);
    if (ret < 0)
        return ret;
    ret = pki_write_kubeconfig(r->tls ? &r->pki : NULL, r->url, r->kubeconfig, err);
    if (ret != -ENOSPC)
        return ret;
    // A full disk must not prevent a start: only a running server can delete objects.
    LOG_WARN(&log_mod, "the kubeconfig is not current", log_z("reason", err->msg));
    return 0;
}

// --- Stopping ------------------------------------------------------------------------------------

static void door_closed(void *arg)
{
    struct running *r = arg;
    if (--r->open_doors == 0)
        loop_stop(r->loop);
}

static void server_verb_stop(void *arg)
{
    struct running *r = arg;
    if (r->stopping)
        return;
    r->stopping = true;
    LOG_INFO(&log_mod, "stopping");
    r->open_doors = 1 + (r->local != NULL) + (r->guest != NULL);
    if (r->guest)
        r->guest->stop(r->guest->arg, door_closed, r);
    server_stop(r->server);
    tls_follow_stop(&r->follow);
    server_keys_stop(&r->keys);
    server_ca_stop(&r->ca);
    if (r->tls)
        exec_timer_stop(loop_exec(r->loop), &r->renew);
    http_server_stop(r->http, 5 * CLOCK_NS_PER_SEC, door_closed, r);
    if (r->local)
        http_server_stop(r->local, 5 * CLOCK_NS_PER_SEC, door_closed, r);
}

static void server_verb_leave_loop(void *arg)
{
    loop_stop(arg);
}

// Runs what was posted so far, and what that posts, a few steps deep.
static void server_verb_run_posted(struct running *r)
{
    for (int i = 0; i < 4; i++) {
        exec_post(loop_exec(r->loop), server_verb_leave_loop, r->loop);
        loop_run(r->loop);
    }
}

// What could not be started follows the store already, and has requested roles: such calls and
// watches begin before they are given up, else nothing ends them.
static void server_verb_abort_start(struct running *r)
{
    server_verb_run_posted(r);
    server_stop(r->server);
    server_verb_run_posted(r);
}

static void running_done(struct running *r)
{
    http_server_free(r->http);
    http_server_free(r->local);
    server_keys_stop(&r->keys);
    if (r->server && !r->stopping)
        server_verb_abort_start(r);
    registry_stop(r->registry);
    // Writes whose clients have gone still get their answers here.
    if (r->store)
        store_close(r->store);
    seal_config_free(r->seal);
    if (r->guest)
        r->guest->free(r->guest->arg);
    registry_free(r->registry);
    server_free(r->server);
    audit_free(r->audit);
    api_cel_engine_free(r->cel);
    tls_server_free(r->tls);
    loop_free(r->loop);
    if (r->owns_socket) // what else lies there is not ours
        (void)unlink(r->socket);
    pki_done(&r->pki);
    free(r->database);
    free(r->socket);
    free(r->tokens);
    free(r->denied);
    free(r->kubeconfig);
    free(r->url);
    free(r->public_url);
}

// --- The verb ------------------------------------------------------------------------------------

static void name_files(struct running *r)
{
    const struct server_flags *f = &r->flags;
    r->database = data_dir_path(f->data_dir, "dray.db");
    r->denied = data_dir_path(f->data_dir, "denied");
    r->socket = f->unix_path ? xstrndup(f->unix_path, strlen(f->unix_path))
                             : data_dir_path(f->data_dir, "dray.sock");
    r->tokens = f->token_file ? xstrndup(f->token_file, strlen(f->token_file))
                              : data_dir_path(f->data_dir, "tokens.csv");
    r->kubeconfig = f->kubeconfig_out ? xstrndup(f->kubeconfig_out, strlen(f->kubeconfig_out))
                                      : data_dir_path(f->data_dir, "admin.kubeconfig");
}

static void prepare_process(void)
{
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int server_verb_start(struct running *r, struct err *err)
{
    int ret = start_store(r, err);
    if (ret == 0)
        ret = start_server(r, err);
    if (ret == 0)
        ret = reach_nodes(r, err);
    if (ret == 0)
        ret = server_verb_trust_issuer(r, err);
    if (ret == 0)
        ret = open_doors(r, err);
    if (ret == 0)
        ret = server_verb_init_cluster(r, server_found_cluster, err);
    if (ret == 0)
        ret = data_dir_note_keys(r->flags.data_dir, err);
    if (ret == 0)
        follow_certificates(r);
    if (ret == 0)
        ret = loop_on_signal(r->loop, SIGTERM, server_verb_stop, r, err);
    if (ret == 0)
        ret = loop_on_signal(r->loop, SIGINT, server_verb_stop, r, err);
    return ret;
}

static int start_guest(struct running *r, struct err *err)
{
    if (!r->guest)
        return 0;
    const struct server_host host = {.loop = r->loop,
                                     .registry = r->registry,
                                     .server = r->server,
                                     .features = &r->features,
                                     .url = r->url,
                                     .public_url = r->public_url,
                                     .kubeconfig = r->kubeconfig,
                                     .pki = r->tls ? &r->pki : NULL};
    return r->guest->start(r->guest->arg, &host, err);
}

int server_run(const char *verb, const struct server_guest *guest)
{
    struct running r = {.flags = server_flags, .verb = verb, .guest = guest};
    struct err err = {0};
    prepare_process();
    name_files(&r);
    int ret = logging_start(LOG_FORMAT_TEXT, &err);
    if (ret == 0)
        ret = server_verb_start(&r, &err);
    if (ret == 0)
        ret = start_guest(&r, &err);
    if (ret < 0) {
        (void)fprintf(stderr, "dray %s: %s\n", verb, err.msg);
        running_done(&r);
        return VERB_NO;
    }
    if (!server_has_roles(r.server))
        LOG_INFO(&log_mod, "everyone who is authenticated may do everything; "
                           "--authorization-mode RBAC asks roles and bindings");
    if (!guest) {
        printf("dray server ready at %s, kubeconfig %s\n", r.url, r.kubeconfig);
        (void)fflush(stdout);
    }
    loop_run(r.loop);
    running_done(&r);
    return VERB_OK;
}

static int verb_server(void)
{
    if (!server_flags.data_dir)
        return cli_usage_error("server", "--data-dir DIR is missing");
    process_confine();
    return server_run("server", NULL);
}
