// SPDX-License-Identifier: Apache-2.0
//
// Names that the server and agents agree on about Services.
#ifndef API_SERVICE_NAMES_H
#define API_SERVICE_NAMES_H

// An annotation of default/kubernetes: nothing forwards its cluster IP, use the server's own
// address.
#define SERVICE_DIRECT "dray.dev/direct"

#endif
