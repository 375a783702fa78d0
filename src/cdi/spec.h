// SPDX-License-Identifier: Apache-2.0
//
// CDI specs as data: a file under /etc/cdi or /var/run/cdi, read from YAML or JSON, checked
// by the rules of the Container Device Interface 1.1.0 and written again. Texts are slices; a spec
// that was read owns them, one that a caller puts together borrows them. An empty text, a zero
// number and an empty list mean that a field is not there, as upstream has it, save where a pointer
// or `set` marks its presence.
#ifndef CDI_SPEC_H
#define CDI_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "codec/json_writer.h"

#define CDI_VERSION          "1.1.0"           // newest that is understood
#define CDI_SPEC_BYTES_MAX   ((size_t)2 << 20) // of one file
#define CDI_PROBLEMS_MAX     100               // reported for one spec
#define CDI_BARE_SCALARS_MAX 256               // numbers and booleans where a text is meant
#define CDI_STATIC_DIR       "/etc/cdi"        // what an administrator or a package puts there
#define CDI_DYNAMIC_DIR      "/var/run/cdi"    // what drivers make while they run; wins
#define CDI_NO_PERMISSIONS   "none"            // of a device node: no access through the cgroup

struct cdi_texts VEC(struct str); // p is NULL when the list is not there at all

struct cdi_opt_u32 {
    bool set;
    uint32_t value;
};

struct cdi_opt_i64 {
    bool set;
    int64_t value;
};

struct cdi_pair {
    struct str key, value;
};
struct cdi_pairs VEC(struct cdi_pair);

struct cdi_device_node {
    struct str path;      // in the container
    struct str host_path; // where it differs
    struct str type;      // b, c, u, p, or empty: as on the host
    int64_t major, minor; // major 0: as on the host
    struct cdi_opt_u32 file_mode;
    struct str permissions; // of r, w, m; empty: all; CDI_NO_PERMISSIONS
    struct cdi_opt_u32 uid, gid;
};
struct cdi_device_nodes VEC(struct cdi_device_node);

struct cdi_net_device {
    struct str host_interface_name;
    struct str name; // in the container
};
struct cdi_net_devices VEC(struct cdi_net_device);

struct cdi_hook {
    struct str hook_name; // the stage: prestart, createRuntime, ...
    struct str path;
    struct cdi_texts args, env;
    struct cdi_opt_i64 timeout;
};
struct cdi_hooks VEC(struct cdi_hook);

struct cdi_mount {
    struct str host_path, container_path;
    struct cdi_texts options;
    struct str type;
};
struct cdi_mounts VEC(struct cdi_mount);

struct cdi_intel_rdt {
    struct str clos_id, l3_cache_schema, mem_bw_schema;
    struct cdi_texts schemata;
    bool enable_monitoring;
};

struct cdi_gids VEC(uint32_t);

// struct cdi_edits: what a device, or a spec for all its devices, changes in a container.
struct cdi_edits {
    struct cdi_texts env;
    struct cdi_device_nodes device_nodes;
    struct cdi_net_devices net_devices;
    struct cdi_hooks hooks;
    struct cdi_mounts mounts;
    struct cdi_intel_rdt *intel_rdt; // NULL: none
    struct cdi_gids additional_gids;
};

struct cdi_device {
    struct str name;
    struct cdi_pairs annotations;
    struct cdi_edits edits;
};
struct cdi_devices VEC(struct cdi_device);

struct cdi_spec {
    struct str version;
    struct str kind; // vendor/class
    struct cdi_pairs annotations;
    struct cdi_devices devices;
    struct cdi_edits edits;
};

// Problems of a spec: each with the path of its field and, for one that was read, its place.
struct cdi_problems VEC(struct err);

// cdi_spec_parse reads a spec from YAML or JSON into arena; of several YAML documents the first, as
// upstream. Unknown fields, repeated fields and wrong types are errors. Returns 0, or
// -ERR_BAD_REQUEST or -ERR_TOO_LARGE with path and place. It does not judge the values.
int cdi_spec_parse(struct str text, struct arena *arena, struct cdi_spec **ret,
                   struct err *err) MUST_USE;

// cdi_spec_validate adds what breaks a rule to out, at most CDI_PROBLEMS_MAX. Returns how many.
size_t cdi_spec_validate(const struct cdi_spec *spec, struct cdi_problems *out);

// cdi_spec_check is cdi_spec_validate, with the first problem only. Returns 0 or
// -ERR_INVALID.
int cdi_spec_check(const struct cdi_spec *spec, struct err *err) MUST_USE;

// cdi_spec_load is cdi_spec_parse and cdi_spec_validate; problems of both kinds are added to out,
// with places. *ret is set only on success. Returns 0 or the code of the first problem.
int cdi_spec_load(struct str text, struct arena *arena, struct cdi_spec **ret,
                  struct cdi_problems *out) MUST_USE;

// cdi_spec_read_file adds a spec file to out. Returns 0, -ERR_TOO_LARGE, -ERR_INVALID (not a
// regular file) or -errno.
int cdi_spec_read_file(const char *path, struct sbuf *out, struct err *err) MUST_USE;

// cdi_spec_min_version is the oldest version that has everything this spec uses. Static storage.
const char *cdi_spec_min_version(const struct cdi_spec *spec);

// cdi_edits_are_empty: the edits change nothing.
bool cdi_edits_are_empty(const struct cdi_edits *edits);

// cdi_edits_append adds the edits of from behind those of to, whose lists live in arena; of two RDT
// settings the later one stays. The items are shared.
void cdi_edits_append(struct cdi_edits *to, const struct cdi_edits *from, struct arena *arena);

// cdi_write_*: as JSON, fields in upstream's order, those that are not there left out.
void cdi_write_spec(struct json_writer *w, const struct cdi_spec *spec);
void cdi_write_device(struct json_writer *w, const struct cdi_device *device);
void cdi_write_edits(struct json_writer *w, const struct cdi_edits *edits);

#endif
