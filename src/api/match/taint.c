// SPDX-License-Identifier: Apache-2.0
//
// Taints of nodes, as Kubernetes judges them. Which toleration decides differs on purpose: any that
// matches lets a pod come, the first that matches bounds how long it may stay.
#include "api/match/taint.h"

#include "api/api.h"

#include "base/banned.h"

bool taint_is_hard(struct str effect)
{
    return str_eq(effect, STR(TAINT_NO_SCHEDULE)) || str_eq(effect, STR(TAINT_NO_EXECUTE));
}

bool taint_is_soft(struct str effect)
{
    return str_eq(effect, STR(TAINT_PREFER_NO_SCHEDULE));
}

bool taint_is_evicting(struct str effect)
{
    return str_eq(effect, STR(TAINT_NO_EXECUTE));
}

// Canonical: no plus sign, no zero in front, no minus zero. Stricter than the numbers of selectors.
static bool taint_number_read(struct str text, int64_t *ret)
{
    struct str digits = text.n && text.p[0] == '-' ? str_from(text, 1) : text;
    if (digits.n && digits.p[0] == '0' && text.n > 1)
        return false;
    return str_to_i64(text, ret) == 0;
}

static bool toleration_compares(const struct api_toleration *t, const struct api_taint *taint)
{
    int64_t have, bound;
    bool greater = str_eqz(t->operator, "Gt");
    if (!greater && !str_eqz(t->operator, "Lt"))
        return false;
    if (!taint_number_read(t->value, &bound) || !taint_number_read(taint->value, &have))
        return false;
    return greater ? have > bound : have < bound;
}

bool toleration_matches(const struct api_toleration *t, const struct api_taint *taint)
{
    if (t->effect.n && !str_eq(t->effect, taint->effect))
        return false;
    if (t->key.n && !str_eq(t->key, taint->key))
        return false;
    if (t->operator.n == 0 || str_eqz(t->operator, "Equal"))
        return str_eq(t->value, taint->value);
    return str_eqz(t->operator, TOLERATION_EXISTS) || toleration_compares(t, taint);
}

static const struct api_toleration *taint_first_toleration(const struct api_toleration_array *all,
                                                           const struct api_taint *taint)
{
    for (size_t i = 0; i < all->n; i++)
        if (toleration_matches(&all->p[i], taint))
            return &all->p[i];
    return NULL;
}

bool taint_is_tolerated(const struct api_toleration_array *all, const struct api_taint *taint)
{
    return taint_first_toleration(all, taint) != NULL;
}

const struct api_taint *taint_untolerated(const struct api_taint_array *taints,
                                          const struct api_toleration_array *all,
                                          bool (*counts)(struct str effect))
{
    for (size_t i = 0; i < taints->n; i++)
        if (counts(taints->p[i].effect) && !taint_is_tolerated(all, &taints->p[i]))
            return &taints->p[i];
    return NULL;
}

bool taint_evicts(const struct api_toleration_array *all, const struct api_taint *taint,
                  int64_t *ret_wait_s)
{
    const struct api_toleration *t = taint_first_toleration(all, taint);
    if (t && !t->has_toleration_seconds)
        return false;
    *ret_wait_s = t && t->toleration_seconds > 0 ? t->toleration_seconds : 0;
    return true;
}

bool toleration_names(const struct api_toleration_array *all, struct str key)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct api_toleration *t = &all->p[i];
        if ((t->key.n == 0 || str_eq(t->key, key)) &&
            (t->effect.n == 0 || taint_is_evicting(t->effect)))
            return true;
    }
    return false;
}

bool toleration_covers(const struct api_toleration *by, const struct api_toleration *t)
{
    bool exists = str_eqz(by->operator, TOLERATION_EXISTS);
    if (api_equal(&api_toleration_type, by, t))
        return true;
    if (!str_eq(t->key, by->key) && !(by->key.n == 0 && exists))
        return false;
    if (!str_eq(t->effect, by->effect) && by->effect.n)
        return false;
    if (taint_is_evicting(by->effect) && by->has_toleration_seconds &&
        (!t->has_toleration_seconds || t->toleration_seconds > by->toleration_seconds))
        return false;
    if (exists)
        return true;
    return (by->operator.n == 0 || str_eqz(by->operator, "Equal")) &&
           str_eqz(t->operator, "Equal") && str_eq(t->value, by->value);
}
