// SPDX-License-Identifier: Apache-2.0
//
// What a DeviceTaintRule would do before it is made: which devices get the taint, whose pods would
// be evicted.
#ifndef PLAN_TAINT_H
#define PLAN_TAINT_H

#include "plan/inventory.h"

// A claim that holds a device of the rule.
struct taint_hit {
    uint32_t hold;    // in the inventory
    bool tolerates;   // no pod of the claim goes at once
    bool for_a_while; // one goes later
    int64_t seconds;  // until then
};

struct taint_effect {
    const struct api_device_taint_rule *rule;
    uint32_t *devices;
    size_t devices_len;
    struct taint_hit *hits; // one a claim
    size_t hits_len;
    bool evicts; // the effect is NoExecute
};

// taint_parse reads DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT, or the form with names. Returns 0 or
// -ERR_INVALID.
int taint_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
                struct err *err) MUST_USE;

struct taint_rules {
    struct api_device_taint_rule **p;
    size_t n;
};

// taint_find computes what each of the rules would do if all were made now; ret has room for them.
// It lives in arena. clock NULL: a fixed time.
void taint_find(const struct inventory *inv, const struct taint_rules *rules,
                const struct clock *clock, struct arena *arena, struct taint_effect *ret);

// taint_of_class makes rules for the devices of a class out of one without a selector: one for each
// driver all of whose devices are of the class, one a device for others. Returns 0, or
// -ERR_NOT_FOUND when no device is of it.
int taint_of_class(const struct inventory *inv, struct str class_name,
                   const struct api_device_taint *taint, struct arena *arena,
                   struct taint_rules *ret, struct err *err) MUST_USE;

// taint_rules_about finds rules by their name, or by the device, pool or driver they are about;
// taint_rules_like those with the selectors of other rules. Where the taint has a key, a value or
// an effect, only those with the same. The names live in the world's objects.
struct taint_names {
    struct str *p;
    size_t n;
};
void taint_rules_about(const struct inventory *inv, struct str word,
                       const struct api_device_taint *taint, struct arena *arena,
                       struct taint_names *ret);
void taint_rules_like(const struct inventory *inv, const struct taint_rules *like,
                      const struct api_device_taint *taint, struct arena *arena,
                      struct taint_names *ret);

// taint_selector makes DRIVER[/POOL[/DEVICE]] of a word: a driver, a driver and a pool, or any name
// of one device. Returns 0, -ERR_NOT_FOUND, or -ERR_INVALID when several devices are called so.
int taint_selector(const struct inventory *inv, struct str word, struct arena *arena,
                   struct str *ret, struct err *err) MUST_USE;

// taint_rule_name adds a name for a rule after its selector and key: the same for the same selector
// and key.
void taint_rule_name(const struct api_device_taint_rule *rule, struct sbuf *out);

#endif
