// SPDX-License-Identifier: Apache-2.0
//
// Options of the API server: of `dray server` and `dray up`.
#ifndef CMD_RUN_SERVER_OPTIONS_H
#define CMD_RUN_SERVER_OPTIONS_H

#include "cmd/engine/cli.h"

struct server_flags {
    const char *data_dir;
    const char *listen;
    const char *advertise_address; // NULL: by listen
    const char *unix_path;
    const char *feature_gates;
    const char *runtime_config;
    const char *kubeconfig_out;
    const char *token_file;
    const char *authorization_mode;
    const char *disable_admission_plugins;
    const char *restore;
    int64_t history_events;
    int64_t bookmark_ms; // for tests
    const char *kubelet_ca, *kubelet_certificate, *kubelet_key;
    const char *kubelet_address_types;
    struct {
        const char *defaults, *exempt_users, *exempt_namespaces, *exempt_runtime_classes;
    } podsec;
    struct {
        const char *policy_file, *log_path;
        int64_t max_age_days, max_backups, max_size_mb;
    } audit;
    struct {
        const char *issuer, *client_id, *username_claim, *username_prefix;
        const char *groups_claim, *groups_prefix, *algs, *ca_file;
        struct cli_texts required;
    } oidc;
    struct {
        int64_t max_bytes, namespace_percent;
        bool salvage;
        const char *encryption; // configuration file
    } database;
    bool kubelet_insecure;
    bool insecure_http;
    bool anonymous_auth;
    bool any_port; // take another port of loopback if that of `listen` is in use
};

// What the options set, with defaults.
extern struct server_flags server_flags;
extern const struct cli_group server_group;

#endif
