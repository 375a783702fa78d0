// SPDX-License-Identifier: Apache-2.0
//
// dray doctor: what is wrong with a cluster's devices, and what to do.
#include "cmd/devices/device_verb.h"
#include "pki/certificate.h"
#include "view/human.h"

#include "base/banned.h"

#define DAY_S       (24 * 60 * 60)
#define EXPIRY_DAYS 30
#define SKEW_S      5

static int verb_doctor(void);

static const struct cli_option doctor_options[] = {DEVICE_SNAPSHOT_OPTION};
static const struct cli_group doctor_group = CLI_GROUP("Options", doctor_options);

const struct cli_verb doctor_verb = {
    .name = "doctor",
    .summary = "find problems with devices and suggest remedies",
    .chapter = CLI_DEVICES,
    .everyday = true,
    .synopsis = "doctor [OPTIONS]",
    .text =
        "Checks for incomplete pools, stale or duplicate slices, nodes that are not ready or "
        "cannot release devices, dead drivers, devices that are broken while in use, classes "
        "and rules that match nothing, claims on devices that are gone or allocated twice, pods "
        "that wait or fail; and checks the server, its disk, writes it refused, clocks, "
        "certificates and your permissions. Exit status 1 if there is a problem.",
    .examples = "dray doctor\ndray doctor --snapshot bug.json\ndray doctor -o json",
    .groups = {&doctor_group, &common_output, &common_cluster},
    .run = verb_doctor,
};

// --- The server ----------------------------------------------------------------------------------

static void doctor_verb_check_clock(struct doctor *d, struct cluster *c)
{
    int64_t there = client_remote_date(c->client);
    int64_t skew = there ? view_now().sec - there : 0;
    if (!there)
        doctor_add_finding(d, DOCTOR_WARN, "clock", NULL,
                           "the server does not say what time it has");
    else if (skew > SKEW_S || skew < -SKEW_S)
        doctor_add_finding(
            d, DOCTOR_BAD, "clock",
            "set the clocks by NTP: certificates, leases and tolerations for a time depend on "
            "them",
            "this machine's clock is %lld s %s the server's", (long long)(skew > 0 ? skew : -skew),
            skew > 0 ? "before" : "behind");
    else
        doctor_add_finding(d, DOCTOR_GOOD, "clock", NULL,
                           "this machine and the server agree on the time");
}

static void check_certificate(struct doctor *d, const char *what, struct str pem,
                              const char *remedy)
{
    char *text = xstrndup(pem.p, pem.n);
    int64_t end = 0;
    struct err err = {0};
    int64_t now = view_now().sec;
    if (pki_certificate_expiry(text, &end, &err) < 0)
        doctor_add_finding(d, DOCTOR_WARN, "certificates", NULL, "%s: %s", what, err.msg);
    else if (end < now)
        doctor_add_finding(d, DOCTOR_BAD, "certificates", remedy, "%s is over since %lld days",
                           what, (long long)((now - end) / DAY_S));
    else if (end - now < (int64_t)EXPIRY_DAYS * DAY_S)
        doctor_add_finding(d, DOCTOR_WARN, "certificates", remedy, "%s ends in %lld days", what,
                           (long long)((end - now) / DAY_S));
    else
        doctor_add_finding(d, DOCTOR_GOOD, "certificates", NULL, "%s is good for %lld days", what,
                           (long long)((end - now) / DAY_S));
    free(text);
}

static void check_certificates(struct doctor *d, const struct cluster *c)
{
    if (c->target.certificate_pem.n)
        check_certificate(d, "your client certificate", c->target.certificate_pem,
                          "get a new kubeconfig: 'dray up' writes one when it starts");
    if (c->target.ca_pem.n)
        check_certificate(d, "the cluster's CA certificate", c->target.ca_pem,
                          "the cluster needs a new CA; restart 'dray up' or see its operator");
    if (c->target.insecure)
        doctor_add_finding(
            d, DOCTOR_WARN, "certificates",
            "give the kubeconfig the cluster's certificate-authority-data",
            "the kubeconfig sets insecure-skip-tls-verify: the server is not authenticated");
}

// --- Permissions ---------------------------------------------------------------------------------

static const struct {
    const char *verb, *group, *resource;
    const char *loss; // what does not work without
} needs[] = {
    {"list", "resource.k8s.io", "resourceslices", "free, who, topo and top"},
    {"list", "resource.k8s.io", "deviceclasses", "free and request"},
    {"list", "resource.k8s.io", "resourceclaims", "who, free and top"},
    {"create", "resource.k8s.io", "resourceclaims", "request --apply"},
    {"create", "resource.k8s.io", "devicetaintrules", "taint"},
    {"list", "", "nodes", "nodes' states in top and free"},
    {"list", "", "pods", "the pods of claims"},
    {"list", "", "events", "a part of history"},
};

// 1 yes, 0 no, or a negative code.
static int doctor_verb_check_access(struct cluster *c, size_t i, struct err *err)
{
    cleanup_sbuf struct sbuf body = {0}, answer = {0};
    cleanup_json_doc struct json_doc doc = {0};
    bool yes = false;
    sbuf_addf(
        &body,
        "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
        "\"spec\":{\"resourceAttributes\":{\"verb\":\"%s\",\"group\":\"%s\",\"resource\":\"%s\"}"
        "}}",
        needs[i].verb, needs[i].group, needs[i].resource);
    int r = device_verb_send(c, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                             sbuf_str(&body), &answer, err);
    if (r == 0)
        r = json_parse(sbuf_str(&answer), NULL, &doc, err);
    if (r < 0)
        return r;
    const yyjson_val *allowed = json_get(json_get(doc.root, STR("status")), STR("allowed"));
    if (allowed)
        (void)!json_to_bool(allowed, &yes, NULL);
    return yes;
}

static void check_permissions(struct doctor *d, struct cluster *c)
{
    size_t good = 0;
    for (size_t i = 0; i < array_len(needs); i++) {
        struct err err = {0};
        int r = doctor_verb_check_access(c, i, &err);
        if (r < 0) {
            doctor_add_finding(d, DOCTOR_WARN, "permissions", NULL, "the server does not say: %s",
                               err.msg);
            return;
        }
        good += r > 0;
        if (r == 0)
            doctor_add_finding(d, DOCTOR_WARN, "permissions",
                               "an administrator can bind a ClusterRole with that verb",
                               "you may not %s %s in all namespaces: %s will not work or tell less",
                               needs[i].verb, needs[i].resource, needs[i].loss);
    }
    if (good == array_len(needs))
        doctor_add_finding(d, DOCTOR_GOOD, "permissions", NULL,
                           "you may do all that dray's verbs do");
}

// doctor_verb_check_storage reads dray's own metrics; another server has none of them.
static void doctor_verb_check_storage(struct doctor *d, struct cluster *c)
{
    cleanup_sbuf struct sbuf body = {0};
    struct err err = {0};
    if (cluster_get(c, "/metrics", &body, &err) < 0)
        return;
    if (str_find(sbuf_str(&body), STR("\ndray_store_salvaged 1\n")) >= 0)
        doctor_add_finding(
            d, DOCTOR_WARN, "storage",
            "read salvage.log in the data directory, and create lost objects again",
            "the server's database was damaged, and what could be read was salvaged");
    if (str_find(sbuf_str(&body), STR("\ndray_store_low_space 1\n")) >= 0)
        doctor_add_finding(d, DOCTOR_BAD, "storage", "free some space, or delete objects",
                           "the disk of the server's database is full; objects must not grow");
    if (str_find(sbuf_str(&body), STR("\ndray_store_failing 1\n")) >= 0)
        doctor_add_finding(d, DOCTOR_BAD, "storage", "check the disk and the server's log",
                           "the server's last write to its database failed");
}

// doctor_verb_label finds a label's value in a line of metrics; empty: it has none.
static struct str doctor_verb_label(struct str line, const char *name)
{
    cleanup_sbuf struct sbuf mark = {0};
    sbuf_addf(&mark, "%s=\"", name);
    ptrdiff_t at = str_find(line, sbuf_str(&mark));
    if (at < 0)
        return (struct str){0};
    struct str rest = str_from(line, (size_t)at + mark.n);
    ptrdiff_t end = str_find_char(rest, '"');
    return str_upto(rest, end < 0 ? 0 : (size_t)end);
}

// Writes of ResourceSlices that the server has refused, by its metrics, which kube-apiserver has,
// too.
struct refused_writes {
    size_t invalid, forbidden, full;
};

static void doctor_verb_count_refused(struct str metrics, struct refused_writes *ret)
{
    struct str line;
    while (str_cut(metrics, '\n', &line, &metrics)) {
        int64_t n = 0;
        ptrdiff_t space = str_rfind_char(line, ' ');
        if (!str_starts(line, STR("apiserver_request_total{")) || space < 0 ||
            str_to_i64(str_from(line, (size_t)space + 1), &n) < 0 || n < 0)
            continue;
        struct str code = doctor_verb_label(line, "code");
        bool slices = str_eqz(doctor_verb_label(line, "resource"), "resourceslices");
        struct str verb = doctor_verb_label(line, "verb");
        bool reads = str_eqz(verb, "GET") || str_eqz(verb, "LIST") || str_eqz(verb, "WATCH");
        ret->invalid += slices && (str_eqz(code, "422") || str_eqz(code, "400")) ? (size_t)n : 0;
        ret->forbidden += slices && !reads && str_eqz(code, "403") ? (size_t)n : 0;
        ret->full += str_eqz(code, "507") ? (size_t)n : 0;
    }
}

// doctor_verb_gates_off lists the gates of devices that are off.
static void doctor_verb_gates_off(const struct features *gates, struct sbuf *out)
{
    for (int i = 0; i < FEATURES; i++)
        if (!gates->on[i] && str_starts(feature_name((enum feature)i), STR("DRA")))
            sbuf_addf(out, "%s%.*s", out->n ? ", " : "", STR_ARG(feature_name((enum feature)i)));
}

static void doctor_verb_check_writes(struct doctor *d, struct device_source *s)
{
    cleanup_sbuf struct sbuf body = {0}, off = {0}, remedy = {0};
    struct refused_writes n = {0};
    struct err err = {0};
    if (cluster_get(&s->cluster, "/metrics", &body, &err) < 0)
        return;
    doctor_verb_count_refused(sbuf_str(&body), &n);
    doctor_verb_gates_off(&s->gates, &off);
    sbuf_addf(
        &remedy,
        "the driver retries without end: its log names the field; a feature gate of the server "
        "may be missing (off: %s)",
        off.n ? off.p : "none");
    if (n.invalid)
        doctor_add_finding(d, DOCTOR_BAD, "writes", remedy.p,
                           "the server has refused %zu ResourceSlices of drivers as invalid",
                           n.invalid);
    if (n.forbidden)
        doctor_add_finding(
            d, DOCTOR_BAD, "writes",
            "bind a ClusterRole that may write resourceslices to the driver's account",
            "the server has refused %zu writes of ResourceSlices as forbidden", n.forbidden);
    if (n.full)
        doctor_add_finding(d, DOCTOR_WARN, "writes", "free some space where the server's data is",
                           "the server has refused %zu writes because its disk was full", n.full);
    if (!n.invalid && !n.forbidden && !n.full)
        doctor_add_finding(d, DOCTOR_GOOD, "writes", NULL,
                           "the server has refused no write of a driver");
}

// doctor_verb_check_requests looks for nodes that wait for a certificate.
static void doctor_verb_check_requests(struct doctor *d, struct cluster *c)
{
    cleanup_sbuf struct sbuf body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    size_t waiting = 0;
    if (cluster_get(c, "/apis/certificates.k8s.io/v1/certificatesigningrequests", &body, &err) <
            0 ||
        json_parse(sbuf_str(&body), NULL, &doc, &err) < 0)
        return;
    const yyjson_val *items = json_get(doc.root, STR("items"));
    if (!items || !json_is_array(items))
        return;
    json_arr_foreach(items, item) {
        const yyjson_val *status = json_get(item, STR("status"));
        const yyjson_val *conditions = status ? json_get(status, STR("conditions")) : NULL;
        waiting += !conditions || json_len(conditions) == 0;
    }
    if (waiting)
        doctor_add_finding(d, DOCTOR_WARN, "certificates",
                           "dray get csr lists them; kubectl certificate approve NAME approves one",
                           "%zu certificate requests wait for approval", waiting);
}

static void check_server(struct doctor *d, struct device_source *s)
{
    struct cluster *c = &s->cluster;
    cleanup_sbuf struct sbuf body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    const yyjson_val *version = NULL;
    int r = cluster_get(c, "/version", &body, &err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, &err);
    if (r == 0)
        version = json_get(doc.root, STR("gitVersion"));
    if (r < 0)
        doctor_add_finding(d, DOCTOR_BAD, "server",
                           "is it running? is the address in the kubeconfig right?", "%s", err.msg);
    else
        doctor_add_finding(
            d, DOCTOR_GOOD, "server", NULL, "%.*s answers, version %.*s", STR_ARG(c->target.server),
            STR_ARG(version && json_is_string(version) ? json_str(version) : STR("unknown")));
    doctor_verb_check_clock(d, c);
    check_certificates(d, c);
    check_permissions(d, c);
    doctor_verb_check_requests(d, c);
    doctor_verb_check_storage(d, c);
    doctor_verb_check_writes(d, s);
}

// --- The verb ------------------------------------------------------------------------------------

static int doctor_verb_print(struct device_source *s, const struct doctor *d, struct err *err)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    if (!view_is_table(&s->format)) {
        view_doctor_json(&w, d);
        return device_verb_show_json(s, &out, err);
    }
    view_doctor(&out, d, &s->layout);
    return common_print(sbuf_str(&out), err);
}

static int verb_doctor(void)
{
    struct device_source s = {0};
    struct inventory *inv = NULL;
    struct doctor d = {0};
    struct err err = {0};
    int r = device_verb_open(&s, DEVICE_WORLD_DEVICES, &err);
    if (s.connected)
        check_server(&d, &s);
    if (r == 0)
        r = device_verb_inventory(&s, &inv, &err);
    if (r == 0)
        doctor_inspect(&d, inv, view_now());
    else
        doctor_add_finding(&d, DOCTOR_BAD, "objects", "see 'permissions' and 'server'", "%s",
                           err.msg);
    r = doctor_verb_print(&s, &d, &err);
    bool bad = doctor_worst(&d) == DOCTOR_BAD;
    doctor_done(&d);
    inventory_free(inv);
    device_verb_close(&s);
    return r < 0 ? common_fail("doctor", &err) : bad ? VERB_NO : VERB_OK;
}
