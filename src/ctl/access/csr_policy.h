// SPDX-License-Identifier: Apache-2.0
//
// Which requests for a node's certificates are approved without a person, and what may be signed.
// Pure: what the cluster knows is in the question. docs/design/join.md has the rules as a table.
#ifndef CTL_ACCESS_CSR_POLICY_H
#define CTL_ACCESS_CSR_POLICY_H

#include <stdbool.h>

#include "api/types.h"
#include "pki/csr.h"

#define CSR_NODE_CLIENT  "kubernetes.io/kube-apiserver-client-kubelet"
#define CSR_NODE_SERVING "kubernetes.io/kubelet-serving"
#define CSR_CLIENT       "kubernetes.io/kube-apiserver-client"

enum csr_verdict {
    CSR_LEAVE, // for a person, or for another time
    CSR_APPROVE,
    CSR_DENY,
};

struct csr_question {
    const struct api_certificate_signing_request *object;
    const struct csr_request *request; // what object asks for
    bool may_bootstrap;                // who asks may get a certificate for any node
    bool may_renew;                    // who asks may get one for the node that it is
    const struct api_node *node;       // of the requested name; NULL: there is none
    struct str server_certificate;     // the API server's, PEM
    // taken: another node has this name or address; may be NULL.
    bool (*taken)(void *arg, struct str node, struct str name);
    void *arg;
};

// csr_judge decides. why gets the reason, for the condition's message.
enum csr_verdict csr_judge(const struct csr_question *q, struct sbuf *why);

// csr_signable: whether a request that somebody has approved may be signed by the signer it names.
// false: why has the reason. *ret_server: as a server's certificate. Signers that are not ours
// are not asked about: csr_is_ours.
bool csr_signable(const struct api_certificate_signing_request *object,
                  const struct csr_request *request, bool *ret_server, struct sbuf *why);
bool csr_is_ours(struct str signer);

#endif
