// SPDX-License-Identifier: Apache-2.0
//
// The files of a control plane in one directory: CAs, certificates, keys, kubeconfig. Missing ones
// are made, those about to expire are renewed at a start.
#include "pki/pki.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "codec/base64.h"
#include "net/address.h"
#include "os/file.h"
#include "pki/csr.h"
#include "pki/pki_int.h"
#include "pki/sign.h"

#include "base/banned.h"

#define CLUSTER_CA      "dray-ca"
#define DAY_S           INT64_C(86400)
#define CA_DAYS         3650
#define LEAF_DAYS       365
#define CA_RENEW_DAYS   400 // a leaf made now must not outlive its CA
#define LEAF_RENEW_DAYS 30
#define NAMES_MAX       40
#define ADDRESSES_MAX   16
#define FILE_BYTES_MAX  ((size_t)1024 * 1024)

static char *pki_join_path(const char *folder, const char *name)
{
    struct sbuf b = {0};
    sbuf_addf(&b, "%s/%s", folder, name);
    return sbuf_take(&b);
}

int pki_read_file(const char *path, char **ret, struct err *err)
{
    struct sbuf b = {0};
    struct err why = {0};
    int r = file_read(path, FILE_BYTES_MAX, &b, &why);
    if (r < 0) {
        sbuf_done(&b);
        return r == -ENOENT ? r : err_set(err, -r, "%s", why.msg);
    }
    *ret = sbuf_take(&b);
    return 0;
}

static int pki_make_directory(const char *path, struct err *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make the folder %s: %m", path);
    file_remove_temporaries(path, STR(""));
    return 0;
}

// pki_load_pair reads a pair whose certificate is good for another while. Returns 0, -ENOENT when
// it must be made again, or another error.
static int pki_load_pair(const char *certificate_file, const char *key_file, int64_t until,
                         struct pki_key_pair *ret, struct err *err)
{
    struct pki_key_pair pair = {0};
    int64_t expiry = 0;
    int r = pki_read_file(certificate_file, &pair.certificate_pem, err);
    if (r == 0)
        r = pki_read_file(key_file, &pair.key_pem, err);
    if (r == 0 && pki_certificate_expiry(pair.certificate_pem, &expiry, err) < 0)
        r = err_set(err, ERR_INVALID,
                    "%s does not hold a certificate: remove it and its key to have new ones made",
                    certificate_file);
    if (r == 0 && expiry < until)
        r = -ENOENT;
    if (r < 0) {
        pki_key_pair_done(&pair);
        return r;
    }
    *ret = pair;
    return 0;
}

// pki_save_pair writes the key first: a certificate without its key would be believed at the next
// start.
static int pki_save_pair(const struct pki_key_pair *pair, const char *certificate_file,
                         const char *key_file, struct err *err)
{
    int r = file_replace_durable(AT_FDCWD, key_file, str_z(pair->key_pem), 0600, err);
    if (r == 0)
        r = file_replace_durable(AT_FDCWD, certificate_file, str_z(pair->certificate_pem), 0600,
                                 err);
    return r;
}

// pki_load_ca refuses a key of another CA: what it signs would be valid nowhere. While a CA is
// rotated both files hold two (ca_rotation.h): the key is that of the first certificate.
static int pki_load_ca(const char *file, const char *key_file, int64_t until,
                       struct pki_key_pair *ret, struct err *err)
{
    int r = pki_load_pair(file, key_file, until, ret, err);
    if (r < 0 || ca_rotation_pick_key(ret))
        return r;
    pki_key_pair_done(ret);
    return err_set(err, ERR_INVALID,
                   "%s does not hold the key of %s: restore it from a backup ('dray restore')",
                   key_file, file);
}

static int pki_make_any_ca(const char *name, int64_t now, struct pki_key_pair *ret, struct err *err)
{
    const struct pki_subject subject = {
        .common_name = name, .not_before = now - 3600, .not_after = now + CA_DAYS * DAY_S};
    return pki_make_ca(&subject, ret, err);
}

int pki_make_cluster_ca(int64_t now, struct pki_key_pair *ret, struct err *err)
{
    return pki_make_any_ca(CLUSTER_CA, now, ret, err);
}

static int prepare_any_ca(const char *name, const char *file, const char *key_file, int64_t now,
                          struct pki_key_pair *ret, struct err *err)
{
    int r = pki_load_ca(file, key_file, now + CA_RENEW_DAYS * DAY_S, ret, err);
    if (r != -ENOENT)
        return r;
    r = pki_make_any_ca(name, now, ret, err);
    if (r == 0)
        r = pki_save_pair(ret, file, key_file, err);
    return r < 0 ? r : 1;
}

static int prepare_ca(struct pki *p, int64_t now, struct pki_key_pair *ret, bool *ret_new,
                      struct err *err)
{
    char *key_file = pki_join_path(p->folder, "ca.key");
    int r = prepare_any_ca(CLUSTER_CA, p->ca_file, key_file, now, ret, err);
    *ret_new = r > 0;
    free(key_file);
    return r < 0 ? r : 0;
}

// prepare_proxy_ca: who holds its key may speak for everybody to components that believe it, so it
// signs nothing else. The server itself does not believe it.
static int prepare_proxy_ca(struct pki *p, int64_t now, struct err *err)
{
    struct pki_key_pair pair = {0};
    char *key_file = pki_join_path(p->folder, "front-proxy-ca.key");
    int r = prepare_any_ca("dray-front-proxy-ca", p->proxy_ca_file, key_file, now, &pair, err);
    pki_key_pair_done(&pair);
    free(key_file);
    return r < 0 ? r : 0;
}

static int prepare_leaf(const struct pki_key_pair *ca, const struct pki_subject *what,
                        const char *certificate_file, const char *key_file, int64_t now, bool renew,
                        struct err *err)
{
    struct pki_key_pair pair = {0};
    struct pki_subject subject = *what;
    int r = renew ? -ENOENT
                  : pki_load_pair(certificate_file, key_file, now + LEAF_RENEW_DAYS * DAY_S, &pair,
                                  err);
    // A start that was interrupted between the two files leaves a key of another certificate; a CA
    // that was replaced leaves certificates of the old one.
    if (r == 0 && (!pki_key_fits(&pair) ||
                   !csr_signed_by(str_z(pair.certificate_pem), str_z(ca->certificate_pem)))) {
        pki_key_pair_done(&pair);
        r = -ENOENT;
    }
    if (r == -ENOENT) {
        subject.not_before = now - 3600;
        subject.not_after = now + LEAF_DAYS * DAY_S;
        r = pki_make_certificate(ca, &subject, &pair, err);
        if (r == 0)
            r = pki_save_pair(&pair, certificate_file, key_file, err);
    }
    pki_key_pair_done(&pair);
    return r;
}

// The names a client may know the server by.
struct names {
    const char *p[NAMES_MAX + 1];
    size_t n;
    char host[256];
    char advertised[256];
    char machine[256];
    char addresses[ADDRESSES_MAX][ADDRESS_BYTES];
};

static void pki_add_name(struct names *ns, const char *name)
{
    for (size_t i = 0; i < ns->n; i++)
        if (strcmp(ns->p[i], name) == 0)
            return;
    if (name[0] && ns->n < NAMES_MAX)
        ns->p[ns->n++] = name;
}

static void add_str(struct names *ns, struct str name, char space[256])
{
    if (!name.n || name.n >= 256)
        return;
    memcpy(space, name.p, name.n);
    space[name.n] = '\0';
    pki_add_name(ns, space);
}

// What listens everywhere is known by all addresses of the machine.
static void pki_list_names(struct names *ns, struct str host, struct str advertised)
{
    static const char *const usual[] = {"localhost",
                                        "127.0.0.1",
                                        "::1",
                                        "10.0.0.1",
                                        "kubernetes",
                                        "kubernetes.default",
                                        "kubernetes.default.svc",
                                        "kubernetes.default.svc.cluster.local"};
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        pki_add_name(ns, usual[i]);
    if (gethostname(ns->machine, sizeof(ns->machine) - 1) == 0)
        pki_add_name(ns, ns->machine);
    add_str(ns, advertised, ns->advertised);
    if (host.n && !str_eq(host, STR("0.0.0.0")) && !str_eq(host, STR("::"))) {
        add_str(ns, host, ns->host);
        return;
    }
    size_t n = address_machine(ns->addresses, ADDRESSES_MAX);
    for (size_t i = 0; i < n; i++)
        pki_add_name(ns, ns->addresses[i]);
}

// names_changed compares with what the certificate on disk was made for.
static bool names_changed(const struct names *ns, const char *file, struct sbuf *now)
{
    for (size_t i = 0; i < ns->n; i++)
        sbuf_addf(now, "%s\n", ns->p[i]);
    char *before = NULL;
    bool same = pki_read_file(file, &before, NULL) == 0 && str_eq(str_z(before), sbuf_str(now));
    free(before);
    return !same;
}

static int prepare_server(struct pki *p, const struct pki_key_pair *ca, const struct pki_host *host,
                          int64_t now, bool renew, struct err *err)
{
    struct names ns = {0};
    pki_list_names(&ns, host->listen, host->advertise);
    cleanup_sbuf struct sbuf text = {0};
    char *names_file = pki_join_path(p->folder, "server.names");
    bool changed = names_changed(&ns, names_file, &text);
    struct pki_subject subject = {.common_name = "dray-server", .names = ns.p, .server = true};
    int r =
        prepare_leaf(ca, &subject, p->server_file, p->server_key_file, now, renew || changed, err);
    if (r == 0 && changed)
        r = file_replace_durable(AT_FDCWD, names_file, sbuf_str(&text), 0600, err);
    free(names_file);
    return r;
}

// prepare_kubelet_client: what nodes are shown. It is in no group: roles give this name the
// endpoints of nodes (schema/roles.policy) and nothing else. Older programs made one of
// system:masters here, which is replaced.
static int prepare_kubelet_client(struct pki *p, const struct pki_key_pair *ca, int64_t now,
                                  bool renew, struct err *err)
{
    const struct pki_subject subject = {.common_name = "kube-apiserver-kubelet-client"};
    char *pem = NULL;
    int r = pki_read_file(p->kubelet_client_file, &pem, err);
    if (r == 0 && !pki_certificate_names(pem, &subject))
        renew = true;
    free(pem);
    if (r < 0 && r != -ENOENT)
        return r;
    return prepare_leaf(ca, &subject, p->kubelet_client_file, p->kubelet_client_key_file, now,
                        renew, err);
}

int pki_prepare(const char *folder, const struct pki_host *host, int64_t now, struct pki *ret,
                struct err *err)
{
    static const char *const masters[] = {"system:masters", NULL};
    struct pki p = {.folder = pki_join_path(folder, "."),
                    .ca_file = pki_join_path(folder, "ca.crt"),
                    .proxy_ca_file = pki_join_path(folder, "front-proxy-ca.crt"),
                    .server_file = pki_join_path(folder, "server.crt"),
                    .server_key_file = pki_join_path(folder, "server.key"),
                    .admin_file = pki_join_path(folder, "admin.crt"),
                    .admin_key_file = pki_join_path(folder, "admin.key"),
                    .kubelet_client_file = pki_join_path(folder, "kubelet-client.crt"),
                    .kubelet_client_key_file = pki_join_path(folder, "kubelet-client.key")};
    struct pki_key_pair ca = {0};
    bool fresh = false;
    struct pki_subject admin = {.common_name = "dray-admin", .organizations = masters};
    int r = pki_make_directory(folder, err);
    if (r == 0)
        r = prepare_ca(&p, now, &ca, &fresh, err);
    if (r == 0)
        r = prepare_proxy_ca(&p, now, err);
    if (r == 0)
        r = prepare_server(&p, &ca, host, now, fresh, err);
    if (r == 0)
        r = prepare_leaf(&ca, &admin, p.admin_file, p.admin_key_file, now, fresh, err);
    if (r == 0)
        r = prepare_kubelet_client(&p, &ca, now, fresh, err);
    pki_key_pair_done(&ca);
    if (r < 0)
        pki_done(&p);
    else
        *ret = p;
    return r;
}

int pki_read_ca(const struct pki *p, struct pki_key_pair *ret, struct err *err)
{
    char *key_file = pki_join_path(p->folder, "ca.key");
    int r = pki_load_ca(p->ca_file, key_file, 0, ret, err);
    free(key_file);
    return r == -ENOENT ? err_set(err, ENOENT, "%s or its key has gone", p->ca_file) : r;
}

// pki_read_names reads the names that the server's certificate was made for: one a line.
static int pki_read_names(const struct pki *p, struct names *ns, char **text, struct err *err)
{
    char *file = pki_join_path(p->folder, "server.names");
    int r = pki_read_file(file, text, err);
    if (r == -ENOENT)
        r = err_set(err, ENOENT, "there is no %s; start the server once", file);
    free(file);
    for (char *line = r == 0 ? *text : NULL, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        pki_add_name(ns, line);
    }
    return r;
}

int pki_rotate_serving(const char *folder, int64_t now, struct err *err)
{
    struct pki p = {.folder = pki_join_path(folder, "."),
                    .ca_file = pki_join_path(folder, "ca.crt"),
                    .server_file = pki_join_path(folder, "server.crt"),
                    .server_key_file = pki_join_path(folder, "server.key")};
    struct pki_key_pair ca = {0};
    struct names ns = {0};
    char *text = NULL;
    int r = pki_read_names(&p, &ns, &text, err);
    if (r == 0)
        r = pki_read_ca(&p, &ca, err);
    const struct pki_subject subject = {
        .common_name = "dray-server", .names = ns.p, .server = true};
    if (r == 0)
        r = prepare_leaf(&ca, &subject, p.server_file, p.server_key_file, now, true, err);
    pki_key_pair_done(&ca);
    free(text);
    pki_done(&p);
    return r;
}

int pki_make_node_certificate(const struct pki *p, const char *node, const char *const *names,
                              int64_t now, char **ret_file, char **ret_key_file, struct err *err)
{
    static const char *const nodes[] = {"system:nodes", NULL};
    struct pki_key_pair ca = {0};
    bool server = names != NULL;
    char *file = pki_join_path(p->folder, server ? "kubelet.crt" : "node.crt");
    char *key_file = pki_join_path(p->folder, server ? "kubelet.key" : "node.key");
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "system:node:%s", node);
    const struct pki_subject subject = {
        .common_name = name.p, .organizations = nodes, .names = names, .server = server};
    int r = pki_read_ca(p, &ca, err);
    if (r == 0)
        r = prepare_leaf(&ca, &subject, file, key_file, now, true, err);
    pki_key_pair_done(&ca);
    if (r < 0) {
        free(file);
        free(key_file);
        return r;
    }
    *ret_file = file;
    *ret_key_file = key_file;
    return 0;
}

void pki_done(struct pki *p)
{
    free(p->folder);
    free(p->ca_file);
    free(p->proxy_ca_file);
    free(p->server_file);
    free(p->server_key_file);
    free(p->admin_file);
    free(p->admin_key_file);
    free(p->kubelet_client_file);
    free(p->kubelet_client_key_file);
    *p = (struct pki){0};
}

// --- kubeconfig ----------------------------------------------------------------------------------

static int add_data(struct sbuf *out, const char *key, const char *file, struct err *err)
{
    char *text = NULL;
    int r = pki_read_file(file, &text, err);
    if (r == 0) {
        sbuf_addf(out, "    %s: ", key);
        base64_encode(str_z(text), BASE64_STD, out);
        sbuf_addc(out, '\n');
    } else if (r == -ENOENT) {
        r = err_set(err, ENOENT, "%s has gone: start again to have it made", file);
    }
    free(text);
    return r;
}

// has_text: the file already has this content. A disk that is full is no reason to write it
// again.
static bool has_text(const char *path, struct str text)
{
    char *have = NULL;
    struct err ignored;
    bool same = pki_read_file(path, &have, &ignored) == 0 && str_eqz(text, have);
    free(have);
    return same;
}

int pki_write_kubeconfig(const struct pki *p, const char *url, const char *path, struct err *err)
{
    cleanup_sbuf struct sbuf out = {0};
    sbuf_addz(&out, "apiVersion: v1\nkind: Config\ncurrent-context: dray\ncontexts:\n- name: dray\n"
                    "  context:\n    cluster: dray\n    user: dray-admin\nclusters:\n- name: dray\n"
                    "  cluster:\n");
    sbuf_addf(&out, "    server: %s\n", url);
    int r = p ? add_data(&out, "certificate-authority-data", p->ca_file, err) : 0;
    sbuf_addf(&out, "users:\n- name: dray-admin\n  user:%s\n", p ? "" : " {}");
    if (r == 0 && p)
        r = add_data(&out, "client-certificate-data", p->admin_file, err);
    if (r == 0 && p)
        r = add_data(&out, "client-key-data", p->admin_key_file, err);
    return r < 0 || has_text(path, sbuf_str(&out))
               ? r
               : file_replace_durable(AT_FDCWD, path, sbuf_str(&out), 0600, err);
}

static int pki_check_account_key(const char *path, const char *pem, struct err *err)
{
    struct sign_key *key = NULL;
    int r = sign_key_load(str_z(pem), &key, err);
    sign_key_free(key);
    return r < 0 ? err_wrap(err, "%s", path) : 0;
}

int pki_account_key(const char *folder, char **ret, struct err *err)
{
    char *path = pki_join_path(folder, "sa.key");
    int r = pki_make_directory(folder, err);
    if (r == 0)
        r = pki_read_file(path, ret, err);
    if (r == -ENOENT) {
        struct sbuf pem = {0};
        r = sign_key_make(&pem, err);
        if (r == 0)
            r = file_replace_durable(AT_FDCWD, path, sbuf_str(&pem), 0600, err);
        if (r == 0)
            *ret = sbuf_take(&pem);
        sbuf_done(&pem);
    } else if (r == 0) {
        r = pki_check_account_key(path, *ret, err);
        if (r < 0)
            free(take_ptr(*ret));
    }
    free(path);
    return r;
}

// pki_first_key is the text of the first key, with its last line.
static struct str pki_first_key(struct str pem)
{
    const struct str end = STR("-----END PRIVATE KEY-----\n");
    ptrdiff_t at = str_find(pem, end);
    return at < 0 ? pem : str_upto(pem, (size_t)at + end.n);
}

int pki_rotate_account_key(const char *folder, bool finish, struct err *err)
{
    char *path = pki_join_path(folder, "sa.key"), *old = NULL;
    cleanup_sbuf struct sbuf text = {0};
    struct sign_key *key = NULL;
    int r = pki_read_file(path, &old, err);
    if (r == -ENOENT)
        r = err_set(err, ENOENT, "there is no %s; start the server once", path);
    // What is read and written must be of use: the server would not start with it.
    if (r == 0 && sign_key_load(str_z(old), &key, err) < 0)
        r = err_wrap(err, "%s", path);
    sign_key_free(key);
    key = NULL;
    if (r == 0 && !finish)
        r = sign_key_make(&text, err);
    if (r == 0)
        sbuf_add(&text, finish ? pki_first_key(str_z(old)) : str_z(old));
    if (r == 0 && sign_key_load(sbuf_str(&text), &key, err) < 0)
        r = err_wrap(err, "%s", path);
    if (r == 0)
        r = file_replace_durable(AT_FDCWD, path, sbuf_str(&text), 0600, err);
    sign_key_free(key);
    free(old);
    free(path);
    return r;
}
