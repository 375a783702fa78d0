// SPDX-License-Identifier: Apache-2.0
//
// What all public headers share. Functions that can fail return 0, or -1 with the error filled in;
// the error may be NULL. Texts are NUL-terminated UTF-8 unless a length is given.
#ifndef DRAY_ERROR_H
#define DRAY_ERROR_H

#define DRAY_API __attribute__((visibility("default")))

struct dray_error {
    char field[256]; // path of the field that is wrong, or empty
    char message[512];
};

#endif
