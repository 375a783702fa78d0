// SPDX-License-Identifier: Apache-2.0
//
// dray token: bootstrap tokens, with which machines join.
#include <stdio.h>

#include "api/api.h"
#include "base/rand.h"
#include "client/cluster_info.h"
#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/verb.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "net/address.h"
#include "pki/csr.h"
#include "view/human.h"

#include "base/banned.h"

#define SECRETS "/api/v1/namespaces/" BOOTSTRAP_NAMESPACE "/secrets"

static struct {
    struct cli_texts words;
    int64_t ttl_ns;
    const char *description, *groups;
    bool print_join, show;
} args = {.ttl_ns = INT64_C(24) * 3600 * CLOCK_NS_PER_SEC, .groups = BOOTSTRAP_NODE_GROUP};

static int token_run_create(void);
static int token_run_list(void);
static int token_run_delete(void);

static const struct cli_option create_options[] = {
    {"--ttl", NULL, "TIME", "let the token expire after this time; default 24h, 0s: never",
     .duration_ns = &args.ttl_ns},
    {"--description", NULL, "TEXT", "describe the token", .text = &args.description},
    {"--groups", NULL, "A,B",
     "set the groups of machines that authenticate with it, below system:bootstrappers:; members "
     "of the default group may become nodes",
     .text = &args.groups},
    {"--print-join-command", NULL, NULL, "print the whole command for the other machine",
     .flag = &args.print_join},
};
static const struct cli_option list_options[] = {
    {"--show-secrets", NULL, NULL, "print whole tokens instead of their IDs", .flag = &args.show},
};
static const struct cli_group create_group = CLI_GROUP("Options", create_options);
static const struct cli_group list_group = CLI_GROUP("Options", list_options);

static const struct cli_verb token_create = {
    .name = "create",
    .summary = "create a token",
    .synopsis = "create [TOKEN] [--ttl TIME] [--print-join-command] [OPTIONS]",
    .text = "Creates a token, a random one unless TOKEN is given, and prints it.",
    .groups = {&create_group, &common_cluster},
    .words = &args.words,
    .words_most = 1,
    .run = token_run_create,
};
static const struct cli_verb token_list = {
    .name = "list",
    .summary = "list tokens",
    .synopsis = "list [--show-secrets] [OPTIONS]",
    .text = "Lists tokens with their expiration, groups and descriptions.",
    .groups = {&list_group, &common_cluster},
    .run = token_run_list,
};
static const struct cli_verb token_delete = {
    .name = "delete",
    .summary = "delete tokens",
    .synopsis = "delete ID… [OPTIONS]",
    .text = "Deletes tokens by their IDs.",
    .groups = {&common_cluster},
    .words = &args.words,
    .word = "ID",
    .words_least = 1,
    .run = token_run_delete,
};
static const struct cli_verb *const token_verbs[] = {&token_create, &token_list, &token_delete,
                                                     NULL};

const struct cli_verb token_verb = {
    .name = "token",
    .summary = "create, list and delete tokens for joining machines",
    .chapter = CLI_CLUSTER,
    .text = "Tokens authenticate machines that join the cluster (see 'dray help join'), as "
            "kubeadm's do: Secrets "
            "bootstrap-token-ID in kube-system. A token is ID.SECRET: six and sixteen characters "
            "of a-z and 0-9.",
    .examples = "dray token create --print-join-command\n"
                "dray token create --ttl 1h --description 'the new rack'\n"
                "dray token list\ndray token delete abcdef",
    .subverbs = token_verbs,
};

static int token_send_request(struct cluster *c, const char *method, struct str target,
                              struct str body, struct sbuf *out, struct err *err)
{
    const struct client_raw_request q = {.method = method, .target = target, .body = body};
    return cluster_request(c, q, out, err);
}

// --- create --------------------------------------------------------------------------------------

static void add_random(struct sbuf *out, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t i = 0; i < n; i++)
        sbuf_addc(out, letters[rng_below(rng_system(), sizeof(letters) - 1)]);
}

static void write_secret(const struct bootstrap_token *token, struct json_writer *w)
{
    cleanup_sbuf struct sbuf name = {0}, until = {0};
    int64_t now_ns = clock_wall_ns(clock_system());
    sbuf_addf(&name, BOOTSTRAP_PREFIX "%.*s", STR_ARG(token->id));
    json_write_object_begin(w);
    json_write_text(w, "apiVersion", STR("v1"));
    json_write_text(w, "kind", STR("Secret"));
    json_write_key(w, STR("metadata"));
    json_write_object_begin(w);
    json_write_text(w, "name", sbuf_str(&name));
    json_write_text(w, "namespace", STR(BOOTSTRAP_NAMESPACE));
    json_write_object_end(w);
    json_write_text(w, "type", STR(BOOTSTRAP_TYPE));
    json_write_key(w, STR("stringData"));
    json_write_object_begin(w);
    json_write_text(w, "token-id", token->id);
    json_write_text(w, "token-secret", token->secret);
    json_write_text(w, "usage-bootstrap-authentication", STR("true"));
    json_write_text(w, "usage-bootstrap-signing", STR("true"));
    if (args.groups[0])
        json_write_text(w, "auth-extra-groups", str_z(args.groups));
    if (args.description)
        json_write_text(w, "description", str_z(args.description));
    if (args.ttl_ns > 0) {
        rfc3339_write_seconds(moment_from_ns(now_ns + args.ttl_ns), &until);
        json_write_text(w, "expiration", sbuf_str(&until));
    }
    json_write_object_end(w);
    json_write_object_end(w);
}

static int token_check_groups(struct err *err)
{
    struct str list = str_z(args.groups);
    while (list.n) {
        struct str one;
        str_cut(list, ',', &one, &list);
        if (!bootstrap_group_ok(one))
            return err_set(
                err, ERR_INVALID,
                "--groups: '%.*s' is not a group below system:bootstrappers:", STR_ARG(one));
    }
    return 0;
}

// read_info reads how other machines reach the cluster, and the hash of its CA.
static int read_info(struct cluster *c, struct arena *arena, struct cluster_info *ret,
                     char pin[CSR_PIN_BYTES], struct err *err)
{
    cleanup_sbuf struct sbuf body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int r = cluster_get(c, CLUSTER_INFO_PATH, &body, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND,
                       "the cluster has no ConfigMap kube-public/cluster-info: 'dray up' makes it "
                       "at its start, unless it serves plain HTTP");
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r < 0)
        return r;
    const yyjson_val *data =
        doc.root && json_is_object(doc.root) ? json_get(doc.root, STR("data")) : NULL;
    const yyjson_val *text =
        data && json_is_object(data) ? json_get(data, STR(CLUSTER_INFO_TEXT)) : NULL;
    if (!text || !json_is_string(text))
        return err_set(err, ERR_INVALID,
                       "the ConfigMap kube-public/cluster-info holds no kubeconfig");
    r = cluster_info_parse(json_str(text), arena, ret, err);
    return r < 0 ? r : csr_pin(ret->ca_pem, pin, err);
}

// join_command makes the command for the other machine, but for the token.
static int join_command(struct cluster *c, struct sbuf *out, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct cluster_info info = {0};
    char pin[CSR_PIN_BYTES];
    int r = read_info(c, &arena, &info, pin, err);
    if (r < 0)
        return r;
    struct str address = str_from(info.server, STR("https://").n), host, port;
    if (!address_split(address, &host, &port) || address_is_loopback(host))
        return err_set(err, ERR_INVALID,
                       "no other machine can join: the server listens at %.*s only. Start it with "
                       "'dray up --listen 0.0.0.0:%.*s' (and --advertise-address HOST where "
                       "others reach it by another address), then ask again",
                       STR_ARG(address), STR_ARG(port));
    sbuf_addf(out, "dray join %.*s --ca-hash sha256:%s --token ", STR_ARG(address), pin);
    return 0;
}

static int token_create_secret(struct cluster *c, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0}, body = {0}, answer = {0}, command = {0};
    struct json_writer w = {.out = &body};
    struct bootstrap_token token = {0};
    if (args.words.n) {
        sbuf_addz(&text, args.words.p[0]);
    } else {
        add_random(&text, BOOTSTRAP_ID_LEN);
        sbuf_addc(&text, '.');
        add_random(&text, BOOTSTRAP_SECRET_LEN);
    }
    if (!bootstrap_token_parse(sbuf_str(&text), &token))
        return err_set(err, ERR_INVALID,
                       "a token is ID.SECRET: six and sixteen of a-z and 0-9, such as "
                       "abcdef.0123456789abcdef");
    write_secret(&token, &w);
    int r = token_check_groups(err);
    if (r == 0 && args.print_join)
        r = join_command(c, &command, err);
    if (r == 0)
        r = token_send_request(c, "POST", STR(SECRETS), sbuf_str(&body), &answer, err);
    if (r == -ERR_ALREADY_EXISTS)
        return err_set(err, ERR_ALREADY_EXISTS,
                       "there is a token with the ID %.*s already: 'dray token delete %.*s' first",
                       STR_ARG(token.id), STR_ARG(token.id));
    if (r == 0)
        printf("%.*s%s\n", STR_ARG(sbuf_str(&command)), text.p);
    return r;
}

// --- list, delete --------------------------------------------------------------------------------

static void token_add_row(struct view_table *t, const struct api_secret *secret,
                          struct arena *arena)
{
    struct bootstrap_secret s = {0};
    struct err err = {0};
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    cleanup_sbuf struct sbuf left = {0};
    if (bootstrap_secret_read(secret, arena, &s, &err) < 0) {
        view_table_cell(t, secret->metadata.name, VIEW_PLAIN);
        view_table_cell(t, STR("none"), VIEW_PLAIN);
        view_table_cell(t, STR(""), VIEW_PLAIN);
        view_table_cell(t, str_z(err.msg), VIEW_PLAIN);
        return;
    }
    if (args.show)
        view_table_cellf(t, VIEW_PLAIN, "%.*s.%.*s", STR_ARG(s.token.id), STR_ARG(s.token.secret));
    else
        view_table_cell(t, s.token.id, VIEW_PLAIN);
    if (!s.expires)
        sbuf_addz(&left, "for ever");
    else if (bootstrap_expired(&s, now))
        sbuf_addz(&left, "expired");
    else
        view_add_duration(&left, s.expires - now);
    view_table_cell(t, sbuf_str(&left), VIEW_PLAIN);
    view_table_cellf(t, VIEW_PLAIN, "%s%s%s", s.authenticates ? "authentication" : "",
                     s.authenticates && s.signs ? "," : "", s.signs ? "signing" : "");
    view_table_cell(t, s.description, VIEW_PLAIN);
}

static int token_list_secrets(struct cluster *c, struct err *err)
{
    cleanup_sbuf struct sbuf body = {0}, out = {0};
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_view_table struct view_table t = {0};
    struct view_layout layout;
    const struct api_kind *kind = api_kind_find(STR("v1"), STR("Secret"));
    int r = common_layout(&layout, err);
    if (r == 0)
        r = cluster_get(c, SECRETS "?fieldSelector=type%3D" BOOTSTRAP_TYPE, &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r < 0)
        return r;
    view_table_column(&t, args.show ? STR("TOKEN") : STR("ID"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("LEFT"), 0);
    view_table_column(&t, STR("USES"), 0);
    view_table_column(&t, STR("DESCRIPTION"), 0);
    const yyjson_val *items =
        doc.root && json_is_object(doc.root) ? json_get(doc.root, STR("items")) : NULL;
    if (items && json_is_array(items))
        json_arr_foreach(items, item) {
            struct api_object o;
            if (api_decode_as(kind, &doc, item, &arena, NULL, &o, err) == 0)
                token_add_row(&t, o.value, &arena);
        }
    view_table_write(&t, &layout, &out);
    return common_print(sbuf_str(&out), err);
}

static int token_delete_all(struct cluster *c, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < args.words.n; i++) {
        struct str id, rest;
        cleanup_sbuf struct sbuf target = {0}, answer = {0};
        str_cut(str_z(args.words.p[i]), '.', &id, &rest);
        sbuf_addz(&target, SECRETS "/" BOOTSTRAP_PREFIX);
        client_escape(&target, id);
        r = token_send_request(c, "DELETE", sbuf_str(&target), (struct str){0}, &answer, err);
        if (r == -ERR_NOT_FOUND)
            return err_set(err, ERR_NOT_FOUND, "there is no token with the ID %.*s", STR_ARG(id));
        if (r == 0)
            printf("token %.*s deleted\n", STR_ARG(id));
    }
    return r;
}

static int token_run(int (*fn)(struct cluster *, struct err *))
{
    struct cluster c = {0};
    struct err err = {0};
    int r = common_open(&c, &err);
    if (r == 0)
        r = fn(&c, &err);
    cluster_close(&c);
    return r < 0 ? common_fail("token", &err) : VERB_OK;
}

static int token_run_create(void)
{
    return token_run(token_create_secret);
}

static int token_run_list(void)
{
    return token_run(token_list_secrets);
}

static int token_run_delete(void)
{
    return token_run(token_delete_all);
}
