// SPDX-License-Identifier: Apache-2.0
//
// Private to cdi: a configuration being edited.
#ifndef CDI_APPLY_INT_H
#define CDI_APPLY_INT_H

#include "cdi/apply.h"

struct oci {
    yyjson_mut_doc *doc;
    const struct cdi_host *host;
    struct arena *arena;
    struct err *err;
};

// oci_object and oci_list find a member of an object, making it if it is missing or null. NULL,
// with the error set, when it is something else.
yyjson_mut_val *oci_object(struct oci *o, yyjson_mut_val *in, const char *key) MUST_USE;
yyjson_mut_val *oci_list(struct oci *o, yyjson_mut_val *in, const char *key) MUST_USE;

// oci_add_* put one more member into an object; empty texts and lists are left out.
void oci_add_text(struct oci *o, yyjson_mut_val *to, const char *key, struct str text);
void oci_add_int(struct oci *o, yyjson_mut_val *to, const char *key, int64_t number);
void oci_add_texts(struct oci *o, yyjson_mut_val *to, const char *key,
                   const struct cdi_texts *texts);

// oci_text is the text of a member, empty when it is missing or no text.
struct str oci_text(yyjson_mut_val *in, const char *key);

// oci_drop removes every item of a list of objects whose member is this text.
void oci_drop(yyjson_mut_val *list, const char *key, struct str text);

// oci_device_node and oci_mounts apply edits of these kinds. Return 0 or a negative code.
int oci_device_node(struct oci *o, const struct cdi_device_node *said) MUST_USE;
int oci_mounts(struct oci *o, const struct cdi_mounts *mounts) MUST_USE;

#endif
