// SPDX-License-Identifier: Apache-2.0
//
// A question as read from its claims, with all that upstream checks before its search, and what the
// devices of a view answer to it. It is filled in as the search gets there.
#ifndef ALLOC_MODEL_PROBLEM_INT_H
#define ALLOC_MODEL_PROBLEM_INT_H

#include "alloc/model/view_int.h"

// Requests with the same class and selectors share what is known about devices.
struct selset {
    const struct cl_class *class_;
    const struct api_device_selector_array *selectors;
    struct cel_program **programs; // fetched when first needed
    size_t programs_len;           // the claims may be gone when the programs are dropped
    bool *tried;                   // fetched, or failed to compile
    struct answer_set **answers;   // parallel to programs; NULL: none are kept
    bool *asked;                   // for answers
    uint8_t *match;                // enum match_state by device
    bool class_only;
};

// Distinct capacity requests; 0 is "none", which the view has answered already.
struct asked_amount {
    amount value;
    int64_t whole, milli; // the same in units, -1 when it is not a number of them
};

struct capreq {
    const struct api_capacity_requirements *api;
    struct asked_amount *asked; // parallel to api->requests
    uint8_t *state;             // enum need_state by device
    amount *need;               // parallel to view.caps
};

// A column holds the values of one attribute, published or derived, by device.
struct column {
    struct str name;
    struct str expression; // empty: published
    struct cel_program *program;
    struct attr_value *values;
};

struct constraint {
    struct str attribute;
    const struct api_str_array *requests;
    bool distinct;
};

// A request, or one alternative of it.
struct alternative {
    struct str name;      // short
    struct str full_name; // request or request/alternative
    const struct cl_class *class_;
    const struct api_device_selector_array *selectors;
    const struct api_device_toleration_array *tolerations;
    const struct api_capacity_requirements *capacity;
    const struct api_device_derived_attribute_array *derived;
    uint32_t *all;     // mode All: the devices
    uint32_t *columns; // by constraint of the claim: column, UINT32_MAX when out of scope
    uint32_t selset;
    uint32_t capreq;
    uint32_t claim;
    uint32_t request; // flat index
    int64_t count;
    bool mode_all;
    bool admin;
};

struct request {
    uint32_t claim;
    uint32_t first; // alternative
    uint32_t n;
    bool has_alternatives;
    bool claim_ends; // the next request is of another claim
};

struct claim {
    const struct api_resource_claim *api;
    uint32_t first_request; // flat
    uint32_t requests_len;
    uint32_t first_constraint;
    uint32_t constraints_len;
};

// A question, flat: claims have requests, requests have alternatives.
struct problem {
    struct claim *claims;
    size_t claims_len;
    struct request *requests;
    size_t requests_len;
    struct alternative *alternatives;
    size_t alternatives_len;
    struct constraint *constraints;
    size_t constraints_len;
    struct selset *selsets;
    size_t selsets_len;
    struct capreq *capreqs;
    size_t capreqs_len;
    struct column *columns;
    size_t columns_len;
    struct value_ids local_values; // values that only derived attributes have
    bool any_admin;
};

struct alloc_solver;

// problem_build reads the claims: everything upstream checks before its search. False with
// s->error set when it refuses.
bool problem_build(struct alloc_solver *s, const struct api_resource_claim *const *claims,
                   size_t claims_len);

// select_match reports whether a device is selectable for an alternative (MATCH_*); on MATCH_ERROR
// the reason can be had from select_error.
enum match_state select_match(struct alloc_solver *s, const struct alternative *a, uint32_t device);
void select_error(struct alloc_solver *s, const struct alternative *a, uint32_t device);

// capacity_need_of computes what an alternative would take of a device (NEED_*).
enum need_state capacity_need_of(struct alloc_solver *s, const struct alternative *a,
                                 uint32_t device);

// capacity_need_error writes why, behind "claim …, request …: checking capacity for device …: ".
void capacity_need_error(struct alloc_solver *s, const struct alternative *a, uint32_t device,
                         bool short_name);

// capacity_need computes all amounts of a device for a request.
enum need_state capacity_need(const struct api_device *device,
                              const struct api_capacity_requirements *request, bool fractional,
                              amount *ret_need, struct arena *arena, struct err *err);

// capacity_rounding fills in how a capacity's policy rounds.
void capacity_rounding(struct vw_cap *c, bool fractional);

// capacity_asked converts the amounts of a request once; ret has room for each.
void capacity_asked(const struct api_capacity_requirements *r, struct asked_amount *ret);

// capacity_taken sets *ret, a zero, to what a placed alternative takes of a capacity.
void capacity_taken(struct alloc_solver *s, const struct alternative *a, uint32_t cap,
                    struct quantity *ret);

// attr_column_value is the value of an attribute of a device, looked up once.
const struct attr_value *attr_column_value(struct alloc_solver *s, uint32_t column,
                                           uint32_t device);
void attr_column_error(struct alloc_solver *s, uint32_t column, uint32_t device);

// select_refusing_taint is the first of a device's taints that keeps an alternative from having it,
// or NULL.
const struct api_device_taint *select_refusing_taint(const struct cl_device *d,
                                                     const struct api_device_toleration_array *t);

// select_tolerates reports whether a device's taints let an alternative have it.
bool select_tolerates(const struct cl_device *d, const struct api_device_toleration_array *t);

// result_build makes the answer of the picks. False with s->error set.
bool result_build(struct alloc_solver *s, struct alloc_answer *ret);

#endif
