// SPDX-License-Identifier: Apache-2.0
//
// Replacing the CA of a server in three steps, while everything runs: trust a new one beside the
// old, sign with the new one, forget the old. The files themselves are the state: ca.crt holds the
// certificates that are trusted, that which signs first; ca.key holds their keys, the older first.
// Each step replaces ca.crt once, with the keys that it needs written before and those it no longer
// needs removed after, so that a crash at any point leaves a pair that a start can use.
#ifndef PKI_CA_ROTATION_H
#define PKI_CA_ROTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum ca_phase {
    CA_SINGLE,  // one CA
    CA_TRUSTED, // a new one is trusted, the old one signs
    CA_ISSUING, // the new one signs, the old one is still trusted
};

// ca_rotation_phase reads where folder is. Returns one of CA_*, or a negative code.
int ca_rotation_phase(const char *folder, struct err *err) MUST_USE;

// Each step returns 0; -ERR_CONFLICT when it is not its turn; or another negative code.
// ca_rotation_begin makes a CA that is trusted from now on. now: seconds since 1970.
int ca_rotation_begin(const char *folder, int64_t now, struct err *err) MUST_USE;

// ca_rotation_issue makes the new CA the one that signs. Who keeps certificates in folder
// (pki_prepare) renews them.
int ca_rotation_issue(const char *folder, struct err *err) MUST_USE;

// ca_rotation_finish drops the old CA. Unless force is set, returns -ERR_CONFLICT while a file of
// folder holds a certificate of it.
int ca_rotation_finish(const char *folder, bool force, struct err *err) MUST_USE;

#endif
