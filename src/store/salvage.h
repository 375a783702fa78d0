// SPDX-License-Identifier: Apache-2.0
//
// Salvage of a damaged database, private to the store: everything that can be read moves into a new
// one; the old one is set aside.
#ifndef STORE_SALVAGE_H
#define STORE_SALVAGE_H

#include "store/store.h"

// salvage_database replaces the database of options by one with all rows that can be read and whose
// checksum is right, and keeps the old one as DATABASE.damaged. Revisions continue beyond all that
// may have been used. options->salvage is called for each finding. Returns 0, -ERR_INVALID (of
// another program or a newer format) or another code; then nothing has changed.
int salvage_database(const struct store_options *options, struct err *err) MUST_USE;

#endif
