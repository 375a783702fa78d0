// SPDX-License-Identifier: Apache-2.0
//
// Records what happens to objects as core/v1 Events, as client-go's recorder does. The
// same event again is counted up, many similar ones become one, and a source that sends too many
// about an object is cut short. Never in the way: what cannot be sent is dropped.
#ifndef CLIENT_EVENTS_H
#define CLIENT_EVENTS_H

#include "client/client.h"

struct event_recorder;

struct event_recorder_options {
    struct client *client;
    struct str component; // the reporting component: default-scheduler
    struct str host;      // where; may be empty
};

struct event_recorder *events_recorder_new(const struct event_recorder_options *options);

// events_recorder_free drops what was not sent yet.
void events_recorder_free(struct event_recorder *r);

#define EVENT_NORMAL  STR("Normal")
#define EVENT_WARNING STR("Warning")

// events_record records an event about an object. Everything is copied.
void events_record(struct event_recorder *r, const struct typed_object *about, struct str type,
                   struct str reason, struct str message);

// events_record_ref is the same for an object that is known by reference alone.
void events_record_ref(struct event_recorder *r, const struct api_object_reference *about,
                       struct str type, struct str reason, struct str message);

// events_recorder_idle reports whether everything has been sent or dropped.
bool events_recorder_idle(const struct event_recorder *r);

#endif
