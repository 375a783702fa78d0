// SPDX-License-Identifier: Apache-2.0
//
// The stages of requests, and what the registry does on its own account: namespaces and definitions
// that go, policies, events.
#ifndef REGISTRY_STAGE_INT_H
#define REGISTRY_STAGE_INT_H

#include "registry/op_int.h"

// create_fit_namespace makes the namespace of the object that of the request, or refuses.
int create_fit_namespace(struct op *op, struct api_object_meta *meta);

// create_single_owners drops owner references that are there twice, with a warning.
void create_single_owners(struct op *op, struct api_object_meta *meta);

// admit_change lets every admitter look at, and change, an object in the stored version. old is
// NULL on create.
int admit_change(struct op *op, const struct api_object *object, const struct api_object *old);

// admit_valid asks the admitters behind validation: Pod Security, admission policies.
int admit_valid(struct op *op, const struct api_object *object, const struct api_object *old);

// admit_switch_off reads the names of plugins that are not to run. Returns 0 or -ERR_INVALID.
int admit_switch_off(struct str list, unsigned *ret, struct err *err) MUST_USE;

// admit_runs: a plugin, by its name, is not switched off.
bool admit_runs(const struct registry *reg, const char *plugin);

// Pod Security Admission (podsec/). podsec_admit is for kinds with KIND_POD_SECURITY, behind
// validation; podsec_stop ends what goes on, podsec_done frees.
int podsec_start(struct registry *reg, const struct registry_podsec *options,
                 struct err *err) MUST_USE;
void podsec_stop(struct registry *reg);
void podsec_done(struct registry *reg);
int podsec_admit(struct op *op, const struct api_object *object, const struct api_object *old);

// accounts_admit is the admitter of accounts.c.
int accounts_admit(struct op *op, const struct api_object *object, const struct api_object *old);

// admit_content asks whether a namespace takes new content. name is that of the content.
int admit_content(struct op *op, struct str namespace, struct str name);

// admit_deletion asks whether an object may be deleted. old (may be NULL) is what it is.
int admit_deletion(struct op *op, struct str name, const struct api_object *old);

// admit_part asks whether something may be created in an object: a binding, an eviction.
int admit_part(struct op *op, const struct api_object *part, const struct object *whole);

// certificates_check_texts reads what a request for a certificate has in PEM.
void certificates_check_texts(struct op *op, const struct api_object *object,
                              const struct api_object *old, struct causes *causes);

// certificates_admit writes down who asks for a certificate; certificates_decide is an update of a
// request's approval (certificates.c).
int certificates_admit(struct op *op, const struct api_object *object,
                       const struct api_object *old);
int certificates_decide(struct op *op, const struct api_object *object,
                        const struct api_object *old);

// admit_about is the subject of an error about an object that may have no name yet;
// runtime_admit_class is the admitter of pods that name a RuntimeClass.
struct status_subject admit_about(const struct op *op, const struct api_object *object);
int runtime_admit_class(struct op *op, const struct api_object *object,
                        const struct api_object *old);

// limits_admit gives containers what LimitRanges say they get; limits_check refuses what asks for
// too much or too little. old is NULL for a creation.
int limits_admit(struct op *op, const struct api_object *object, const struct api_object *old);
int limits_check(struct op *op, const struct api_object *object, const struct api_object *old);

// quota_check refuses what a ResourceQuota does not allow; else quota_charge counts it in, with the
// write that follows, or quota_forget does not.
int quota_check(struct op *op, const struct api_object *object, const struct api_object *old);
int quota_charge(struct op *op);
void quota_forget(struct op *op);

// create_annotate sets an annotation.
void create_annotate(struct op *op, struct api_object_meta *meta, struct str key, struct str value);

// create_object does all of a creation behind decoding. object is in the stored version.
int create_object(struct op *op, const struct api_object *object);

// update_object does all of an update of old behind decoding.
int update_object(struct op *op, const struct api_object *object, const struct object *old);

// update_body is an update behind decoding, as it comes. old is NULL when there is none.
int update_body(struct op *op, const struct api_object *body, const struct object *old);

// fields_manage notes in object, which is in the stored version and not admitted yet, who manages
// which of its fields after this write. before and old are NULL for a creation.
void fields_manage(struct op *op, const struct api_object *object, const struct api_object *before,
                   const struct object *old);

// fields_done frees what fields.c keeps in a registry.
void fields_done(struct registry *reg);

// fields_settle gives the managers' times back where nothing else has changed: a write that changes
// nothing is none.
void fields_settle(const struct api_object *object, const struct api_object *before);

// --- Long work (apart.c) -------------------------------------------------------------------------

// apart_run runs work(arg) on another thread and then after(arg) on the exec; stopping: the
// registry goes, and the request must be refused. Only where apart_possible.
bool apart_possible(const struct registry *reg);
void apart_run(struct registry *reg, void (*work)(void *arg),
               void (*after)(void *arg, bool stopping), void *arg);
void apart_stop(struct registry *reg);

// fields_apply lays a configuration over old, or makes an object of it. *ret is in the request's
// version; it is created or updated like any other body.
int fields_apply(struct op *op, struct str patch, const struct object *old, struct api_object *ret);

// create_body is a creation behind decoding, as it comes.
int create_body(struct op *op, const struct api_object *body);

// update_check_subresource refuses what cannot be updated.
int update_check_subresource(struct op *op);

// create_finish_object warns of what is allowed but not good, and sets what the server sets last.
void create_finish_object(struct op *op, const struct api_object *object);

// update_check_name refuses an object that has no name, or another than the request's path.
int update_check_name(struct op *op, const struct api_object_meta *meta);

// update_fail_other_uid refuses to change an object with another UID than the request means.
int update_fail_other_uid(struct op *op, const struct api_object_meta *meta, struct str uid);

// create_check_valid prepares and validates an object.
int create_check_valid(struct op *op, enum api_op what, const struct api_object *object,
                       const struct api_object *old);

// create_check_prepared is the second half of create_check_valid: the rules alone.
int create_check_prepared(struct op *op, enum api_op what, const struct api_object *object,
                          const struct api_object *old) MUST_USE;

// registry_delete_object deletes or marks old, the head of its key.
int registry_delete_object(struct op *op, const struct object *old,
                           const struct api_delete_options *options);

// delete_decoded is the same behind all checks. object is the typed form of old and is changed.
int delete_decoded(struct op *op, const struct object *old, const struct api_object *object,
                   const struct api_delete_options *options);

// Subresources. The pod_keep functions undo every change but those they are for.
int pods_bind(struct op *op, const struct api_object *body);
int registry_evict_pod(struct op *op, const struct api_object *body);
void pods_keep_but_resources(struct op *op, struct api_pod *pod, const struct api_pod *old);
void pods_keep_but_debuggers(struct op *op, struct api_pod *pod, const struct api_pod *old);
int scale_object(struct op *op, const struct api_scale *scale, const struct object *old);

// pod_change_denied: why a deletion or eviction of a pod must not be, by preconditions.
int delete_check_preconditions(struct op *op, const struct object *old,
                               const struct api_preconditions *preconditions);

// namespace_delete marks a namespace, or deletes it when nothing holds it any more.
int namespace_delete(struct op *op, const struct object *old, const struct api_object *decoded,
                     const struct api_delete_options *options);

// Definitions of kinds. definitions_start makes the kinds of those that are there and follows them
// from then on.
int definitions_start(struct registry *reg, struct err *err) MUST_USE;
void definitions_stop(struct registry *reg);

// definitions_settle sets in the status of a definition that is about to be written which names it
// has.
void definitions_settle(struct op *op, const struct api_object *object);

// definitions_delete marks one; its objects go first.
int definitions_delete(struct op *op, const struct object *old, const struct api_object *decoded,
                       const struct api_delete_options *options);

// definitions_due has a definition looked at whose last object may be gone.
void definitions_due(struct registry *reg, const struct api_kind *hub);

// Admission policies. policies_admit asks them about a write (old is NULL for a creation) or a
// deletion (object is NULL).
int policies_start(struct registry *reg, struct err *err) MUST_USE;
void policies_stop(struct registry *reg);
int policies_admit(struct op *op, const struct api_object *object, const struct api_object *old);

// Events do not stay for ever. events_due: there may be some.
void events_due(struct registry *reg);
void events_look(void *arg);
void events_stop(struct registry *reg);

// namespace_due has a namespace looked at soon: all of it when it was just marked, else only
// whether it is empty by now.
void namespace_due(struct registry *reg, struct str name, bool all);
bool namespace_terminating(const struct object *ns);
void namespace_sweep_deleted(void *arg);
void namespace_sweep_done(struct registry *reg);

#endif
