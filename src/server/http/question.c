// SPDX-License-Identifier: Apache-2.0
//
// Questions to the components of this process: explanations, their metrics, and the comparison of
// their caches with the store. The components run on another thread, so the request waits for the
// answer; its client may disconnect meanwhile.
#include <stdlib.h>

#include "server/http/server_int.h"

#include "base/banned.h"

struct question {
    struct server_question q;
    struct exchange *ex;
};

void server_set_components(struct server *s, server_ask_fn fn, void *arg)
{
    s->components = (struct server_components){fn, arg};
}

static void question_on_client_gone(void *arg)
{
    struct exchange *ex = arg;
    ex->q = NULL;
}

static void question_ask(struct exchange *ex, enum server_topic topic)
{
    struct question *w = xcalloc(1, sizeof(*w));
    w->ex = ex;
    w->q = (struct server_question){.topic = topic,
                                    .kind = query_str(&ex->query, STR("kind")),
                                    .namespace = query_str(&ex->query, STR("namespace")),
                                    .name = query_str(&ex->query, STR("name"))};
    ex->q->closed = question_on_client_gone;
    ex->q->arg = ex;
    ex->s->components.ask(ex->s->components.arg, &w->q);
}

// An explanation, or why there is no answer.
static void question_answer_explain(struct exchange *ex, struct server_question *q)
{
    struct str message = arena_str(&ex->arena, str_z(q->err.msg));
    if (q->code == 0)
        answer_json(ex, 200, &q->out);
    else if (q->code == -ERR_UNAVAILABLE)
        answer_fail(ex, 503, "ServiceUnavailable", message, NULL);
    else if (q->code == -ERR_NOT_FOUND)
        answer_fail(ex, 404, "NotFound", message, NULL);
    else
        answer_fail(ex, 400, "BadRequest", message, NULL);
}

static void question_answer_check(struct exchange *ex, struct str differences)
{
    struct sbuf out = {0};
    sbuf_addf(&out, "{\"equal\":%s,\"differences\":[", differences.n == 0 ? "true" : "false");
    for (size_t i = 0; differences.n; i++) {
        struct str line;
        (void)str_cut(differences, '\n', &line, &differences);
        if (i)
            sbuf_addc(&out, ',');
        sbuf_add_json_str(&out, line, false);
    }
    sbuf_addz(&out, "]}");
    answer_json(ex, 200, &out);
}

void server_answer(struct server_question *q)
{
    struct question *w = container_of(q, struct question, q);
    struct exchange *ex = w->ex;
    if (q->topic == SERVER_METRICS)
        document_answer_metrics(ex, sbuf_str(&q->out));
    else if (q->topic == SERVER_CHECK && q->code == 0)
        question_answer_check(ex, sbuf_str(&q->out));
    else
        question_answer_explain(ex, q);
    sbuf_done(&q->out);
    free(w);
}

// True: the user may ask, and there is a component to ask. False: answered.
static bool question_is_permitted(struct exchange *ex, const char *refusal)
{
    if (!document_is_master(&ex->user)) {
        answer_fail(ex, 403, "Forbidden", str_z(refusal), NULL);
        return false;
    }
    if (!ex->s->components.ask) {
        answer_fail(ex, 404, "NotFound",
                    STR("no scheduler runs in this process; 'dray up' starts one"), NULL);
        return false;
    }
    return true;
}

void question_serve_explain(struct exchange *ex)
{
    if (question_is_permitted(ex, "only members of system:masters get explanations"))
        question_ask(ex, SERVER_EXPLAIN);
}

void question_serve_check(struct exchange *ex)
{
    if (question_is_permitted(ex, "only members of system:masters may check"))
        question_ask(ex, SERVER_CHECK);
}

void question_serve_metrics(struct exchange *ex)
{
    if (ex->s->components.ask)
        question_ask(ex, SERVER_METRICS);
    else
        document_answer_metrics(ex, STR(""));
}
