// SPDX-License-Identifier: Apache-2.0
//
// Role-based access control: who may do what, by the Roles, ClusterRoles and bindings that are
// stored. Answers come from an index by subject that is rebuilt when one of those objects has
// changed, so a question costs what the rules of its user cost. Lives on the exec of its client.
#ifndef SERVER_AUTH_RBAC_H
#define SERVER_AUTH_RBAC_H

#include <stdbool.h>

#include "client/client.h"
#include "registry/registry.h"

// A question. With a path it is about something that is no resource.
struct access {
    const struct registry_user *user;
    struct str verb;          // get, list, create …; for paths the method in lower case
    struct str namespace;     // empty: the whole cluster
    struct str group;         // of the API
    struct str resource;      // plural
    struct str subresource;   // may be empty
    struct str name;          // may be empty
    struct str path;          // empty: a resource
    struct str selected_node; // what a field selector wants spec.nodeName to be; empty: anything
};

struct rbac;

// rbac_new follows the roles and bindings that a client sees.
struct rbac *rbac_new(struct client *client);
void rbac_free(struct rbac *r);

// rbac_allows answers. why (may be NULL) gets upstream's reason for a yes, and for a no the roles
// that are named by bindings of the user but do not exist.
bool rbac_allows(struct rbac *r, const struct access *q, struct sbuf *why);

// rbac_rules calls fn with every rule that holds for a user in a namespace.
void rbac_rules(struct rbac *r, const struct registry_user *user, struct str namespace,
                void (*fn)(void *arg, const struct api_policy_rule *rule), void *arg);

// rbac_role finds the rules of a role that a binding in a namespace (empty: of the cluster) names;
// NULL when it does not exist. Good until control returns to the exec.
const struct api_policy_rule_array *rbac_role(const struct rbac *r, struct str namespace,
                                              const struct api_role_ref *ref);

// rbac_covers: whether these rules grant everything that wanted grants. Otherwise *ret_missing (may
// be NULL) is the first rule that is not covered. What the lists of a rule give multiplies, so
// *left is how many names may be compared, and is decreased. 0 afterwards: too few, nothing
// is known of that rule.
bool rbac_covers(const struct api_policy_rule *const *have, size_t have_len,
                 const struct api_policy_rule *wanted, size_t wanted_len, uint64_t *left,
                 const struct api_policy_rule **ret_missing);

// rbac_rule_allows: whether one rule is enough for a question.
bool rbac_rule_allows(const struct api_policy_rule *rule, const struct access *q);

#endif
