// SPDX-License-Identifier: Apache-2.0
//
// Why a node takes no pods, and what would help.
#include "api/match/taint.h"
#include "cmd/objects/objects.h"
#include "cmd/why/why_object.h"
#include "codec/json_writer.h"

#include "base/banned.h"

struct node_look {
    struct str name;
    const yyjson_val *node;
    struct sbuf cause, remedies;
    size_t fixes;
};

// A remedy of the node: patch NULL means that no request can carry it out.
static void node_add_remedy(struct node_look *n, const char *kind, const char *patch,
                            const char *text, const char *command)
{
    struct json_writer w = {.out = &n->remedies};
    sbuf_addz(&n->remedies, n->fixes++ ? "," : "");
    json_write_object_begin(&w);
    json_write_number(&w, "fix", (int64_t)n->fixes);
    json_write_text(&w, "by", STR("admin"));
    json_write_flag(&w, "verified", false);
    json_write_flag(&w, "executable", patch != NULL);
    json_write_array_in(&w, "changes");
    json_write_object_begin(&w);
    json_write_text(&w, "kind", str_z(kind));
    json_write_text(&w, "action", patch ? STR("patch") : STR("manual"));
    json_write_text(&w, "text", str_z(text));
    json_write_object_in(&w, "object");
    json_write_text(&w, "kind", STR("Node"));
    json_write_text(&w, "name", n->name);
    json_write_object_end(&w);
    if (patch) {
        json_write_key(&w, STR("patch"));
        json_write_raw(&w, str_z(patch));
    }
    if (command)
        json_write_text(&w, "command", str_z(command));
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
}

static void node_blame(struct node_look *n, const char *text)
{
    sbuf_addf(&n->cause, "%s%s", n->cause.n ? "; " : "", text);
}

static void node_look_at_conditions(struct node_look *n)
{
    const yyjson_val *all = objects_list(n->node, "status.conditions");
    if (!all)
        return;
    json_arr_foreach(all, c) {
        struct str type = json_get_str(c, "type"), status = json_get_str(c, "status");
        bool ready = str_eqz(type, "Ready");
        bool fault = ready || str_ends(type, STR("Pressure")) ||
                     str_eqz(type, "NetworkUnavailable") || str_eqz(type, "DRAUnprepareBlocked");
        cleanup_sbuf struct sbuf line = {0}, help = {0};
        if (!fault || str_eqz(status, ready ? "True" : "False"))
            continue;
        sbuf_addf(&line, "%s%.*s: %.*s", ready ? "it is not ready, " : "it has ", STR_ARG(type),
                  STR_ARG(json_get_str(c, "message")));
        if (ready) {
            sbuf_clear(&line);
            sbuf_addf(&line, "it is not ready: %.*s", STR_ARG(json_get_str(c, "message")));
        }
        node_blame(n, line.p);
        sbuf_addf(&help, "%s",
                  ready ? "see that its agent or kubelet runs and reaches the server"
                        : "give the node what it lacks: the condition goes by itself");
        node_add_remedy(n, "repairNode", NULL, help.p, NULL);
    }
}

static void node_look_at_taints(struct node_look *n)
{
    const yyjson_val *all = objects_list(n->node, "spec.taints");
    size_t i = 0;
    if (!all)
        return;
    json_arr_foreach(all, t) {
        struct str key = json_get_str(t, "key"), effect = json_get_str(t, "effect");
        size_t at = i++;
        cleanup_sbuf struct sbuf line = {0}, patch = {0}, command = {0}, text = {0};
        if (taint_is_soft(effect) || str_starts(key, STR("node.kubernetes.io/")))
            continue;
        sbuf_addf(&line, "it has taint %.*s%s%.*s:%.*s", STR_ARG(key),
                  json_get_str(t, "value").n ? "=" : "", STR_ARG(json_get_str(t, "value")),
                  STR_ARG(effect));
        node_blame(n, line.p);
        sbuf_addf(&command, "kubectl taint node %.*s %.*s:%.*s-", STR_ARG(n->name), STR_ARG(key),
                  STR_ARG(effect));
        sbuf_addf(&patch, "[{\"op\":\"test\",\"path\":\"/spec/taints/%zu/key\",\"value\":", at);
        sbuf_add_json_str(&patch, key, false);
        sbuf_addf(&patch, "},{\"op\":\"remove\",\"path\":\"/spec/taints/%zu\"}]", at);
        sbuf_addf(&text, "take the taint away: %s", command.p);
        node_add_remedy(n, "untaint", patch.p, text.p, command.p);
    }
}

static void node_look_at_cordon(struct node_look *n)
{
    bool cordoned = false;
    const yyjson_val *v = objects_at(n->node, "spec.unschedulable");
    cleanup_sbuf struct sbuf text = {0}, command = {0};
    if (v)
        (void)!json_to_bool(v, &cordoned, NULL);
    if (!cordoned)
        return;
    node_blame(n, "it is cordoned (unschedulable)");
    sbuf_addf(&command, "kubectl uncordon %.*s", STR_ARG(n->name));
    sbuf_addf(&text, "let node %.*s take pods again: %s", STR_ARG(n->name), command.p);
    node_add_remedy(n, "uncordon",
                    "[{\"op\":\"add\",\"path\":\"/spec/unschedulable\",\"value\":false}]", text.p,
                    command.p);
}

int why_node(struct why_source *s, struct str name, struct sbuf *out, struct err *err)
{
    struct json_doc doc = {0};
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addf(&target, "/api/v1/nodes/%.*s", STR_ARG(name));
    int r = why_source_get(s, target.p, &doc, err);
    struct node_look n = {.name = name, .node = doc.root};
    if (r == 0) {
        struct json_writer w = {.out = out};
        node_look_at_conditions(&n);
        node_look_at_cordon(&n);
        node_look_at_taints(&n);
        json_write_object_begin(&w);
        json_write_text(&w, "kind", STR("Node"));
        json_write_text(&w, "name", name);
        json_write_text(&w, "state", n.cause.n ? STR("failing") : STR("running"));
        json_write_text_if(&w, "cause", sbuf_str(&n.cause));
        cleanup_sbuf struct sbuf all = {0};
        sbuf_addf(&all, "[%.*s]", STR_ARG(sbuf_str(&n.remedies)));
        json_write_key(&w, STR("remedies"));
        json_write_raw(&w, sbuf_str(&all));
        json_write_object_end(&w);
    }
    sbuf_done(&n.cause);
    sbuf_done(&n.remedies);
    json_doc_done(&doc);
    return r;
}
