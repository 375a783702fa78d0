// SPDX-License-Identifier: Apache-2.0
//
// Kubeconfig files, as kubectl reads them: several merged (the first to name something wins),
// contexts, clusters, users; and what a pod finds in its own folder. Reading is apart from files,
// so that hostile text can be tried on it; nothing here talks to a network.
#ifndef CLIENT_KUBECONFIG_H
#define CLIENT_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "codec/json.h"

struct kubeconfig_env {
    struct str name, value;
};

// A program that answers with credentials (client.authentication.k8s.io).
struct kubeconfig_exec {
    struct str command; // empty: there is none
    struct str api_version;
    const struct str *args;
    size_t args_len;
    const struct kubeconfig_env *env;
    size_t env_len;
    bool provide_cluster_info;
    struct str install_hint;
};

// One server and who to be there. Files have been read; those of credentials are read again now and
// then.
struct kubeconfig_target {
    struct str server;
    struct str server_name; // of its certificate
    struct str proxy;
    struct str ca_pem;
    struct str ca_file; // where it was read; empty: it stood in the kubeconfig
    bool insecure;
    struct str namespace; // of the context; "default" when it names none
    struct str token;
    struct str token_file; // wins over token while it can be read
    struct str certificate_pem, key_pem;
    struct str certificate_file,
        key_file; // where these were read; empty: they stood in the kubeconfig
    struct kubeconfig_exec exec;
    struct str user; // its name in the file, for messages
    struct str file; // that names the cluster; empty: none, in a pod
};

struct kubeconfig_entry {
    struct str name;
    struct str file;         // where it was read
    const yyjson_val *value; // what stands under cluster:, user:, context:
    const struct json_doc *doc;
};

struct kubeconfig_entries VEC(struct kubeconfig_entry);
struct kubeconfig_docs VEC(struct json_doc *);

// Files merged. Zeroed, it is empty.
struct kubeconfig {
    struct kubeconfig_entries clusters, users, contexts;
    struct str current_context;
    struct kubeconfig_docs docs;
    struct arena arena;
};

// kubeconfig_add reads one file's text and merges it behind what was read before. Returns 0 or
// -ERR_BAD_REQUEST with file, place, field and what to do.
int kubeconfig_add(struct kubeconfig *k, struct str file, struct str text,
                   struct err *err) MUST_USE;

// kubeconfig_target finds a context (empty: the current one) and fills *ret, whose texts live in k.
// Files it names are read. Returns 0, -ERR_NOT_FOUND (no such context, cluster, user),
// -ERR_INVALID (something that cannot be used), or -errno of a file.
int kubeconfig_target(struct kubeconfig *k, struct str context, struct kubeconfig_target *ret,
                      struct err *err) MUST_USE;

// kubeconfig_env is $KUBECONFIG; NULL where it is not set or empty, which is the same, as for
// kubectl.
const char *kubeconfig_env(void);

// kubeconfig_in_cluster fills *ret from what a pod's service account has: the directory (NULL: the
// usual one) and KUBERNETES_SERVICE_HOST and _PORT. Returns -ERR_NOT_FOUND outside a pod.
int kubeconfig_in_cluster(struct kubeconfig *k, const char *folder, struct kubeconfig_target *ret,
                          struct err *err) MUST_USE;

// kubeconfig_find is what programs use: kubeconfig_load and kubeconfig_target; without a path,
// $KUBECONFIG and ~/.kube/config, in-cluster. Returns -ERR_NOT_FOUND with k still empty when no
// cluster is configured at all.
int kubeconfig_find(struct kubeconfig *k, const char *path, const char *context,
                    struct kubeconfig_target *ret, struct err *err) MUST_USE;

// kubeconfig_read_file adds a file's bytes (1 MiB at most). Returns 0, -errno or -ERR_TOO_LARGE.
int kubeconfig_read_file(const char *path, struct sbuf *out, struct err *err) MUST_USE;

// --- Exec plugins --------------------------------------------------------------------------------

// What a plugin answered; texts live in the arena it was read into.
struct kubeconfig_credential {
    struct str token;
    struct str certificate_pem, key_pem;
    int64_t expires_s; // since 1970; 0: it does not say
};

// kubeconfig_exec_info adds the JSON for KUBERNETES_EXEC_INFO.
void kubeconfig_exec_info(const struct kubeconfig_target *t, struct sbuf *out);

// kubeconfig_exec_answer reads an ExecCredential. Returns 0 or -ERR_BAD_REQUEST.
int kubeconfig_exec_answer(const struct kubeconfig_exec *exec, struct str text, struct arena *arena,
                           struct kubeconfig_credential *ret, struct err *err) MUST_USE;

// kubeconfig_exec_run runs a plugin and waits for its answer, a minute at most: not for a loop's
// thread. Returns 0 or a negative code with the plugin's message.
int kubeconfig_exec_run(const struct kubeconfig_target *t, struct arena *arena,
                        struct kubeconfig_credential *ret, struct err *err) MUST_USE;

void kubeconfig_done(struct kubeconfig *k);
#define cleanup_kubeconfig cleanup_with(kubeconfig_done)

#endif
