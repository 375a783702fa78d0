// SPDX-License-Identifier: Apache-2.0
//
// Names of CDI: a kind is vendor/class, a device is vendor/class=name.
#ifndef CDI_NAME_H
#define CDI_NAME_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

// cdi_check_vendor, cdi_check_class, cdi_check_device: the rules of each part. Return 0 or
// -ERR_INVALID.
int cdi_check_vendor(struct str vendor, struct err *err) MUST_USE;
int cdi_check_class(struct str class, struct err *err) MUST_USE;
int cdi_check_device(struct str device, struct err *err) MUST_USE;

// cdi_kind_split cuts a kind at its first slash. False, with the whole as class, when it is not two
// parts.
bool cdi_kind_split(struct str kind, struct str *vendor, struct str *class);

// cdi_file_name adds the name, without extension, under which a vendor's spec of a class is kept;
// transient_id, if not empty, distinguishes specs that live as long as a container. Slashes in it
// become underscores.
void cdi_file_name(struct sbuf *out, struct str vendor, struct str class, struct str transient_id);

#endif
