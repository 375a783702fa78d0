// SPDX-License-Identifier: Apache-2.0
//
// Where past holders of devices are recorded: ConfigMaps in kube-system with a label, one for each
// of a fixed number of groups of pools, with a line of JSON a device and holder under one key.
// Written by ctl/device/history.c, read by plan/view/past.c (docs/design/controllers.md, History).
#ifndef API_MATCH_DEVICE_HISTORY_H
#define API_MATCH_DEVICE_HISTORY_H

#define DEVICE_HISTORY_NAMESPACE "kube-system"
#define DEVICE_HISTORY_LABEL     "dray.dev/history"
#define DEVICE_HISTORY_VALUE     "devices"
#define DEVICE_HISTORY_KEY       "records"

#endif
