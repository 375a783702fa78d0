// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' rules about taints of nodes and tolerations of pods. The one place of these rules:
// the scheduler, the agent's admission, DaemonSets, the eviction controller and the server's
// admission use it. It knows neither clocks nor caches. The effects' names also are those of
// devices' taints (device_taint.h).
#ifndef API_MATCH_TAINT_H
#define API_MATCH_TAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"

#define TAINT_NO_SCHEDULE        "NoSchedule"
#define TAINT_PREFER_NO_SCHEDULE "PreferNoSchedule"
#define TAINT_NO_EXECUTE         "NoExecute"

#define TOLERATION_EXISTS "Exists"

// taint_is_hard: the effect keeps new pods away, NoSchedule or NoExecute. taint_is_soft: it only
// makes a node worse. taint_is_evicting: it sends pods away.
bool taint_is_hard(struct str effect);
bool taint_is_soft(struct str effect);
bool taint_is_evicting(struct str effect);

// toleration_matches: a toleration is for a taint. An empty effect or key matches all; the operator
// is Exists, Gt, Lt, or Equal, which is also the empty one; an unknown operator matches nothing. Gt
// and Lt compare the taint's value with the toleration's, both canonical decimal integers; a server
// whose gate for them is off lets no pod have them.
bool toleration_matches(const struct api_toleration *t, const struct api_taint *taint);

// taint_is_tolerated: one of the tolerations is for the taint.
bool taint_is_tolerated(const struct api_toleration_array *all, const struct api_taint *taint);

// taint_untolerated is the first taint with such an effect that no toleration is for, NULL when
// there is none.
const struct api_taint *taint_untolerated(const struct api_taint_array *taints,
                                          const struct api_toleration_array *all,
                                          bool (*counts)(struct str effect));

// taint_evicts: a taint with the effect NoExecute sends pods with these tolerations away,
// *ret_wait_s seconds after it was added. The first toleration that matches decides, also where a
// later one gives less time.
bool taint_evicts(const struct api_toleration_array *all, const struct api_taint *taint,
                  int64_t *ret_wait_s);

// toleration_names: a toleration speaks of the key and the effect NoExecute, or of all, whatever
// its operator and value. Admission thus detects pods that set their own toleration seconds.
bool toleration_names(const struct api_toleration_array *all, struct str key);

// toleration_covers: whatever t tolerates, by tolerates as well.
bool toleration_covers(const struct api_toleration *by, const struct api_toleration *t);

#endif
