// SPDX-License-Identifier: Apache-2.0
//
// Errors as the public headers have them (include/dray/error.h).
#ifndef BASE_ERR_PUBLIC_H
#define BASE_ERR_PUBLIC_H

#include "base/err.h"
#include "dray/error.h"

// err_to_public fills a public error, which may be NULL. Returns -1.
int err_to_public(struct dray_error *to, const struct err *from);

#endif
