// SPDX-License-Identifier: Apache-2.0
//
// The data directory of a server: its checks before a start, and the record of what was in it.
#ifndef CMD_RUN_DATA_DIR_H
#define CMD_RUN_DATA_DIR_H

#include <stdbool.h>

#include "base/err.h"

// data_dir_path is DIR/NAME, on the heap.
char *data_dir_path(const char *dir, const char *name);

// data_dir_prepare makes the directory, or checks that only its owner may write to it.
int data_dir_prepare(const char *dir, struct err *err) MUST_USE;

// data_dir_note_keys records in DIR/pki.mark which keys exist. data_dir_check_keys refuses a
// directory whose keys are missing, since new ones invalidate every certificate and token; with
// salvage it records that they are created again.
int data_dir_note_keys(const char *dir, struct err *err) MUST_USE;
int data_dir_check_keys(const char *dir, bool salvage, struct err *err) MUST_USE;

// data_dir_note_salvage logs a finding and adds it to DIR/salvage.log; dir is a string.
void data_dir_note_salvage(void *dir, const char *finding);

#endif
