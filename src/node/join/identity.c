// SPDX-License-Identifier: Apache-2.0
//
// Keeps the two certificates of a node in files and renews them in time, and follows a CA that is
// replaced: the cluster's ConfigMap cluster-info names those to trust, that which signs first.
#include "node/identity.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/rand.h"
#include "client/cluster_info.h"
#include "client/kubeconfig.h"
#include "net/tls.h"
#include "os/file.h"
#include "pki/csr.h"

#include "base/banned.h"

static const struct backoff_policy retry_policy = {.first_ns = 60 * CLOCK_NS_PER_SEC,
                                                   .max_ns = 600 * CLOCK_NS_PER_SEC};

#define WAIT_NS       (120 * CLOCK_NS_PER_SEC)
#define LOOK_NS       (20 * CLOCK_NS_PER_SEC) // at the CA
#define PLACEHOLDER_S INT64_C(86400)

struct kept {
    struct identity *owner;
    bool serving;
    struct sbuf file;
    struct exec_timer timer;
    struct identity_request *ask; // under way
    int64_t retry_ns;
    bool failing; // reported already
};

struct identity {
    struct identity_options options;
    struct sbuf ca_pem, ca_file, node;
    struct kept kept[2]; // as a client, of the endpoint
    struct exec_timer look;
    struct identity_look *looking; // under way
};

// A question for the CA; its answer may come when the owner is gone.
struct identity_look {
    struct identity *owner; // NULL: gone
};

static const char *identity_certificate_name(const struct kept *k)
{
    return k->serving ? "the endpoint's certificate" : "the node's certificate";
}

static void identity_report(const struct identity *i, const char *fmt, const char *what,
                            const char *more)
{
    cleanup_sbuf struct sbuf line = {0};
    sbuf_addf(&line, "%s %s%s%s", what, fmt, more ? ": " : "", more ? more : "");
    if (i->options.say)
        i->options.say(i->options.arg, line.p);
}

// --- Time of renewal -----------------------------------------------------------------------------

static int64_t identity_wall_s(const struct identity *i)
{
    return exec_wall_ns(i->options.client->exec) / CLOCK_NS_PER_SEC;
}

// good_names: an endpoint's certificate must be signed by the CA and for all of its names.
static bool identity_certificate_fits(const struct identity *i, const struct kept *k,
                                      struct str pem)
{
    bool right = csr_signed_by(pem, sbuf_str(&i->ca_pem));
    for (const char *const *n = i->options.names; right && k->serving && n && *n; n++)
        right = csr_certificate_is_for(pem, str_z(*n));
    return right;
}

// identity_renewal_wait_s is how many seconds from now a certificate is to be renewed: 0 at once.
static int64_t identity_renewal_wait_s(const struct identity *i, const struct kept *k)
{
    cleanup_sbuf struct sbuf pem = {0};
    int64_t from = 0, until = 0, now = identity_wall_s(i);
    if (kubeconfig_read_file(k->file.p, &pem, NULL) < 0 ||
        csr_certificate_times(sbuf_str(&pem), &from, &until, NULL) < 0 ||
        !identity_certificate_fits(i, k, sbuf_str(&pem)))
        return 0;
    int64_t percent = 70 + (int64_t)rng_below(rng_system(), 21);
    int64_t at = from + (until - from) / 100 * percent;
    if (i->options.renew_after_s && now + i->options.renew_after_s < at)
        at = now + i->options.renew_after_s;
    return at > now ? at - now : 0;
}

static void identity_schedule_renewal(struct kept *k)
{
    const struct identity *i = k->owner;
    // Timers of many years would be no timers.
    int64_t seconds = identity_renewal_wait_s(i, k), most = INT64_C(30) * 86400;
    exec_timer_start(i->options.client->exec, &k->timer,
                     (seconds < most ? seconds : most) * CLOCK_NS_PER_SEC);
}

// --- Renewal -------------------------------------------------------------------------------------

static void identity_retry_later(struct kept *k, const struct err *err)
{
    struct identity *i = k->owner;
    if (!k->failing)
        identity_report(i, "could not be renewed, trying again", identity_certificate_name(k),
                        err->msg);
    k->failing = true;
    exec_timer_start(i->options.client->exec, &k->timer, k->retry_ns);
    k->retry_ns = backoff_grow_ns(&retry_policy, k->retry_ns);
}

static void identity_on_certificate(void *arg, int code, const struct err *err, struct str pem)
{
    struct kept *k = arg;
    struct identity *i = k->owner;
    struct err why = {0};
    k->ask = NULL;
    if (code == 0 && file_replace_durable(AT_FDCWD, k->file.p, pem, 0600, &why) < 0) {
        err = &why;
        code = -why.code;
    }
    if (code < 0) {
        identity_retry_later(k, err);
        return;
    }
    identity_report(i, "is new", identity_certificate_name(k), NULL);
    k->failing = false;
    k->retry_ns = retry_policy.first_ns;
    if (i->options.renewed)
        i->options.renewed(i->options.arg, k->serving);
    identity_schedule_renewal(k);
}

static void identity_renew(void *arg)
{
    struct kept *k = arg;
    const struct identity_options *o = &k->owner->options;
    if (!o->renew_after_s && identity_renewal_wait_s(k->owner, k) > 0) {
        identity_schedule_renewal(k); // the end of a pause, not of the certificate
        return;
    }
    const struct identity_request_options wish = {.client = o->client,
                                                  .node = k->owner->node.p,
                                                  .names = k->serving ? o->names : NULL,
                                                  .lifetime_s = o->lifetime_s,
                                                  .timeout_ns = WAIT_NS,
                                                  .done = identity_on_certificate,
                                                  .arg = k};
    k->ask = identity_request_new(&wish);
}

// --- The CA --------------------------------------------------------------------------------------

// identity_take_ca trusts other CAs from now on. A certificate that the first of them has not
// signed is renewed at once. The client and the endpoint read the file themselves.
static void identity_take_ca(struct identity *i, struct str pem)
{
    struct err err = {0};
    if (str_eq(pem, sbuf_str(&i->ca_pem)) || csr_check_chain(pem, NULL) < 0)
        return;
    if (file_replace_durable(AT_FDCWD, i->ca_file.p, pem, 0600, &err) < 0) {
        identity_report(i, "could not be replaced, trying again", "the cluster's CA", err.msg);
        return;
    }
    sbuf_clear(&i->ca_pem);
    sbuf_add(&i->ca_pem, pem);
    identity_report(i, "is new", "the cluster's CA", NULL);
    for (size_t n = 0; n < array_len(i->kept); n++)
        if (!i->kept[n].ask)
            identity_schedule_renewal(&i->kept[n]);
}

static void identity_on_info(void *arg, const struct client_answer *a)
{
    struct identity_look *look = arg;
    struct identity *i = look->owner;
    free(look);
    if (!i)
        return;
    i->looking = NULL;
    exec_timer_start(i->options.client->exec, &i->look, LOOK_NS);
    if (a->code < 0) // a cluster that is not dray's need not have it
        return;
    cleanup_arena struct arena arena = {0};
    struct cluster_info info = {0};
    const struct api_config_map *map = a->object->object.value;
    const struct str *text = api_map_find(&map->data, STR(CLUSTER_INFO_TEXT));
    if (text && cluster_info_parse(*text, &arena, &info, NULL) == 0)
        identity_take_ca(i, info.ca_pem);
}

static void identity_look_at_ca(void *arg)
{
    struct identity *i = arg;
    const struct client_key key = {.kind = api_kind_find(STR("v1"), STR("ConfigMap")),
                                   .namespace = STR(CLUSTER_INFO_NAMESPACE),
                                   .name = STR(CLUSTER_INFO_NAME)};
    i->looking = xcalloc(1, sizeof(*i->looking));
    i->looking->owner = i;
    client_get(i->options.client, &key, identity_on_info, i->looking);
}

struct identity *identity_new(const struct identity_options *options)
{
    struct identity *i = xcalloc(1, sizeof(*i));
    i->options = *options;
    sbuf_addz(&i->node, options->node);
    sbuf_addf(&i->ca_file, "%s/" IDENTITY_CA, options->folder);
    (void)!kubeconfig_read_file(i->ca_file.p, &i->ca_pem, NULL);
    i->look = (struct exec_timer){.fn = identity_look_at_ca, .arg = i};
    exec_timer_start(options->client->exec, &i->look, LOOK_NS);
    for (size_t n = 0; n < array_len(i->kept); n++) {
        struct kept *k = &i->kept[n];
        *k = (struct kept){.owner = i,
                           .serving = n == 1,
                           .timer = {.fn = identity_renew, .arg = k},
                           .retry_ns = retry_policy.first_ns};
        sbuf_addf(&k->file, "%s/%s", options->folder, n ? IDENTITY_SERVING : IDENTITY_CLIENT);
        identity_schedule_renewal(k);
    }
    return i;
}

void identity_free(struct identity *i)
{
    if (!i)
        return;
    for (size_t n = 0; n < array_len(i->kept); n++) {
        exec_timer_stop(i->options.client->exec, &i->kept[n].timer);
        identity_request_cancel(i->kept[n].ask);
        sbuf_done(&i->kept[n].file);
    }
    exec_timer_stop(i->options.client->exec, &i->look);
    if (i->looking)
        i->looking->owner = NULL;
    sbuf_done(&i->ca_pem);
    sbuf_done(&i->ca_file);
    sbuf_done(&i->node);
    free(i);
}

int identity_placeholder(const char *folder, const char *node, int64_t now_s, struct err *err)
{
    cleanup_sbuf struct sbuf file = {0}, pem = {0};
    struct pki_key_pair pair = {0};
    int64_t from = 0, until = 0;
    sbuf_addf(&file, "%s/" IDENTITY_SERVING, folder);
    if (kubeconfig_read_file(file.p, &pem, NULL) == 0 &&
        csr_certificate_times(sbuf_str(&pem), &from, &until, NULL) == 0 && until > now_s)
        return 0;
    sbuf_clear(&pem);
    const struct pki_subject subject = {
        .common_name = node, .not_before = now_s - 300, .not_after = now_s + PLACEHOLDER_S};
    int r = pki_make_ca(&subject, &pair, err);
    if (r == 0) {
        sbuf_addf(&pem, "%s%s", pair.certificate_pem, pair.key_pem);
        r = file_replace_durable(AT_FDCWD, file.p, sbuf_str(&pem), 0600, err);
    }
    pki_key_pair_done(&pair);
    return r;
}
