// SPDX-License-Identifier: Apache-2.0
//
// Events for people, without floods: one object for each subject and reason, which counts; it is
// written again when its text changed or a minute has passed, and all together are limited in number.
// Private to src/sched.
#ifndef SCHED_EVENT_H
#define SCHED_EVENT_H

#include "client/client.h"

struct events;

struct events *events_new(struct client *client, struct str component);

void events_free(struct events *e);

// events_record: type is Normal or Warning.
void events_record(struct events *e, const struct client_object *about, const char *type,
                   const char *reason, struct str message);

#endif
