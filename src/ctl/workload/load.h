// SPDX-License-Identifier: Apache-2.0
//
// What the controllers of workloads share (README.md, Workloads): keys and steps, who owns what,
// pods made from templates, what pods count as, revisions of templates. Private to src/ctl.
//
// A function that may write returns whether it has: then the step is over, and comes back when the
// cache has seen the write. A step in which nothing was written ends with work_done or work_again.
#ifndef CTL_WORKLOAD_LOAD_H
#define CTL_WORKLOAD_LOAD_H

#include "api/match/label_selector.h"
#include "api/meta.h"
#include "base/map.h"
#include "base/vec.h"
#include "ctl/core/ctl_int.h"
#include "ctl/template.h"

enum load_kind {
    LOAD_REPLICA_SET,
    LOAD_DEPLOYMENT,
    LOAD_DAEMON_SET,
    LOAD_STATEFUL_SET,
    LOAD_JOB,
    LOADS,
};

// Why the last write of a key failed.
struct load_failure {
    char *key;
    const char *reason;
    char *message;
};
struct load_failures MAP(struct load_failure);

// How long something that failed is left alone; forgotten with its workload, and by a restart.
struct load_pause {
    char *key;
    int64_t ns; // 0: not at all
    int64_t since_ns;
};
struct load_pauses MAP(struct load_pause);

// The controller of a kind; all NULL where it is switched off.
struct load {
    struct ctl *ctl;
    struct work *work;
    struct event_recorder *events;
    struct list calls;
    enum ctl_cache cache;
    size_t by_namespace; // index of its objects
    struct load_failures failures;
    struct load_pauses pauses; // by KEY/WHAT
};

// Dependents: pods, ReplicaSets, revisions. Indexes by the UID of the controller, and those without
// one by namespace.
struct load_index {
    size_t by_controller;
    size_t orphans;
};

struct load_ctl {
    struct ctl *ctl;
    struct load of[LOADS];
    struct load_index index[CACHES];
    size_t tracked; // index: pods with the finalizer of Jobs by NAMESPACE/JOB
};

// --- Steps of the kinds --------------------------------------------------------------------------

void replicaset_step_key(struct load *l, struct str key, const struct typed_object *o);
void deploy_step_key(struct load *l, struct str key, const struct typed_object *o);
void daemon_set_step(struct load *l, struct str key, const struct typed_object *o);
void stateful_set_step(struct load *l, struct str key, const struct typed_object *o);
void job_step(struct load *l, struct str key, const struct typed_object *o);

// job_gone lets a pod go whose Job is gone; true when it did.
bool job_gone(struct load *l, struct str key);

CTL_VIEW(replica_set, api_replica_set)
CTL_VIEW(deployment, api_deployment)
CTL_VIEW(daemon_set, api_daemon_set)
CTL_VIEW(stateful_set, api_stateful_set)
CTL_VIEW(job, api_job)
CTL_VIEW(revision, api_controller_revision)
CTL_VIEW(node, api_node)

// --- Dependents ----------------------------------------------------------------------------------

struct load_objects VEC(const struct typed_object *);

// load_owned gives the objects of a cache that o controls, in order of their names.
struct load_objects load_owned(const struct load *l, enum ctl_cache which,
                               const struct typed_object *o, struct arena *arena);

// load_tracked_pod finds a pod of the Job NAMESPACE/NAME, be it there or gone, that has the
// finalizer of Jobs.
const struct typed_object *load_tracked_pod(const struct load *l, struct str job);

// load_claim releases one object that selector does not match any more, or adopts one without a
// controller that it matches. Nothing is adopted for an o that is being deleted. True: a write is
// under way.
bool load_claim(struct load *l, struct str key, const struct typed_object *o, enum ctl_cache which,
                const struct api_label_selector *selector);

// --- Writes --------------------------------------------------------------------------------------

// The event about a write; no reason: none. Reasons are literals, texts are copied. After a
// text that ends in ": " comes the object's name.
struct load_event {
    const char *reason, *text;               // when it went well
    const char *failed_reason, *failed_text; // the server's message follows
};

void load_create(struct load *l, struct str key, const struct typed_object *owner,
                 enum ctl_cache which, void *value, const struct load_event *event);
void load_delete(struct load *l, struct str key, const struct typed_object *owner,
                 enum ctl_cache which, const struct typed_object *victim,
                 const struct load_event *event);
void load_update(struct load *l, struct str key, const struct typed_object *owner,
                 enum ctl_cache which, const void *value, const struct load_event *event);

// load_update_status writes value's status.
void load_update_status(struct load *l, struct str key, const void *value);

// load_tell records an event about an object.
void load_tell(struct load *l, const struct typed_object *about, struct str type,
               const char *reason, struct str text);

const struct load_failure *load_failure(const struct load *l, struct str key);

// load_pause finds or makes the pause of something of the workload under key.
struct load_pause *load_pause(struct load *l, struct str key, struct str what);

// --- Pods ----------------------------------------------------------------------------------------

// load_pod_of makes a pod of owner's template; the name is left to the caller. Shares with the
// template.
struct api_pod load_pod_of(const struct api_pod_template_spec *template, const struct load *l,
                           const struct typed_object *owner, struct arena *arena);

// load_generate_name makes the base of a generated name of an owner's pods.
struct str load_generate_name(struct str owner, struct arena *arena);

extern const struct load_event load_pod_created, load_pod_deleted;

// load_is_active: neither over nor being deleted.
bool load_is_active(const struct api_pod *pod);
bool load_is_ready(const struct api_pod *pod);

// load_is_available: ready for min_ready seconds. *wait_s gets the shortest time until one that is
// not yet will be, if that is less than what it holds.
bool load_is_available(const struct api_pod *pod, int32_t min_ready, int64_t now_s,
                       int64_t *wait_s);

// load_rank sorts active pods so that those to be deleted first stand first.
void load_rank(struct load_objects *pods);

// load_pod_has_condition: a condition of this type is True.
bool load_pod_has_condition(const struct api_pod *pod, struct str type);

// load_finish ends a step that wrote nothing: it comes back after wait_s seconds, INT64_MAX: when
// something changes.
void load_finish(struct load *l, struct str key, int64_t wait_s);

// load_not_negative: numbers of objects that an older server stored may be negative, and sums of
// them may be large. The result is the nearest number that a count can be.
static inline int32_t load_not_negative(int64_t number)
{
    return number < 0 ? 0 : number > INT32_MAX ? INT32_MAX : (int32_t)number;
}

// load_next is the number of the next revision.
static inline int64_t load_next(int64_t revision)
{
    return revision < INT64_MAX ? revision + 1 : revision;
}

// load_template_hash is a name for a template's content, in arena; collisions tells clashes apart.
struct str load_template_hash(const struct api_pod_template_spec *template, bool has_collisions,
                              int32_t collisions, struct arena *arena);

// --- Revisions of templates (DaemonSets, StatefulSets) -------------------------------------------

#define LOAD_REVISION_LABEL "controller-revision-hash"

// The newest revision of an object's template, and what else there is.
struct load_revisions {
    struct load_objects all; // sorted by number
    const struct typed_object
        *current;    // equal to the template; NULL: load_revision_sync has written
    struct str data; // of the template as it is
};

// load_revision_sync makes sure that the template has a revision with the highest number. True: a
// write is under way.
bool load_revision_sync(struct load *l, struct str key, const struct typed_object *o,
                        const struct api_pod_template_spec *template,
                        const struct api_label_selector *selector, struct arena *arena,
                        struct load_revisions *ret);

// load_revision_trim deletes the oldest revision above the limit that neither a pod nor keep uses.
bool load_revision_trim(struct load *l, struct str key, const struct typed_object *o,
                        const struct load_revisions *revisions, const struct load_objects *pods,
                        struct str keep, int32_t limit);

// load_revision_template gives the template of a revision; false when it cannot be read.
bool load_revision_template(const struct typed_object *revision, struct arena *arena,
                            struct api_pod_template_spec *ret);

struct str load_pod_revision(const struct api_pod *pod);

#endif
