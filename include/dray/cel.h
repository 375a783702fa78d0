// SPDX-License-Identifier: Apache-2.0
//
// The Common Expression Language as selectors of Dynamic Resource Allocation use it: the variable
// `device`, Kubernetes' libraries, its cost estimates and limits. Part of libdray.
//
//     dray_cel_compile("device.driver == 'gpu.example.com'", NULL, &program, &err);
//     dray_devices_read(yaml, strlen(yaml), &devices, &err);          devices of ResourceSlices
//     dray_cel_eval(program, devices, i, &result);                    does it match?
//     dray_cel_result_done(&result);
//
// A program is immutable: threads may share it. Devices are for one thread at a time.
#ifndef DRAY_CEL_H
#define DRAY_CEL_H

#include <dray/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dray_cel;
struct dray_devices;

struct dray_cel_options {
    bool any_type;        // the result may be of any type; else it must be a bool, as a selector's
    bool new_expressions; // rules for expressions in new objects; else those for stored ones
};

// dray_cel_compile compiles an expression; options may be NULL. The error's message is what
// kube-apiserver prints, cut to its size. Free the program with dray_cel_free.
DRAY_API int dray_cel_compile(const char *expression, const struct dray_cel_options *options,
                              struct dray_cel **ret, struct dray_error *err);
DRAY_API void dray_cel_free(struct dray_cel *p);

// What the compiler found out; type lives as long as the program.
struct dray_cel_info {
    const char *type;
    uint64_t min_cost; // Kubernetes' estimate
    uint64_t max_cost; // UINT64_MAX: unbounded
};
DRAY_API struct dray_cel_info dray_cel_info(const struct dray_cel *p);

// dray_devices_read reads the devices of all ResourceSlices in a text, YAML or JSON, several
// documents and Lists too; objects of other kinds are skipped. Free them with dray_devices_free.
DRAY_API int dray_devices_read(const char *text, size_t len, struct dray_devices **ret,
                               struct dray_error *err);
DRAY_API void dray_devices_free(struct dray_devices *d);
DRAY_API size_t dray_devices_len(const struct dray_devices *d);

// dray_devices_name is DRIVER/POOL/DEVICE; it lives as long as the devices. i < dray_devices_len.
DRAY_API const char *dray_devices_name(const struct dray_devices *d, size_t i);

struct dray_cel_result {
    bool match;    // the value is the bool true
    bool failed;   // text has the reason
    uint64_t cost; // what the evaluation cost
    char *text;    // the value, or the error
};

// dray_cel_eval evaluates a program on device i < dray_devices_len. End with dray_cel_result_done.
DRAY_API void dray_cel_eval(const struct dray_cel *p, struct dray_devices *d, size_t i,
                            struct dray_cel_result *ret);
DRAY_API void dray_cel_result_done(struct dray_cel_result *r);

#ifdef __cplusplus
}
#endif
#endif
