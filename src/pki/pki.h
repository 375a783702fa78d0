// SPDX-License-Identifier: Apache-2.0
//
// The files of a first start: a CA, the server's certificate, the administrator's, a kubeconfig.
// Made when they are missing, renewed at a start when they are about to expire.
#ifndef PKI_PKI_H
#define PKI_PKI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "pki/certificate.h"

// Paths on the heap, below one folder.
struct pki {
    char *folder;
    char *ca_file;
    char *proxy_ca_file; // of a proxy in front of other servers
    char *server_file, *server_key_file;
    char *admin_file, *admin_key_file;
    char *kubelet_client_file, *kubelet_client_key_file; // shown to nodes
};

// Where the server listens, and how others reach it (may be empty): its certificate is for both.
struct pki_host {
    struct str listen, advertise;
};

// pki_prepare makes sure that all files in folder are there and valid for a while. The server's
// certificate is for its host, this machine's names and the service's usual ones; for all of the
// machine's addresses if it listens everywhere. now: seconds since 1970. Returns 0 or an errno, or
// -ERR_INVALID for files it cannot read.
int pki_prepare(const char *folder, const struct pki_host *host, int64_t now, struct pki *ret,
                struct err *err) MUST_USE;
void pki_done(struct pki *p);

// pki_read_file reads a file into *ret (heap). Returns 0 or -errno; -ENOENT without a message.
int pki_read_file(const char *path, char **ret, struct err *err) MUST_USE;

// pki_read_ca reads the CA with its key. Returns 0, or -errno with a message.
int pki_read_ca(const struct pki *p, struct pki_key_pair *ret, struct err *err) MUST_USE;

// pki_make_node_certificate makes the certificate of a node's endpoint, or renews it, in the CA's
// folder. names are the node's, NULL-terminated; NULL: the certificate it shows as a client. The
// paths are on the heap.
int pki_make_node_certificate(const struct pki *p, const char *node, const char *const *names,
                              int64_t now, char **ret_file, char **ret_key_file,
                              struct err *err) MUST_USE;

// pki_account_key reads the key for tokens of service accounts, folder/sa.key, which is made when
// it is missing.
// *ret is on the heap.
int pki_account_key(const char *folder, char **ret, struct err *err) MUST_USE;

// pki_rotate_account_key puts a new key before those in folder/sa.key: it signs from now on, the
// others verify. finish: only the first one stays, and tokens of the others are invalid. Returns 0
// or a negative code.
int pki_rotate_account_key(const char *folder, bool finish, struct err *err) MUST_USE;

// pki_rotate_serving makes a new key and certificate for the server, for the same names. A running
// server takes them up by itself. Returns 0 or a negative code.
int pki_rotate_serving(const char *folder, int64_t now, struct err *err) MUST_USE;

// pki_write_kubeconfig writes a kubeconfig for the administrator with all data inside. p NULL:
// plain text to url, nothing to show.
int pki_write_kubeconfig(const struct pki *p, const char *url, const char *path,
                         struct err *err) MUST_USE;

#endif
