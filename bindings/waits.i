// SPDX-License-Identifier: Apache-2.0
// How Go and Java wait for an offload: they have no use for its descriptor.

%ignore kvc_offload_event_fd;
%{
#include <poll.h>
%}
%inline %{
/* Until a tier has done something, or so many milliseconds are over (-1 = never). */
static void kvc_offload_wait(kvc_offload *o, int32_t milliseconds) {
  struct pollfd file = {-1, POLLIN, 0};
  if (kvc_offload_event_fd(o, &file.fd) == KVC_OK) poll(&file, 1, milliseconds);
}
%}
