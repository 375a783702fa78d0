// SPDX-License-Identifier: Apache-2.0
//
// Taints of devices, as Kubernetes evaluates them. Choosing a device and evicting from it differ on
// purpose: a toleration without an effect lets a claim have a tainted device, but does not keep its
// pod there.
#include "api/match/device_taint.h"

#include "api/match/taint.h"

#include "base/banned.h"

bool device_toleration_matches(const struct api_device_toleration *t,
                               const struct api_device_taint *taint)
{
    if (t->effect.n && !str_eq(t->effect, taint->effect))
        return false;
    if (t->key.n && !str_eq(t->key, taint->key))
        return false;
    if (t->operator.n == 0 || str_eqz(t->operator, "Equal"))
        return str_eq(t->value, taint->value);
    return str_eqz(t->operator, TOLERATION_EXISTS);
}

bool device_taint_is_tolerated(const struct api_device_toleration_array *all,
                               const struct api_device_taint *taint)
{
    for (size_t i = 0; i < all->n; i++)
        if (device_toleration_matches(&all->p[i], taint))
            return true;
    return false;
}

bool device_taint_evicts(const struct api_device_toleration_array *all,
                         const struct api_device_taint *taint, int64_t *ret_wait_s)
{
    struct api_device_taint evicting = *taint;
    bool is_limited = false;
    int64_t wait_s = 0;
    evicting.effect = STR(TAINT_NO_EXECUTE);
    for (size_t i = 0; i < all->n; i++) {
        const struct api_device_toleration *t = &all->p[i];
        if (!taint_is_evicting(t->effect) || !device_toleration_matches(t, &evicting))
            continue;
        if (!t->has_toleration_seconds)
            return false;
        int64_t seconds = t->toleration_seconds > 0 ? t->toleration_seconds : 0;
        wait_s = is_limited && wait_s < seconds ? wait_s : seconds;
        is_limited = true;
    }
    *ret_wait_s = wait_s;
    return true;
}

bool device_taint_selects(const struct api_device_taint_selector *s, struct str driver,
                          struct str pool, const struct str *device)
{
    return s && (!s->has_driver || str_eq(s->driver, driver)) &&
           (!s->has_pool || str_eq(s->pool, pool)) &&
           (!device || !s->has_device || str_eq(s->device, *device));
}
