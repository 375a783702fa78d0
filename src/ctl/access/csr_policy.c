// SPDX-License-Identifier: Apache-2.0
//
// Which certificate signing requests of nodes are approved: subject, names, addresses and usages
// must be those of the node that asks. Pure functions, so that each rule has its test.
#include "ctl/access/csr_policy.h"

#include "net/address.h"

#include "base/banned.h"

static const struct str node_prefix = STR_INIT("system:node:");

bool csr_is_ours(struct str signer)
{
    return str_eqz(signer, CSR_NODE_CLIENT) || str_eqz(signer, CSR_NODE_SERVING) ||
           str_eqz(signer, CSR_CLIENT);
}

static bool csr_policy_deny(struct sbuf *why, const char *what)
{
    sbuf_addz(why, what);
    return false;
}

// --- Usages of a certificate -------------------------------------------------------------

// Usages are a set: exactly auth and "digital signature", with or without "key encipherment" (for
// RSA).
static bool csr_policy_check_usages(const struct api_str_array *usages, const char *auth,
                                    struct sbuf *why)
{
    bool signs = false, right = false;
    for (size_t i = 0; i < usages->n; i++) {
        signs |= str_eqz(usages->p[i], "digital signature");
        right |= str_eqz(usages->p[i], auth);
        if (!str_eqz(usages->p[i], "digital signature") && !str_eqz(usages->p[i], auth) &&
            !str_eqz(usages->p[i], "key encipherment")) {
            sbuf_addf(why, "the usage \"%.*s\" is not for it", STR_ARG(usages->p[i]));
            return false;
        }
    }
    if (!signs || !right)
        sbuf_addf(why, "the usages must be \"digital signature\" and \"%s\"", auth);
    return signs && right;
}

static bool csr_policy_check_subject(const struct csr_request *q, struct sbuf *why)
{
    if (q->organizations_len != 1 || !str_eqz(q->organizations[0], "system:nodes"))
        return csr_policy_deny(why, "the subject's organization must be system:nodes and no other");
    if (q->others_len)
        return csr_policy_deny(
            why, "the subject must have a common name and an organization and nothing else");
    if (!str_starts(q->common_name, node_prefix) || q->common_name.n == node_prefix.n)
        return csr_policy_deny(why, "the subject's common name must be system:node:NAME");
    return true;
}

static bool check_client(const struct api_certificate_signing_request *o,
                         const struct csr_request *q, struct sbuf *why)
{
    if (!csr_policy_check_subject(q, why) ||
        !csr_policy_check_usages(&o->spec.usages, "client auth", why))
        return false;
    return q->names_len == 0 ||
           csr_policy_deny(why, "a node's client certificate has no subject alternative "
                                "names");
}

static bool check_serving(const struct api_certificate_signing_request *o,
                          const struct csr_request *q, struct sbuf *why)
{
    if (!csr_policy_check_subject(q, why) ||
        !csr_policy_check_usages(&o->spec.usages, "server auth", why))
        return false;
    if (q->names_len == 0)
        return csr_policy_deny(why, "a DNS name or an address is required");
    for (size_t i = 0; i < q->names_len; i++)
        if (q->names[i].type != CSR_NAME_DNS && q->names[i].type != CSR_NAME_IP)
            return csr_policy_deny(why, "subject alternative names must be DNS names or addresses");
    return true;
}

bool csr_signable(const struct api_certificate_signing_request *object,
                  const struct csr_request *request, bool *ret_server, struct sbuf *why)
{
    struct str signer = object->spec.signer_name;
    *ret_server = str_eqz(signer, CSR_NODE_SERVING);
    if (*ret_server)
        return check_serving(object, request, why);
    if (str_eqz(signer, CSR_NODE_CLIENT))
        return check_client(object, request, why);
    if (!request->common_name.n)
        return csr_policy_deny(why, "the subject has no common name");
    return csr_policy_check_usages(&object->spec.usages, "client auth", why);
}

// --- Who asks ------------------------------------------------------------------------------------

static bool csr_policy_node_is_ready(const struct api_node *node)
{
    for (size_t i = 0; node && i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, "Ready"))
            return str_eqz(node->status.conditions.p[i].status, "True");
    return false;
}

static enum csr_verdict judge_client(const struct csr_question *q, struct sbuf *why)
{
    bool self = str_eq(q->object->spec.username, q->request->common_name);
    if (self && q->may_renew) {
        sbuf_addz(why, "Auto approving self kubelet client certificate after SubjectAccessReview.");
        return CSR_APPROVE;
    }
    if (!self && str_starts(q->object->spec.username, node_prefix)) {
        sbuf_addz(why, "a node may ask for its own certificate only");
        return CSR_DENY;
    }
    if (!q->may_bootstrap)
        return CSR_LEAVE;
    if (csr_policy_node_is_ready(q->node)) {
        sbuf_addf(why,
                  "a node of the name %.*s is alive: choose another name, or delete that Node "
                  "first",
                  STR_ARG(q->node->metadata.name));
        return CSR_DENY;
    }
    sbuf_addz(why, "Auto approving kubelet client certificate after SubjectAccessReview.");
    return CSR_APPROVE;
}

static bool is_of_node(const struct api_node *node, struct str name)
{
    bool own = address_same(node->metadata.name, name);
    for (size_t i = 0; !own && i < node->status.addresses.n; i++)
        own = address_same(node->status.addresses.p[i].address, name);
    return own;
}

// A node reports its own addresses: with a star among them it would be all machines of a
// domain.
static bool is_one(const char *name)
{
    for (; *name; name++)
        if (!((*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9') ||
              strchr("-_.:", *name)))
            return false;
    return true;
}

// A certificate for the API server's name, or another node's, would let this node speak for them.
static bool csr_policy_check_name(const struct csr_question *q, struct str name, struct sbuf *why)
{
    const char *problem = NULL;
    char plain[ADDRESS_HOST_BYTES];
    if (!name.n || !address_plain(name, plain) || !is_one(plain))
        problem = "is not that of one machine";
    else if (address_is_loopback(str_z(plain)))
        problem = "is every machine's own";
    else if (csr_certificate_is_for(q->server_certificate, str_z(plain)))
        problem = "is the API server's";
    else if (q->taken && q->taken(q->arg, q->node->metadata.name, name))
        problem = "is another node's";
    else if (!is_of_node(q->node, name))
        problem = "is not among the addresses of the Node";
    if (problem)
        sbuf_addf(why, "the name %.*s %s", STR_ARG(name), problem);
    return !problem;
}

static enum csr_verdict judge_serving(const struct csr_question *q, struct sbuf *why)
{
    if (!str_eq(q->object->spec.username, q->request->common_name)) {
        sbuf_addz(why, "only the node itself may ask for its serving certificate");
        return CSR_DENY;
    }
    if (!q->node || !q->may_renew)
        return CSR_LEAVE;
    for (size_t i = 0; i < q->request->names_len; i++)
        if (!csr_policy_check_name(q, q->request->names[i].text, why))
            return CSR_DENY;
    sbuf_addz(why, "every name is the node's own");
    return CSR_APPROVE;
}

enum csr_verdict csr_judge(const struct csr_question *q, struct sbuf *why)
{
    struct str signer = q->object->spec.signer_name;
    bool serving = str_eqz(signer, CSR_NODE_SERVING);
    if (!serving && !str_eqz(signer, CSR_NODE_CLIENT))
        return CSR_LEAVE;
    if (!(serving ? check_serving : check_client)(q->object, q->request, why))
        return CSR_DENY;
    return serving ? judge_serving(q, why) : judge_client(q, why);
}
