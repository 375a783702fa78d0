// SPDX-License-Identifier: Apache-2.0
//
// The agent inside `dray up`: its directories, certificates and driver, and its registration.
#include "cmd/up/up_agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/remote.h"
#include "cmd/run/agent_run.h"
#include "cmd/run/sim_driver.h"
#include "inproc/local.h"
#include "net/tls_follow.h"
#include "node/agent.h"
#include "pki/pki.h"

#include "base/banned.h"

struct up_agent {
    struct up_agent_options options;
    struct arena arena;
    struct tls_server *tls;
    struct tls_follow follow;
    struct client *client; // as the node that this is
    struct agent *agent;
    struct sim_driver_keeper *driver; // NULL: none
    bool told;
};

static const char *up_agent_path_below(struct up_agent *u, const char *name)
{
    return arena_strf(&u->arena, "%s/agent%s%s", u->options.data_dir, name[0] ? "/" : "", name).p;
}

static void up_agent_print_line(void *arg, const char *line)
{
    (void)arg;
    printf("  node: %s\n", line);
    (void)fflush(stdout);
}

static void up_agent_start_driver(struct up_agent *u)
{
    const struct up_agent_options *o = &u->options;
    const struct sim_driver d = {.verb = "up",
                                 .profiles = o->devices,
                                 .node = o->node,
                                 .kubeconfig = o->host->kubeconfig,
                                 .data_dir = up_agent_path_below(u, "")};
    if (o->devices && !u->driver)
        u->driver = sim_driver_keep(loop_exec(o->loop), &d);
}

static void up_agent_on_registered(void *arg)
{
    struct up_agent *u = arg;
    up_agent_start_driver(u); // its slices belong to the Node
    if (!u->told && u->options.registered)
        u->options.registered(u->options.arg);
    u->told = true;
}

// up_agent_names are those that the endpoint is reached by.
static void up_agent_names(const struct up_agent *u, const char *names[4])
{
    names[0] = u->options.node;
    names[1] = "127.0.0.1";
    names[2] = "localhost";
    names[3] = NULL;
}

static int up_agent_make_certificate(struct up_agent *u, bool endpoint, char **ret_file,
                                     char **ret_key_file, struct err *err)
{
    const char *names[4];
    up_agent_names(u, names);
    return pki_make_node_certificate(u->options.host->pki, u->options.node, endpoint ? names : NULL,
                                     clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC, ret_file,
                                     ret_key_file, err);
}

int up_agent_renew(struct up_agent *u, struct err *err)
{
    int r = 0;
    for (int endpoint = 0; r == 0 && endpoint < 2; endpoint++) {
        char *file = NULL, *key = NULL;
        r = up_agent_make_certificate(u, endpoint, &file, &key, err);
        free(file);
        free(key);
    }
    return r;
}

static int up_agent_open_tls(struct up_agent *u, struct err *err)
{
    const struct pki *pki = u->options.host->pki;
    char *file = NULL, *key = NULL;
    if (!pki)
        return 0; // a server without TLS has no way to nodes either
    int r = up_agent_make_certificate(u, true, &file, &key, err);
    if (r == 0) {
        const struct tls_server_options o = {
            .certificate_file = file, .key_file = key, .client_ca_file = pki->ca_file};
        r = tls_server_new(&o, &u->tls, err);
    }
    free(file);
    free(key);
    return r;
}

// A server without TLS knows no one by a certificate: there the agent is a part of it, without
// tokens for pods.
static void open_local_client(struct up_agent *u)
{
    static const struct str groups[] = {STR_INIT("system:nodes"), STR_INIT("system:authenticated")};
    const struct registry_user user = {.name =
                                           arena_strf(&u->arena, "system:node:%s", u->options.node),
                                       .groups = groups,
                                       .groups_len = array_len(groups)};
    const struct server_host *host = u->options.host;
    u->client = local_client_new(host->registry, loop_exec(u->options.loop), &user);
}

static int up_agent_read_pem(struct up_agent *u, const char *path, struct str *ret, struct err *err)
{
    char *text = NULL;
    int r = pki_read_file(path, &text, err);
    if (r == 0)
        *ret = arena_str(&u->arena, str_z(text));
    free(text);
    return r;
}

// The agent is a client as any other node's: admission, authorization and tokens are the server's.
static int open_client(struct up_agent *u, struct err *err)
{
    const struct server_host *host = u->options.host;
    char *file = NULL, *key = NULL;
    if (!host->pki) {
        open_local_client(u);
        return 0;
    }
    struct kubeconfig_target target = {.server = str_z(host->url), .namespace = STR("default")};
    int r = up_agent_make_certificate(u, false, &file, &key, err);
    if (r == 0)
        r = up_agent_read_pem(u, host->pki->ca_file, &target.ca_pem, err);
    if (r == 0)
        r = up_agent_read_pem(u, file, &target.certificate_pem, err);
    if (r == 0)
        r = up_agent_read_pem(u, key, &target.key_pem, err);
    if (r == 0) { // read again when the CA was replaced
        target.ca_file = str_z(host->pki->ca_file);
        target.certificate_file = str_z(file);
        target.key_file = str_z(key);
    }
    const struct client_remote_options o = {.target = &target, .user_agent = STR("dray-agent")};
    if (r == 0)
        r = client_remote_new(u->options.loop, &o, &u->client, err);
    free(file);
    free(key);
    return r;
}

static int open_agent(struct up_agent *u, struct err *err)
{
    const struct up_agent_options *o = &u->options;
    const char *cdi[] = {"/etc/cdi", "/var/run/cdi", up_agent_path_below(u, "cdi")};
    struct agent_options a = {.loop = o->loop,
                              .client = u->client,
                              .features = o->host->features,
                              .node = str_z(o->node),
                              .data_dir = up_agent_path_below(u, ""),
                              .image_dir = o->image_dir,
                              .cdi_dirs = cdi,
                              .cdi_dirs_len = array_len(cdi),
                              .node_ip = STR("127.0.0.1"),
                              .api_url = str_z(o->host->url),
                              .tls = u->tls,
                              .listen = "127.0.0.1:0",
                              .say = up_agent_print_line,
                              .registered = up_agent_on_registered,
                              .arg = u};
    agent_apply_args(&agent_args, &a);
    return agent_new(&a, &u->agent, err);
}

int up_agent_new(const struct up_agent_options *options, struct up_agent **ret, struct err *err)
{
    struct up_agent *u = xcalloc(1, sizeof(*u));
    char host[256] = "this-machine";
    (void)gethostname(host, sizeof(host) - 1);
    u->options = *options;
    u->options.node =
        arena_str(&u->arena, str_z(options->node && options->node[0] ? options->node : host)).p;
    int r = open_client(u, err);
    if (r == 0)
        r = up_agent_open_tls(u, err);
    if (r == 0)
        r = open_agent(u, err);
    if (r < 0) {
        up_agent_free(u);
        return r;
    }
    tls_follow_start(&u->follow, loop_exec(options->loop), u->tls);
    agent_start(u->agent);
    *ret = u;
    return 0;
}

void up_agent_stop(struct up_agent *u)
{
    if (!u)
        return;
    sim_driver_drop(take_ptr(u->driver));
    tls_follow_stop(&u->follow);
    agent_free(take_ptr(u->agent));
}

void up_agent_free(struct up_agent *u)
{
    if (!u)
        return;
    up_agent_stop(u);
    client_free(u->client);
    tls_server_free(u->tls);
    arena_done(&u->arena);
    free(u);
}

const char *up_agent_node(const struct up_agent *u)
{
    return u->options.node;
}

void up_agent_about(const struct up_agent *u, struct sbuf *out)
{
    agent_about(u->agent, out);
}
