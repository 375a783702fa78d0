// SPDX-License-Identifier: Apache-2.0
//
// Validation of Kubernetes objects, as kube-apiserver does it when they are created: the same
// fields, reasons and messages. No server is needed. Part of libdray.
//
//     dray_validator_new(NULL, &validator, &err);
//     dray_validate(validator, yaml, strlen(yaml), on_problem, arg, &err);   0 good, 1 problems
//
// A validator is for one thread at a time. Custom resources are not known here.
#ifndef DRAY_VALIDATE_H
#define DRAY_VALIDATE_H

#include <dray/error.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dray_validator;

struct dray_validate_options {
    const char *release;       // "1.34": validate as this release; NULL: the newest known
    const char *feature_gates; // "A=true,B=false"; NULL: the defaults of the release
    bool no_admin_access;      // namespaces do not carry the label for admin access
};

// A problem of an object. Its texts are valid until the callback returns.
struct dray_problem {
    size_t line;         // in the text; 0: unknown
    const char *kind;    // of the object, as in its text; may be empty
    const char *name;    // likewise
    const char *field;   // spec.devices.requests[0].name; may be empty
    const char *reason;  // FieldValueInvalid, BadRequest, …
    const char *message; // Kubernetes' own
};

typedef void (*dray_problem_fn)(void *arg, const struct dray_problem *problem);

// dray_validator_new makes a validator; options may be NULL. Free it with dray_validator_free.
DRAY_API int dray_validator_new(const struct dray_validate_options *options,
                                struct dray_validator **ret, struct dray_error *err);
DRAY_API void dray_validator_free(struct dray_validator *v);

// dray_validate reads the objects of a text, YAML or JSON, several documents and Lists too, and
// calls fn for each problem. Returns 0 when there is none, 1 when there are some, or -1 when the
// text is neither YAML nor JSON; objects before the mistake have been validated then.
DRAY_API int dray_validate(struct dray_validator *v, const char *text, size_t len,
                           dray_problem_fn fn, void *arg, struct dray_error *err);

#ifdef __cplusplus
}
#endif
#endif
