// SPDX-License-Identifier: Apache-2.0
//
// A cluster in memory: the objects of a world on an API in memory, with the real controllers and
// the real scheduler on a clock of their own. Whatever they would do to a cluster, they do to this
// one. Private to src/plan.
#ifndef PLAN_SIM_SIM_H
#define PLAN_SIM_SIM_H

#include "api/features.h"
#include "base/exec.h"
#include "ctl/ctl.h"
#include "inproc/memory.h"
#include "plan/sim/plan_int.h"
#include "sched/sched.h"

// The time when the caller gives no clock.
#define SIM_FIXED_WALL_NS (INT64_C(1800000000) * CLOCK_NS_PER_SEC)

// A pod that a controller has deleted.
struct sim_eviction {
    const struct typed_object *pod; // referenced
    int64_t after_s;                // seconds after it started
};

// Why an object was not admitted, by the pod that needs it.
struct sim_refusals MAP(struct str);

struct sim {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *exec;
    struct features features;
    struct memory *memory;
    struct client *client;
    struct ctl *ctl;
    struct sched *sched;
    struct admission *admission; // made for the first new pod
    bool evicting;               // the controller of taints runs
    int64_t started_ns;          // and does since then
    struct VEC(struct sim_eviction) evictions;
    struct sim_refusals refusals; // by NAMESPACE/NAME
    struct VEC(struct str) schedulers;
    struct arena arena; // of refusals and names
    struct sim_limit {
        const struct clock *clock; // of the machine; NULL: no limit
        int64_t end_ns;            // on the monotonic clock
    } limit;
};

// sim_start makes an empty cluster whose time is wall_ns. features NULL: defaults of the newest
// release.
void sim_start(struct sim *s, const struct features *features, int64_t wall_ns);
void sim_end(struct sim *s);

// sim_load_world puts the world of a plan in, but for pods that are not in the cluster yet and
// those that leave_out selects. With leave_out, claims that are not in the cluster yet are left
// out, too: sim_admit_claim creates them. The plan's nodes are those that are there then.
// sim_load_rule puts in a taint rule; one that does not say since when is of now.
void sim_load_world(struct plan *p, struct sim *s, bool (*leave_out)(void *arg, struct str pod),
                    void *arg);
void sim_load_rule(struct sim *s, const struct api_device_taint_rule *rule);

// sim_put puts an object in, as it is. sim_admit_pod creates a pod as the server does, with
// admission and quotas. Returns 0, or a negative code; then the pod is not created and sim_refusal
// gives the reason. sim_apply_admission does only what admission does, to a pod in place; additions
// live in arena.
void sim_put(struct sim *s, const struct api_type *type, void *value);
int sim_apply_admission(struct sim *s, struct api_pod *pod, struct arena *arena,
                        struct sbuf *why) MUST_USE;
int sim_admit_pod(struct sim *s, const struct api_pod *pod) MUST_USE;
struct str sim_refusal(const struct sim *s, struct str pod);

// sim_admit_claim creates a claim as the server does, with quotas. A refusal is that of the name
// with SIM_CLAIM_KEY before it.
#define SIM_CLAIM_KEY "claim "
int sim_admit_claim(struct sim *s, struct api_resource_claim *claim) MUST_USE;

// sim_evict lets the controller of device taints evict whom it will within a year; evictions lists
// them.
void sim_evict(struct sim *s);

// sim_control starts the controllers of claims, quotas, volumes and DaemonSets. sim_schedule starts
// the scheduler, for pods of SIM_SCHEDULER and of all schedulers that pods without a node name.
#define SIM_SCHEDULER "default-scheduler"
void sim_control(struct sim *s);
void sim_schedule(struct sim *s, enum alloc_policy policy);

// sim_settle lets time pass until no component has anything to do, at most for so many seconds, or
// until the limit on the machine's time has passed: sim_is_late.
void sim_settle(struct sim *s, int64_t seconds);
bool sim_is_late(const struct sim *s);

// The stored object, or NULL. Good until something is written.
const struct typed_object *sim_pod(const struct sim *s, struct str namespace, struct str name);
const struct typed_object *sim_claim(const struct sim *s, struct str namespace, struct str name);

#endif
