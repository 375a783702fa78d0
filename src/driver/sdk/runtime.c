// SPDX-License-Identifier: Apache-2.0
//
// The runtime: a loop, a client, the drivers on them.
#include <signal.h>
#include <stdlib.h>

#include "base/err_public.h"
#include "client/remote.h"
#include "codec/json.h"
#include "driver/sdk/sdk.h"

#include "base/banned.h"

static struct dray_runtime *runtime_make(void)
{
    struct dray_runtime *r = xcalloc(1, sizeof(*r));
    list_init(&r->drivers);
    return r;
}

struct dray_runtime *sdk_runtime_around(struct loop *loop, struct client *client)
{
    struct dray_runtime *r = runtime_make();
    r->loop = loop;
    r->client = client;
    r->exec = loop_exec(loop);
    r->borrowed = true;
    return r;
}

// --- The server's version ------------------------------------------------------------------------

static void version_answered(void *arg, int code, const struct err *err, struct str body)
{
    struct dray_runtime *r = arg;
    (void)err;
    cleanup_json_doc struct json_doc doc = {0};
    if (code != 0 || json_parse(body, NULL, &doc, NULL) != 0)
        return; // the slices' own errors tell more
    const yyjson_val *minor = json_get(doc.root, STR("minor"));
    if (!minor || !json_is_string(minor))
        return;
    struct str digits = json_str(minor);
    while (digits.n && (digits.p[digits.n - 1] < '0' || digits.p[digits.n - 1] > '9'))
        digits.n--; // "34+"
    if (str_to_i64(digits, &r->minor) != 0 || r->minor > 34 || r->minor == 0)
        return;
    list_foreach(&r->drivers, n)
        publish_old_server(list_entry(n, struct dray_driver, node)->publisher);
}

static int connect_to(struct dray_runtime *r, const struct dray_runtime_options *o, struct err *err)
{
    struct kubeconfig_target target = {0};
    int code = kubeconfig_find(&r->config, o->kubeconfig, o->context, &target, err);
    if (code != 0)
        return code;
    const struct client_remote_options remote = {
        .target = &target, .user_agent = str_z(o->user_agent ? o->user_agent : "dray-driver")};
    code = client_remote_new(r->loop, &remote, &r->client, err);
    if (code == 0)
        client_remote_raw(r->client, "GET", STR("/version"), STR(""), version_answered, r);
    return code;
}

int dray_runtime_new(const struct dray_runtime_options *options, struct dray_runtime **ret,
                     struct dray_error *err)
{
    const struct dray_runtime_options none = {0};
    struct dray_runtime *r = runtime_make();
    struct err why = {0};
    int code = loop_new(&r->loop, &why);
    if (code == 0) {
        r->exec = loop_exec(r->loop);
        code = connect_to(r, options ? options : &none, &why);
    }
    if (code != 0) {
        dray_runtime_free(r);
        return err_to_public(err, &why);
    }
    *ret = r;
    return 0;
}

// --- Stopping ------------------------------------------------------------------------------------

static void begin_stop(void *arg)
{
    struct dray_runtime *r = arg;
    if (r->stopped)
        return;
    r->stopped = true;
    r->stopping = 1; // until all are notified
    list_foreach(&r->drivers, n) {
        r->stopping++;
        sdk_driver_stop(list_entry(n, struct dray_driver, node));
    }
    if (--r->stopping == 0)
        loop_stop(r->loop);
}

void dray_runtime_stop(struct dray_runtime *r)
{
    exec_post(r->exec, begin_stop, r);
}

void dray_runtime_run(struct dray_runtime *r)
{
    if (loop_on_signal(r->loop, SIGTERM, begin_stop, r, NULL) == 0 &&
        loop_on_signal(r->loop, SIGINT, begin_stop, r, NULL) == 0)
        loop_run(r->loop);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

// Lets the loop turn once more: calls that the client gave up get their answer.
static void runtime_turn_loop(struct loop *loop)
{
    exec_post(loop_exec(loop), stop_loop, loop);
    loop_run(loop);
}

void dray_runtime_free(struct dray_runtime *r)
{
    if (!r)
        return;
    // One that never ran has work that was posted: it is done, so that nothing is lost or leaked.
    if (!r->borrowed && r->loop && !r->stopped) {
        dray_runtime_stop(r);
        loop_run(r->loop);
    }
    list_foreach(&r->drivers, n)
        sdk_driver_end(list_entry(n, struct dray_driver, node));
    // What the last callbacks, and others since the loop ended, requested of a driver is done while
    // it is still there.
    if (!r->borrowed && r->loop && !list_empty(&r->drivers))
        runtime_turn_loop(r->loop);
    list_foreach(&r->drivers, n)
        sdk_driver_free(list_entry(n, struct dray_driver, node));
    if (!r->borrowed) {
        if (r->client)
            client_free(r->client);
        if (r->client && r->loop)
            runtime_turn_loop(r->loop);
        if (r->loop)
            loop_free(r->loop);
    }
    kubeconfig_done(&r->config);
    free(r);
}
