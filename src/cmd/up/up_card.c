// SPDX-License-Identifier: Apache-2.0
//
// The words of `dray up`: a card with commands that work as printed, and a last line.
#include "cmd/up/up_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/match/node.h"
#include "cmd/common.h"
#include "net/address.h"

#include "base/banned.h"

// --- Ready ---------------------------------------------------------------------------------------

// up_card_is_reachable: from other machines, as far as a URL can tell.
static bool up_card_is_reachable(const char *url)
{
    struct str host, port;
    return address_split(str_z(strstr(url, "://") + 3), &host, &port) && !address_is_loopback(host);
}

// up_card_class is a class to try: the first of the first profile. Empty: there is none.
static struct str up_card_class(const struct up *u, struct arena *arena)
{
    struct profile_objects o;
    if (u->profiles_len == 0 || profile_shared(u->profiles[0], arena, &o, NULL) < 0)
        return STR("");
    return o.classes_len ? o.classes[0]->metadata.name : STR("");
}

static void up_card_show_hints(const struct up *u, bool has_devices)
{
    cleanup_arena struct arena arena = {0};
    const char *dray = common_program();
    struct str class_name = up_card_class(u, &arena);
    printf("Try:\n  %s get nodes%s\n", dray, has_devices ? ",resourceslices" : "");
    if (has_devices && class_name.n && !u->asked.agent)
        printf("  %s request %.*s --pod --apply   # a pod with a device\n", dray,
               STR_ARG(class_name));
    if (has_devices)
        printf("  %s free\n", dray);
    printf("  %s top\n\n", dray);
}

void up_card_show(const struct up *u)
{
    struct sim_stats s;
    const struct server_host *host = &u->host;
    sim_nodes_stats(u->sim_nodes, &s);
    printf("dray is up at %s\n\n  export KUBECONFIG=%s\n\n", host->url, host->kubeconfig);
    if (s.nodes > 0)
        printf("  %zu simulated node%s (%s) with %zu devices in %zu slice%s, %zu device class%s\n"
               "  Nothing runs on simulated nodes: their pods only seem to.\n\n",
               s.nodes, s.nodes == 1 ? "" : "s", u->asked.sim, s.devices, s.slices,
               s.slices == 1 ? "" : "s", s.classes, s.classes == 1 ? "" : "es");
    up_card_show_hints(u, s.devices > 0);
    if (host->pki && up_card_is_reachable(host->public_url))
        printf("Other machines join at %s; the command for them:\n"
               "  %s token create --print-join-command\n\n",
               host->public_url, common_program());
    printf("Ctrl-C stops it; the same command continues later.\n");
    (void)fflush(stdout);
}

// --- Stopped -------------------------------------------------------------------------------------

void up_card_show_end(const struct up *u)
{
    const char *dir = server_flags.data_dir;
    printf(
        "\nStopped: API server, scheduler, controllers%s%s. %s keeps the data; 'dray up' with it "
        "continues.\n",
        u->profiles_len && u->asked.nodes ? ", simulated nodes" : "",
        u->asked.agent ? ", the agent of this machine" : "", dir);
    if (u->asked.agent)
        printf("Containers of pods on this machine keep running; '%s down --data-dir %s' stops "
               "them.\n",
               common_program(), dir);
    (void)fflush(stdout);
}

// --- Other profiles ------------------------------------------------------------------------------

static bool up_card_is_asked(const struct up *u, struct str profile)
{
    for (size_t i = 0; i < u->profiles_len; i++)
        if (str_eq(profile_name(u->profiles[i]), profile))
            return true;
    return false;
}

static void up_card_report_others(struct up *u)
{
    cleanup_sbuf struct sbuf names = {0};
    vec_foreach(&u->others.profiles, name)
        sbuf_addf(&names, "%s%.*s", names.n ? "," : "", STR_ARG(*name));
    if (u->others.nodes)
        (void)fprintf(stderr,
                      "dray up: %s has %zu simulated node%s of %s from an earlier start, whose "
                      "pods do not run now; start with --sim %s, remove them with '%s delete "
                      "nodes -l \"dray.dev/profile in (%s)\"', or use another --data-dir\n",
                      server_flags.data_dir, u->others.nodes, u->others.nodes == 1 ? "" : "s",
                      names.p, names.p, common_program(), names.p);
}

static void up_card_on_node(void *arg, const struct client_event *e)
{
    struct up *u = arg;
    const struct str *profile = NULL;
    if (e->type == CLIENT_ADDED && e->object)
        profile = api_map_find(&e->object->meta->labels, STR(NODE_PROFILE));
    if (profile && !up_card_is_asked(u, *profile)) {
        u->others.nodes++;
        if (!str_listed(u->others.profiles.p, u->others.profiles.n, *profile) &&
            u->others.profiles.n < 16)
            vec_push_arena(&u->arena, &u->others.profiles, arena_str(&u->arena, *profile));
    }
    if (e->type != CLIENT_SYNCED && e->type != CLIENT_ENDED)
        return;
    up_card_stop(u);
    if (e->type == CLIENT_SYNCED)
        up_card_report_others(u);
}

void up_card_check_profiles(struct up *u)
{
    const struct client_list_options simulated = {.label_selector = STR(NODE_SIMULATED)};
    u->others.watch = client_watch(u->client, api_kind_find(STR("v1"), STR("Node")), &simulated, 0,
                                   up_card_on_node, u);
}

void up_card_stop(struct up *u)
{
    if (u->others.watch)
        client_watch_stop(u->client, u->others.watch);
    u->others.watch = NULL;
}
