// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' rules about taints of devices: which devices a rule taints, which tolerations of a
// claim count when devices are chosen, and which when pods are evicted. The one place of these
// rules: the allocator, the eviction controller and predictions of both use it. It knows neither
// clocks nor caches.
#ifndef API_MATCH_DEVICE_TAINT_H
#define API_MATCH_DEVICE_TAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"

// device_toleration_matches: a toleration is for a taint. An empty effect or key matches all; the
// operator is Exists, or Equal, which is also the empty one; an unknown operator matches nothing.
bool device_toleration_matches(const struct api_device_toleration *t,
                               const struct api_device_taint *taint);

// device_taint_is_tolerated: one of the tolerations is for the taint. This is the question when a
// device is chosen; the caller knows which effects keep a claim away.
bool device_taint_is_tolerated(const struct api_device_toleration_array *all,
                               const struct api_device_taint *taint);

// device_taint_evicts: with these tolerations of an allocated device, a taint with the effect
// NoExecute sends pods away, *ret_wait_s seconds after it was added. Only tolerations that name the
// effect NoExecute count, other than when a device is chosen; the shortest time of those that match
// counts. The taint's own effect is not looked at: the caller asks about one with NoExecute, or as
// if it had that.
bool device_taint_evicts(const struct api_device_toleration_array *all,
                         const struct api_device_taint *taint, int64_t *ret_wait_s);

// device_taint_selects: a rule's selector is for a device; device NULL: possibly for one of the
// pool. No selector (NULL) is for none.
bool device_taint_selects(const struct api_device_taint_selector *s, struct str driver,
                          struct str pool, const struct str *device);

#endif
