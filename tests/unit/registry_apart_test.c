// SPDX-License-Identifier: Apache-2.0
//
// Patches on another thread: an object that changed or went meanwhile, and a stop before, during and after
// the work. The thread is real; when it starts is the test's choice.
#include <pthread.h>
#include <unistd.h>

#include "base/exec.h"

// Work that was handed over.
static struct {
    exec_fn work, after;
    void *job;
    int sent;
    pthread_t thread;
} apart;

static void apart_hand_over(void *arg, exec_fn work, exec_fn after, void *job);

#define WORLD_OFFLOAD         \
    {                         \
        apart_hand_over, NULL \
    }
#include "registry_world.h"

#include "base/banned.h"

#define LARGE_BYTES ((size_t)80 * 1024)

static void apart_hand_over(void *arg, exec_fn work, exec_fn after, void *job)
{
    (void)arg;
    assert_null(apart.job); // one at a time
    apart.work = work;
    apart.after = after;
    apart.job = job;
    apart.sent++;
}

static void *apart_run_thread(void *arg)
{
    int64_t *pause_us = arg;
    (void)usleep((useconds_t)*pause_us);
    apart.work(apart.job);
    return NULL;
}

static void apart_begin(int64_t *pause_us)
{
    assert_int_equal(pthread_create(&apart.thread, NULL, apart_run_thread, pause_us), 0);
}

// apart_end waits for the thread and continues on the loop.
static void apart_end(struct world *w)
{
    assert_int_equal(pthread_join(apart.thread, NULL), 0);
    apart.after(take_ptr(apart.job));
    world_run(w);
}

static void apart_step(struct world *w)
{
    int64_t at_once = 0;
    apart_begin(&at_once);
    apart_end(w);
}

static const char *large_text(struct sbuf *text, int n)
{
    sbuf_clear(text);
    sbuf_addf(text, "{\"metadata\":{\"name\":\"a\"},\"data\":{\"n\":\"%d\",\"large\":\"", n);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        sbuf_addc(text, 'x');
    sbuf_addz(text, "\"}}");
    return text->p;
}

// apart_change writes the object while a patch is elsewhere, by a request of its own.
static void apart_change(struct world *w, int n)
{
    cleanup_sbuf struct sbuf text = {0};
    struct reply reply = {0};
    const struct registry_request request = world_request(w, CONFIG("a"));
    struct api_object body = world_body(w, request.kind, large_text(&text, n));
    registry_update(w->registry, &request, &body, &w->arena, world_answered, &reply);
    world_run(w);
    assert_int_equal(reply.code, 0);
    reply_done(&reply);
}

// apart_patch begins a patch of a large object, which leaves the loop.
static void apart_patch(struct world *w)
{
    cleanup_sbuf struct sbuf text = {0};
    apart.sent = 0;
    assert_ok(do_create(w, CONFIG(NULL), large_text(&text, 0)));
    w->hold = true;
    (void)do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"data\":{\"p\":\"patched\"}}");
    world_run(w);
    assert_int_equal(w->reply.answers, 0);
    assert_int_equal(apart.sent, 1);
}

TEST_IN_WORLD(test_patched_on_another_thread)
{
    apart_patch(w);
    apart_step(w);
    assert_int_equal(w->reply.answers, 1);
    assert_ok(&w->reply);
    assert_field(w, "data.p", "patched");
    assert_field(w, "data.n", "0");
}

TEST_IN_WORLD(test_changed_meanwhile)
{
    apart_patch(w);
    apart_change(w, 1);
    apart_step(w); // the result is of the past: again
    assert_int_equal(w->reply.answers, 0);
    assert_int_equal(apart.sent, 2);
    apart_step(w);
    assert_int_equal(w->reply.answers, 1);
    assert_ok(&w->reply);
    assert_field(w, "data.p", "patched");
    assert_field(w, "data.n", "1");
}

// An object that changes all the time is patched on the loop in the end.
TEST_IN_WORLD(test_changed_again_and_again)
{
    apart_patch(w);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(w->reply.answers, 0);
        assert_int_equal(apart.sent, i);
        apart_change(w, i);
        apart_step(w);
    }
    assert_null(apart.job);
    assert_int_equal(w->reply.answers, 1);
    assert_ok(&w->reply);
    assert_field(w, "data.p", "patched");
    assert_field(w, "data.n", "3");
}

TEST_IN_WORLD(test_gone_meanwhile)
{
    apart_patch(w);
    struct reply reply = {0};
    const struct registry_request request = world_request(w, CONFIG("a"));
    registry_delete(w->registry, &request, NULL, &w->arena, world_answered, &reply);
    world_run(w);
    assert_int_equal(reply.code, 0);
    reply_done(&reply);
    apart_step(w);
    assert_int_equal(w->reply.answers, 1);
    assert_int_equal(w->reply.http, 404);
}

// The registry waits for the thread, refuses the patch, and what the loop does later finds nothing to do.
static void stop_with(struct world *w, int64_t pause_us, bool worked)
{
    apart_patch(w);
    apart_begin(&pause_us);
    if (worked)
        assert_int_equal(pthread_join(apart.thread, NULL), 0);
    registry_stop(w->registry);
    world_run(w);
    assert_int_equal(w->reply.answers, 1);
    assert_int_equal(w->reply.http, 500);
    assert_non_null(strstr(w->reply.message, "stopping"));
    if (!worked)
        assert_int_equal(pthread_join(apart.thread, NULL), 0);
    apart.after(take_ptr(apart.job));
    world_run(w);
    assert_int_equal(w->reply.answers, 1);
    (void)do_get(w, CONFIG("a"));
    assert_field(w, "data.p", "-");
    // What comes after the stop stays on the loop.
    (void)do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"data\":{\"p\":\"late\"}}");
    world_run(w);
    assert_int_equal(apart.sent, 1);
}

TEST_IN_WORLD(test_stop_before_the_work)
{
    stop_with(w, 50 * 1000, false);
}

TEST_IN_WORLD(test_stop_during_the_work)
{
    stop_with(w, 0, false);
}

TEST_IN_WORLD(test_stop_after_the_work)
{
    stop_with(w, 0, true);
}

RUN_TESTS(TEST_CASE(test_patched_on_another_thread), TEST_CASE(test_changed_meanwhile),
          TEST_CASE(test_changed_again_and_again), TEST_CASE(test_gone_meanwhile),
          TEST_CASE(test_stop_before_the_work), TEST_CASE(test_stop_during_the_work),
          TEST_CASE(test_stop_after_the_work))
