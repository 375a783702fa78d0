// SPDX-License-Identifier: Apache-2.0
//
// Encryption of objects at rest, by a file in the form of kube-apiserver's EncryptionConfiguration.
// What is written for the store: store/seal.h.
#ifndef SERVER_SEAL_H
#define SERVER_SEAL_H

#include "base/err.h"
#include "store/seal.h"

struct seal_config;

// seal_config_load reads a file that only its owner can read. Returns 0, or a negative code with an
// error that names the file and the line or field.
int seal_config_load(const char *path, struct seal_config **ret, struct err *err) MUST_USE;

// seal_config_parse reads such a text, YAML or JSON.
int seal_config_parse(struct str text, struct seal_config **ret, struct err *err) MUST_USE;

// seal_config_free wipes the keys; takes NULL. The store that uses the sealer is closed before.
void seal_config_free(struct seal_config *c);

// seal_config_sealer is the store's view of a configuration, which it lives as long as.
const struct store_sealer *seal_config_sealer(const struct seal_config *c);

#endif
