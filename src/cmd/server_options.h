// SPDX-License-Identifier: Apache-2.0
//
// What `dray server` is told, on the command line and in its configuration file.
#ifndef CMD_SERVER_OPTIONS_H
#define CMD_SERVER_OPTIONS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

struct server_flags {
    const char *data_dir;
    const char *listen;
    const char *advertise_address; // NULL: by listen
    const char *unix_path;
    const char *feature_gates;
    const char *runtime_config;
    const char *kubeconfig_out;
    const char *log_level;
    const char *token_file;
    const char *authorization_mode;
    const char *disable_admission_plugins;
    const char *restore;
    const char *history_events;
    const char *bookmark_interval; // milliseconds; for tests
    const char *kubelet_ca, *kubelet_certificate, *kubelet_key;
    const char *kubelet_address_types;
    bool kubelet_insecure;
    bool insecure_http;
    bool anonymous_auth;
    struct arena arena; // texts from the file
};

// server_flags_parse reads the arguments and, if they name one, the configuration file: YAML with
// the same names. Arguments win. Returns 0; -ERR_INVALID for arguments that make no sense;
// -ERR_BAD_REQUEST for a file that does not; or an errno.
int server_flags_parse(int argc, char **argv, struct server_flags *ret, struct err *err) MUST_USE;
void server_flags_done(struct server_flags *f);

#endif
