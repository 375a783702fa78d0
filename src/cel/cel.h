// SPDX-License-Identifier: Apache-2.0
//
// The Common Expression Language as Kubernetes' Dynamic Resource Allocation speaks it.
//
//   env      = cel_env_new(&options)            which variables and functions exist
//   program  = cel_compile(env, text, …)        parse, check, estimate; immutable, shared by
//   threads device   = cel_device_new(shapes, input, …) converted once run      = cel_run_new()
//   working memory of one thread cel_eval_device(run, program, device, &result) cel_eval_batch(run,
//   program, devices, n, bits, …)
//
// A program may be evaluated by many threads at once, each with a run of its own.
#ifndef CEL_CEL_H
#define CEL_CEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct cel_env;
struct cel_program;
struct cel_device;
struct cel_shapes;
struct cel_run;
struct cel_cache;
struct cel_type;
struct cel_val;
struct cel_function;

enum cel_env_kind {
    CEL_ENV_DRA,     // variable `device`, result bool: selectors
    CEL_ENV_DERIVED, // variable `device`, result a scalar or list: derived attributes
    CEL_ENV_GENERIC, // plain CEL with all libraries; variables and functions are the caller's
};

struct cel_env_options {
    enum cel_env_kind kind;
    bool new_expressions;     // rules for new API objects; else for stored ones, which know all
    unsigned compat_minor;    // new expressions: compatibility version 1.x; 0: the default, 36
    bool consumable_capacity; // feature gates; they matter for new expressions
    bool list_type_attributes;
    bool any_result; // do not check the result's type
    bool no_macros;
    bool no_check;        // generic only: run without a type check
    struct str container; // generic only
};

// cel_env_new makes an environment; free it with cel_env_free. Programs outlive it.
struct cel_env *cel_env_new(const struct cel_env_options *options);
void cel_env_free(struct cel_env *env);

// cel_env_add_variable declares a variable; the type must live in cel_env_arena or be constant.
void cel_env_add_variable(struct cel_env *env, struct str name, const struct cel_type *type);

// Types with named fields, for variables of the caller's: their values are maps by name.
// cel_struct_type makes the type; the environment that knows the fields is told with
// cel_env_set_structs, whose list must outlive it.
struct cel_struct_field {
    struct str name;
    const struct cel_type *type;
};

struct cel_struct {
    struct str name;
    const struct cel_struct_field *fields;
    size_t fields_len;
};

const struct cel_type *cel_struct_type(struct arena *a, struct str name);
void cel_env_set_structs(struct cel_env *env, const struct cel_struct *structs, size_t n);

// cel_env_add_function declares a function with room for so many overloads of the caller's.
struct cel_function *cel_env_add_function(struct cel_env *env, struct str name, size_t overloads);
void cel_env_add_overload(struct cel_function *f, struct str id, bool member,
                          const struct cel_type *const *args, size_t n,
                          const struct cel_type *result);
struct arena *cel_env_arena(struct cel_env *env);

// cel_compile compiles an expression of any length up to the parser's limit. Returns 0,
// -ERR_INVALID (the text is wrong) or -ERR_INTERNAL (upstream's "program instantiation failed").
// issues, if not NULL, gets the whole text of what is wrong; err as much of it as fits.
int cel_compile(const struct cel_env *env, struct str text, struct cel_program **ret,
                struct sbuf *issues, struct err *err) MUST_USE;

// What compiling several expressions, such as those of a request, has taken, in bytes of their
// text; instructions of regular expressions count as some bytes. A byte takes some 50 ns. Zeroed to
// begin with.
struct cel_spending {
    uint64_t spent;
    bool refused; // CEL_SPENDING_MAX is exceeded: nothing more is compiled
};
#define CEL_SPENDING_MAX             ((uint64_t)600 * 1024)
#define CEL_SPENDING_PER_INSTRUCTION 8
extern const char cel_spending_refusal[];

// cel_compile_within is cel_compile that stops with -ERR_INVALID and spending->refused once too
// much is spent. spending may be NULL.
int cel_compile_within(const struct cel_env *env, struct str text, struct cel_spending *spending,
                       struct cel_program **ret, struct sbuf *issues, struct err *err) MUST_USE;

// A program is counted: cel_program_ref adds an owner, cel_program_free drops one.
struct cel_program *cel_program_ref(struct cel_program *p);
void cel_program_free(struct cel_program *p);

// What the compiler found out: the estimate of upstream's cost and the result's type.
uint64_t cel_program_min_cost(const struct cel_program *p);
uint64_t cel_program_max_cost(const struct cel_program *p);
const struct cel_type *cel_program_type(const struct cel_program *p);
struct str cel_program_source(const struct cel_program *p);

// cel_program_uses says whether a variable occurs.
bool cel_program_uses(const struct cel_program *p, struct str variable);

// cel_program_reads calls fn for what an evaluation may read of a device beside its driver and
// capacities: an attribute, or all of a domain (name empty). False: it may read anything, fn has
// not been called.
bool cel_program_reads(const struct cel_program *p,
                       void (*fn)(void *arg, struct str domain, struct str name), void *arg);

// cel_program_runnable is false when a function without implementation is called.
bool cel_program_runnable(const struct cel_program *p);

// Shapes are shared layouts of devices: devices with the same attribute names have one shape. The
// owner frees them after all devices made with them. Making devices is for one thread at a time.
struct cel_shapes *cel_shapes_new(void);
void cel_shapes_free(struct cel_shapes *s);

enum cel_attr_kind {
    CEL_ATTR_NONE, // no value set: every evaluation of this device fails
    CEL_ATTR_INT,
    CEL_ATTR_BOOL,
    CEL_ATTR_STRING,
    CEL_ATTR_VERSION,
};

struct cel_attr_input {
    struct str name; // "id" or "domain/id"
    enum cel_attr_kind kind;
    bool list;
    size_t count; // 1 for a scalar
    union {
        const int64_t *ints;
        const bool *bools;
        const struct str *strings; // also versions
    };
};

struct cel_capacity_input {
    struct str name;
    struct str quantity;
};

struct cel_device_input {
    struct str driver;
    bool allow_multiple_allocations;
    const struct cel_attr_input *attributes;
    size_t attribute_count;
    const struct cel_capacity_input *capacities;
    size_t capacity_count;
};

// cel_device_new converts a device. It lives until cel_device_free; shapes must live longer.
// Returns 0 or -ERR_INVALID for a capacity that is no quantity. A version that is none is no error
// here: it makes every evaluation on this device fail, as upstream.
int cel_device_new(struct cel_shapes *shapes, const struct cel_device_input *input,
                   struct cel_device **ret, struct err *err) MUST_USE;
void cel_device_free(struct cel_device *d);

// A run is the working memory of one evaluating thread.
struct cel_run *cel_run_new(void);
void cel_run_free(struct cel_run *run);

// cel_run_set_limit changes the cost limit (default DRAY_CEL_COST_MAX).
void cel_run_set_limit(struct cel_run *run, uint64_t limit);

// cel_run_set_cancel: evaluation stops with "operation interrupted" soon after *flag gets true.
void cel_run_set_cancel(struct cel_run *run, const volatile bool *flag);

struct cel_result {
    bool match;       // the value is the bool true
    bool failed;      // error holds why
    bool missing_key; // the error is upstream's "no such key"
    uint64_t cost;
    uint64_t work;               // values and pieces of text handled beside; bounded as well
    uint32_t error_pos;          // code points from the start of the source; UINT32_MAX: unknown
    struct str error;            // valid until the next evaluation with the same run
    const struct cel_val *value; // likewise; NULL when failed
};

// cel_eval_device evaluates a selector: a value that is no bool is an error. Returns whether the
// device matches.
bool cel_eval_device(struct cel_run *run, const struct cel_program *p, const struct cel_device *d,
                     struct cel_result *ret);

// cel_eval_value evaluates for any value; d may be NULL. vars are the declared variables' values in
// the order of declaration (generic environments), NULL entries are unset.
void cel_eval_value(struct cel_run *run, const struct cel_program *p, const struct cel_device *d,
                    const struct cel_val *const *vars, struct cel_result *ret);

// cel_eval_batch evaluates a selector on n devices: bit i of match says device i matches, bit i of
// failed (may be NULL) that it could not be evaluated. Both have room for n bits and are cleared
// first. Returns how many matched; *ret_failed counts failures.
size_t cel_eval_batch(struct cel_run *run, const struct cel_program *p,
                      const struct cel_device *const *devices, size_t n, uint64_t *match,
                      uint64_t *failed, size_t *ret_failed);

// A bounded cache of programs by environment and expression, safe for threads. Errors are not
// kept. The environments must outlive the cache.
struct cel_cache *cel_cache_new(size_t capacity);
void cel_cache_free(struct cel_cache *c);

// cel_cache_get compiles or finds. The caller owns a reference to *ret.
int cel_cache_get(struct cel_cache *c, const struct cel_env *env, struct str text,
                  struct cel_program **ret, struct sbuf *issues, struct err *err) MUST_USE;

// Time zones: evaluation itself does no I/O, so the bytes of a zone file (TZif) come from a reader
// set once at start. Without one only UTC and fixed offsets are known. Zones are kept once read.
typedef bool (*cel_zone_reader)(struct str name, struct sbuf *out);
void cel_set_zone_reader(cel_zone_reader reader);

#endif
