// SPDX-License-Identifier: Apache-2.0
//
// What a machine that knows nothing of a cluster but a token and a hash may read of it: the
// ConfigMap kube-public/cluster-info, as kubeadm makes it. It holds a kubeconfig without a user,
// and for each token an HMAC of that text (a JSON web signature without its payload, HS256): who
// reads it and knows the token can tell that it was written by somebody who knows it as well.
#ifndef CLIENT_CLUSTER_INFO_H
#define CLIENT_CLUSTER_INFO_H

#include <stdbool.h>

#include "api/bootstrap.h"
#include "base/arena.h"
#include "base/err.h"

#define CLUSTER_INFO_NAME      "cluster-info"
#define CLUSTER_INFO_NAMESPACE "kube-public"
#define CLUSTER_INFO_TEXT      "kubeconfig"
#define CLUSTER_INFO_SIGNATURE "jws-kubeconfig-" // and the ID of a token
#define CLUSTER_INFO_PATH      "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// cluster_info_write adds the kubeconfig.
void cluster_info_write(struct str url, struct str ca_pem, struct sbuf *out);

// cluster_info_sign adds the signature of a text with a token: HEADER..SIGNATURE.
void cluster_info_sign(struct str text, const struct bootstrap_token *token, struct sbuf *out);

struct cluster_info {
    struct str server; // the URL it gives itself
    struct str ca_pem;
};

// cluster_info_parse reads the kubeconfig; *ret lives in arena. Returns 0 or -ERR_BAD_REQUEST.
int cluster_info_parse(struct str kubeconfig, struct arena *arena, struct cluster_info *ret,
                       struct err *err) MUST_USE;

// cluster_info_check reads the ConfigMap as a server sent it (JSON) and believes it only if a CA in
// it has a public key with the hash pin (64 digits) and the text is signed by the token. ca_pem is
// that one CA. Returns 0; -ERR_BAD_REQUEST: not a cluster-info; -ERR_CONFLICT: another CA;
// -ERR_NOT_FOUND: no signature by a token of this ID; -ERR_UNAUTHORIZED: by another secret.
int cluster_info_check(struct str body, const struct bootstrap_token *token, struct str pin,
                       struct arena *arena, struct cluster_info *ret, struct err *err) MUST_USE;

#endif
