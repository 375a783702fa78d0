// SPDX-License-Identifier: Apache-2.0
//
// Shared between the parts that write a container's configuration.
#ifndef NODE_OCI_OCI_INT_H
#define NODE_OCI_OCI_INT_H

#include "base/vec.h"
#include "codec/json_writer.h"
#include "node/oci/oci.h"

struct oci_caps VEC(struct str); // "CAP_…"

bool oci_caps_have(const struct oci_caps *caps, struct str name);

// oci_caps_make: the default ones, what is added, less what is dropped; all for a privileged
// container.
int oci_caps_make(const struct runtime_security *s, struct arena *arena, struct oci_caps *ret,
                  struct err *err) MUST_USE;

void oci_write_seccomp(struct json_writer *w, const struct oci_caps *caps);

// oci_make_seccomp makes the object "seccomp"; nothing when there is none.
int oci_make_seccomp(const struct oci_options *o, const struct oci_caps *caps, struct sbuf *out,
                     struct err *err) MUST_USE;

// oci_write_mounts writes the list "mounts"; oci_write_linux the object "linux", with a seccomp
// object or none.
int oci_write_mounts(struct json_writer *w, const struct oci_options *o, struct arena *arena,
                     struct err *err) MUST_USE;
void oci_write_linux(struct json_writer *w, const struct oci_options *o, struct str seccomp);

// oci_path_check refuses a path in a container that is not absolute or has "..".
int oci_path_check(struct str path, const char *what, struct err *err) MUST_USE;

#endif
